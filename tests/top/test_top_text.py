"""Values as short texts; other people's texts as something that a terminal may be given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.top.view import text
from accelscope.top.view.text import ASCII, UNICODE

GIB = 1 << 30


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (text.percent(0.574, UNICODE), "57%"),
        (text.percent(None, UNICODE), "–"),  # noqa: RUF001 - what is shown
        (text.percent(0.0, UNICODE), "0%"),
        (text.percent(3.66, UNICODE), "366%"),
        (text.size(None, ASCII), "-"),
        (text.size(0, UNICODE), "0B"),
        (text.size(512 << 20, UNICODE), "512M"),
        (text.size(int(1.5 * GIB), UNICODE), "1.50G"),
        (text.size(1000 << 20, UNICODE), "0.98G"),
        (text.size_of(int(61.2 * GIB), 80 * GIB, UNICODE), "61.2/80.0G"),
        (text.size_of(None, None, UNICODE), "–"),  # noqa: RUF001
        (text.size_of(None, 80 * GIB, ASCII), "-/80.0G"),
        (text.size_of(0, 80 * GIB, ASCII), "0/80.0G"),
        (text.watts(421.7, UNICODE), "422W"),
        (text.watts(285585.0, UNICODE), "285.6kW"),
        (text.watts(4_000_000.0, UNICODE), "4.00MW"),
        (text.watts_of(None, 700.0, ASCII), "-/700W"),
        (text.watts_of(330.0, None, ASCII), "330W"),
        (text.celsius(47.4, UNICODE), "47°C"),
        (text.celsius(47.4, ASCII), "47C"),
        (text.hertz(1.98e9, ASCII), "1980MHz"),
        (text.duration(45.9, ASCII), "45s"),
        (text.duration(192, ASCII), "3m12s"),
        (text.duration(14700, ASCII), "4h05m"),
        (text.duration(12 * 86400 + 3 * 3600, ASCII), "12d03h"),
        (text.duration(319 * 86400, ASCII), "319d"),
        (text.duration(-3.0, ASCII), "0s"),
        (text.duration(None, ASCII), "-"),
        (text.ranges([3, 1, 2, 0, 6]), "0-3,6"),
        ("".join(text.bar(0.55, 10, UNICODE)), "━━━━━╸────"),
        ("".join(text.bar(0.0, 4, ASCII)), "...."),
        ("".join(text.bar(0.001, 4, ASCII)), "-..."),
        ("".join(text.bar(7.0, 4, ASCII)), "===="),
        ("".join(text.bar(None, 4, ASCII)), "    "),
        (text.sparkline([0.0, None, 1.0], 5, UNICODE), "  ▁ █"),
        (text.sparkline([0.0, 0.5, 1.0], 2, ASCII), "=#"),
    ],
)
def test_values_are_short_and_what_is_absent_is_not_zero(made: str, expected: str) -> None:
    assert made == expected


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("python3", "python3"),
        ("\x1b[31mred\x1b[0m", "?[31mred?[0m"),
        ("a\nb\tc\x07", "a?b?c?"),
        ("\x9b31m", "?31m"),  # a control sequence of one character
        ("left\u202eright", "left?right"),  # turns the direction of writing
        ("训练", "训练"),
    ],
)
def test_names_from_outside_cannot_steer_the_terminal(told: str, shown: str) -> None:
    assert text.clean(told) == shown


@given(st.text())
def test_any_text_is_cut_to_its_width_and_is_printable(told: str) -> None:
    for glyphs in (UNICODE, ASCII):
        shown = text.clean(told, glyphs)
        assert shown.isprintable()
        assert text.width_of(text.cut(shown, 7, glyphs)) <= 7
        assert shown.isascii() or not glyphs.ascii


@pytest.mark.parametrize(
    ("reason", "state", "told"),
    [
        ("lost: GPU is lost", "lost", "GPU is lost"),
        ("lost: lost: the driver says so", "lost", "the driver says so"),
        ("not_shown: the driver no longer shows it", "lost", "not shown: the driver no longer shows it"),
        ("lost", "lost", None),
        ("XID 94 (contained memory error)", "warning", "XID 94 (contained memory error)"),
        ("lost_and_found.service failed", "lost", "lost_and_found.service failed"),
        (None, "lost", None),
    ],
)
def test_reason_says_the_state_no_second_time(reason: str | None, state: str, told: str | None) -> None:
    assert text.health_reason_text(reason, state) == told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("hw_thermal_slowdown", "hw thermal slowdown"),
        ("pod_resources: no_permission: /run/a_b.sock", "pod resources: no permission: /run/a_b.sock"),
        ("timeout", "timeout"),
    ],
)
def test_words_of_programs_are_spoken(code: str, told: str) -> None:
    assert text.humanize(code) == told


def test_wide_letters_take_two_cells() -> None:
    assert text.width_of("训练a") == 5
    assert text.cut("训练a", 4, UNICODE) == "训…"
    assert text.width_of(text.padded("训", 4)) == 4
