"""Every kind reads what it allows, the same from a flag and from the file, and writes it back."""

from typing import Any

import pytest

from accelscope.config import (
    BOOLEAN,
    LABELS,
    PATH,
    PATTERNS,
    PORT,
    TEXT,
    BadValue,
    Choice,
    Decimal,
    Duration,
    List,
    Node,
    ValueKind,
    WholeNumber,
)

SECONDS = Duration()
LEVEL = Choice("debug", "info", "Warning")

GOOD: list[tuple[ValueKind[Any], str, object]] = [
    (PORT, "9400", 9400),
    (PORT, "0", 0),
    (PORT, " 65535 ", 65535),
    (WholeNumber(-5, 5), "-5", -5),
    (WholeNumber(), "+7", 7),
    (Decimal(0, 1), "0.5", 0.5),
    (Decimal(), "1e3", 1000.0),
    (Decimal(), "-2", -2.0),
    (SECONDS, "10s", 10.0),
    (SECONDS, "500ms", 0.5),
    (SECONDS, "1m", 60.0),
    (SECONDS, "1h30m", 5400.0),
    (SECONDS, "1m30.5s", 90.5),
    (SECONDS, "1d", 86400.0),
    (SECONDS, "10", 10.0),
    (SECONDS, "0.25", 0.25),
    (SECONDS, "0", 0.0),
    *[(BOOLEAN, word, True) for word in ("true", "TRUE", "yes", "on", "1")],
    *[(BOOLEAN, word, False) for word in ("false", "No", "off", "0")],
    (LEVEL, "INFO", "info"),
    (LEVEL, "warning", "Warning"),
    (TEXT, "any text, 10 % of it", "any text, 10 % of it"),
    (TEXT, "", ""),
    (PATH, "/etc/accelscope/token", "/etc/accelscope/token"),
    (LABELS, "rack=7,zone=a", {"rack": "7", "zone": "a"}),
    (LABELS, " rack = 07 , note=a=b ,", {"rack": "07", "note": "a=b"}),
    (LABELS, "", {}),
    (List(TEXT), "a, b,,a", ("a", "b")),
    (List(LEVEL), "Debug,info", ("debug", "info")),
    (PATTERNS, "accelerator_*,up", ("accelerator_*", "up")),
]


@pytest.mark.parametrize(("kind", "text", "value"), GOOD)
def test_reads_from_text_and_from_the_file(kind: ValueKind[Any], text: str, value: object) -> None:
    assert kind.parse(text) == value
    assert kind.parse_node(text) == value


@pytest.mark.parametrize(("kind", "text", "value"), GOOD)
def test_what_it_writes_it_reads_back(kind: ValueKind[Any], text: str, value: object) -> None:
    assert kind.parse(kind.text(value)) == value


@pytest.mark.parametrize(
    ("kind", "node", "value"),
    [
        (LABELS, {"rack": "07", "on": "yes"}, {"rack": "07", "on": "yes"}),
        (LABELS, {}, {}),
        (List(TEXT), ["a", "b, c"], ("a", "b, c")),
        (PATTERNS, [], ()),
    ],
)
def test_reads_lists_and_mappings_of_the_file(kind: ValueKind[Any], node: Node, value: object) -> None:
    assert kind.parse_node(node) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *[(PORT, text) for text in ("", "-1", "65536", "http", "94_00", "9400.0", "0x1F", "٣", "9" * 30)],
        *[(WholeNumber(1, 3), text) for text in ("0", "4", "1.5")],
        *[(Decimal(0, 1), text) for text in ("", "1.1", "-0.1", "nan", "inf", "0.1.2", "1_0", "x")],
        *[
            (SECONDS, text)
            for text in ("", "-1", "-1s", "10 s", "s", "1x", "10sec", "1h-5m", "nan", ".", "1e3")
        ],
        (Duration(), f"{10**400}s"),
        *[(Duration(0.1, 3600), text) for text in ("99ms", "0", "1h1ms", "3601")],
        *[(BOOLEAN, text) for text in ("", "2", "maybe", "tru")],
        *[(LEVEL, text) for text in ("", "trace")],
        *[(TEXT, text) for text in ("two\nlines", "nul\0")],
        *[(PATH, text) for text in ("", "a\0b")],
        *[(LABELS, text) for text in ("rack", "9a=1", "a-b=1", "__a=1", "a=1,a=2", "=1", "é=1")],
        (List(LEVEL), "debug,trace"),
        *[(PATTERNS, text) for text in ("a b", "(x|y)", "a{b}", "[", "[ab]_*", "a-b")],
    ],
)
def test_refuses(kind: ValueKind[Any], text: str) -> None:
    with pytest.raises(BadValue):
        kind.parse(text)


@pytest.mark.parametrize(
    ("kind", "node"),
    [
        (PORT, ["9400"]),
        (PORT, {"port": "9400"}),
        (BOOLEAN, None),
        (LABELS, ["a=1"]),
        (LABELS, {"a": ["1"]}),
        (LABELS, {"a": None}),
        (List(TEXT), {"a": "b"}),
        (List(TEXT), [["a"]]),
        (List(TEXT), [None]),
    ],
)
def test_refuses_shapes_that_are_not_its_own(kind: ValueKind[Any], node: Node) -> None:
    with pytest.raises(BadValue):
        kind.parse_node(node)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.1, "100ms"),
        (1.0, "1s"),
        (10.0, "10s"),
        (90.5, "1m30.5s"),
        (3600.0, "1h"),
        (90000.0, "25h"),
        (5400.0, "1h30m"),
    ],
)
def test_durations_are_written_as_people_write_them(seconds: float, text: str) -> None:
    assert SECONDS.text(seconds) == text
