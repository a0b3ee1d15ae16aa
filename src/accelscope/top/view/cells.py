"""Cells that several tables have."""

from accelscope.top.view.condition import FULL_RATIO
from accelscope.top.view.table import Line, Setting, Span, Tone
from accelscope.top.view.text import bar, percent, sparkline

BUSY_RATIO = 0.01  # below it a device does nothing


def use_tone(ratio: float | None) -> Tone:
    if ratio is None or ratio < BUSY_RATIO:
        return Tone.DIM
    return Tone.PLAIN


def fill_tone(ratio: float | None) -> Tone:
    if ratio is None:
        return Tone.DIM
    return Tone.WARN if ratio >= FULL_RATIO else Tone.PLAIN


def bar_cell(ratio: float | None, width: int, setting: Setting, tone: Tone) -> Line:
    """A bar with its value at the right: the bar is what is seen, the value what is read."""
    value = percent(ratio, setting.glyphs)
    room = width - 5
    if room < 3:
        return [Span(value.rjust(width), tone if tone is not Tone.GOOD else Tone.PLAIN)]
    full, rest = bar(ratio, room, setting.glyphs)
    return [Span(full, tone), Span(rest, Tone.DIM), Span(value.rjust(width - room), use_tone(ratio))]


def spark_cell(key: str, width: int, setting: Setting) -> Line:
    return [Span(sparkline(setting.history.of(key), width, setting.glyphs), Tone.GOOD)]


def ratio_of(used: float | None, total: float | None) -> float | None:
    return used / total if used is not None and total else None
