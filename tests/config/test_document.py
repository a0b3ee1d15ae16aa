"""Sections of a document: values by kind, and errors that name the place."""

from pathlib import Path

import pytest

from accelscope.config import (
    BOOLEAN,
    TEXT,
    TEXT_MAPPING,
    Choice,
    ConfigError,
    Decimal,
    Duration,
    List,
    Size,
    WholeNumber,
)
from accelscope.config.document import Section, read_document

TYPED = {
    "count": 3,
    "ratio": 1,
    "flag": True,
    "version": 2024.1,
    "wait": 2.5,
    "size": 1024,
    "names": ["a", "b"],
}


def test_values_of_yaml_or_json_types_are_read_as_their_text_is() -> None:
    texts = {
        "count": "3",
        "ratio": "1",
        "flag": "on",
        "version": "2024.1",
        "wait": "2.5s",
        "size": "1KiB",
        "names": "a,b",
    }
    for document in (TYPED, texts):
        section = Section(document)
        assert section.take("count", WholeNumber(1, 3)) == 3
        assert section.take("ratio", Decimal(0, 1)) == 1.0
        assert section.take("flag", BOOLEAN) is True
        assert section.take("version", Choice("none", "2024.1")) == "2024.1"
        assert section.take("wait", Duration()) == 2.5
        assert section.take("size", Size()) == 1024
        assert section.take("names", List(TEXT)) == ("a", "b")
        section.finish()


HUGE = 10**400


@pytest.mark.parametrize("kind", [Decimal(), Decimal(0), Duration(), WholeNumber(0, 5), Size(), BOOLEAN])
@pytest.mark.parametrize("number", [HUGE, -HUGE, 10**5000, float("inf"), float("nan")], ids=range(5))
def test_numbers_beyond_all_bounds_are_bad_values(kind: Decimal, number: float) -> None:
    with pytest.raises(ConfigError, match=r"^a\.b: .* is not ") as raised:
        Section({"b": number}, "a").take("b", kind)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"count": "many"}, 'a.count: "many" is not a whole number of at least 1'),
        ({"count": True}, "a.count: true is not a whole number of at least 1"),
        ({"count": [1]}, "a.count: a list is not a whole number of at least 1"),
        ({}, "a.count: missing; expected a whole number of at least 1"),
        ({"count": 1, "text": 5.1}, "a.text: 5.1 is not one line of text; write it in quotes"),
        ({"count": 1, "labels": {"a": 1}}, 'the value of "a" is not a text; write it in quotes'),
        ({"count": 1, "txt": "x"}, 'a: unknown key "txt"; allowed: count, text, labels; did you mean text?'),
        ({"count": 1, 7: "x"}, "a: unknown key 7; allowed: count, text, labels"),
        ([], "a: not a mapping of keys to values"),
    ],
)
def test_an_error_names_the_place_and_what_is_allowed(document: object, problem: str) -> None:
    def read() -> None:
        section = Section(document, "a")
        section.require("count", WholeNumber(1))
        section.take("text", TEXT)
        section.take("labels", TEXT_MAPPING)
        section.finish()

    with pytest.raises(ConfigError) as raised:
        read()
    assert problem in str(raised.value)


def test_errors_about_a_file_name_the_line_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("list:\n  - a: 1\n    b:\n      c: 2\n  - a: 1\n    b: {c: 3,\n      d: 4}\n")
    first, second = Section(read_document(str(path)), file=path).sections("list")
    assert str(first.section("b").error("c", "wrong")) == f"{path}:4: list[0].b.c: wrong"
    assert str(second.error(None, "wrong")) == f"{path}:5: list[1]: wrong"
    inner = second.section("b")
    inner.take("c", WholeNumber())
    with pytest.raises(ConfigError, match=r':7: list\[1\].b: unknown key "d"; allowed: c'):
        inner.finish()
