"""Tables as lines of text of a given width: columns are dropped by priority, and long texts are cut.

A line consists of spans with a tone. The output decides how a tone looks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from accelscope.model import HARMLESS_THROTTLES, HOT_CELSIUS, HOT_MARGIN_CELSIUS, HealthState
from accelscope.top.view.model import DeviceView, History
from accelscope.top.view.text import (
    UNICODE,
    Glyphs,
    bar,
    clean,
    cut,
    health_reason_text,
    humanize,
    padded,
    percent,
    sparkline,
    width_of,
)

GAP = 1  # cells between two columns


class Tone(StrEnum):
    PLAIN = "plain"
    DIM = "dim"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    STRONG = "strong"
    TITLE = "title"  # of a column
    SORTED = "sorted"  # title of the column that is sorted by


class Span(NamedTuple):
    text: str
    tone: Tone = Tone.PLAIN


Line = list[Span]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RenderContext:
    """Common input of all cells."""

    glyphs: Glyphs = UNICODE
    now: float = 0.0  # Unix time
    history: History = field(default_factory=History)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[R]):
    """`text` returns a text, `draw` fills a given width. The columns with the highest `priority` number are
    dropped first."""

    name: str
    title: str
    priority: int
    text: Callable[[R, RenderContext], Span] | None = None
    draw: Callable[[R, int, RenderContext], Line] | None = None
    least: int = 1
    most: int = 200
    right: bool = False
    sort: Callable[[R], Any] | None = None  # rows with None come last
    largest_first: bool = True
    needed: Callable[[Sequence[R]], bool] | None = None  # None: always

    def span(self, row: R, context: RenderContext) -> Span:
        assert self.text is not None
        span = self.text(row, context)
        return Span(clean(span.text, context.glyphs), span.tone)


@dataclass(frozen=True, slots=True)
class Sort:
    column: str
    reverse: bool = False  # against the default direction of the column


@dataclass(frozen=True, slots=True)
class PlacedColumn(Generic[R]):
    column: Column[R]
    start: int
    width: int


def place(
    columns: Sequence[Column[R]],
    rows: Sequence[R],
    width: int,
    context: RenderContext,
    sort: Sort | None = None,
) -> tuple[PlacedColumn[R], ...]:
    """The columns that fit, with their positions."""
    needed = [column for column in columns if column.needed is None or column.needed(rows)]
    natural = {column.name: _natural(column, rows, context, sort) for column in needed}
    least = {column.name: min(natural[column.name], column.least) for column in needed}
    while len(needed) > 1 and sum(least[c.name] + GAP for c in needed) - GAP > width:
        needed.remove(max(needed, key=lambda column: column.priority))
    widths = {column.name: least[column.name] for column in needed}
    spare = width - sum(widths[c.name] + GAP for c in needed) + GAP
    for column in sorted(needed, key=lambda column: column.priority):
        more = max(0, min(spare, natural[column.name] - widths[column.name]))
        widths[column.name] += more
        spare -= more
    placed, start = [], 0
    for column in needed:
        placed.append(PlacedColumn(column, start, min(widths[column.name], max(0, width - start))))
        start += widths[column.name] + GAP
    return tuple(placed)


def _natural(column: Column[R], rows: Sequence[R], context: RenderContext, sort: Sort | None) -> int:
    title = width_of(_title(column, context, sort))
    if column.draw is not None:
        return max(title, column.most)
    widest = max((width_of(column.span(row, context).text) for row in rows), default=0)
    return max(title, min(widest, column.most))


def _title(column: Column[Any], context: RenderContext, sort: Sort | None) -> str:
    if sort is None or sort.column != column.name or column.sort is None:
        return column.title
    falls = column.largest_first is not sort.reverse
    return column.title + (context.glyphs.descending if falls else context.glyphs.ascending)


def title_line(placed: Sequence[PlacedColumn[R]], context: RenderContext, sort: Sort | None) -> Line:
    line: Line = []
    for at in placed:
        by_it = sort is not None and sort.column == at.column.name and at.column.sort is not None
        text = cut(_title(at.column, context, sort), at.width, context.glyphs)
        line.append(Span(padded(text, at.width, right=at.column.right), Tone.SORTED if by_it else Tone.TITLE))
        line.append(Span(" " * GAP, Tone.TITLE))
    return line[:-1]


def row_line(placed: Sequence[PlacedColumn[R]], row: R, context: RenderContext) -> Line:
    line: Line = []
    for at in placed:
        if at.column.draw is not None:
            line += at.column.draw(row, at.width, context)
        else:
            span = at.column.span(row, context)
            text = cut(span.text, at.width, context.glyphs)
            line.append(Span(padded(text, at.width, right=at.column.right), span.tone))
        line.append(Span(" " * GAP))
    return line[:-1]


def column_at(placed: Sequence[PlacedColumn[R]], x: int) -> Column[R] | None:
    """The column at this position."""
    for at in placed:
        if at.start <= x < at.start + at.width:
            return at.column
    return None


def in_order(columns: Sequence[Column[R]], rows: Sequence[R], sort: Sort | None) -> list[R]:
    """A stable sort; rows without a value come last in both directions."""
    column = next((c for c in columns if sort is not None and c.name == sort.column), None)
    if column is None or column.sort is None or sort is None:
        return list(rows)
    by = column.sort
    known = [row for row in rows if by(row) is not None]
    absent = [row for row in rows if by(row) is None]
    return sorted(known, key=by, reverse=column.largest_first is not sort.reverse) + absent


def next_sort(columns: Sequence[Column[Any]], sort: Sort | None, step: int) -> Sort:
    names = [column.name for column in columns if column.sort is not None]
    at = names.index(sort.column) if sort is not None and sort.column in names else -step % len(names)
    return Sort(names[(at + step) % len(names)])


def plain(line: Line) -> str:
    return "".join(span.text for span in line).rstrip()


# --- cells ----------------------------------------------------------------
# Conditions of devices, and cells that several tables use.


FULL_RATIO = 0.95


class Level(IntEnum):
    FINE = 0
    NOTE = 1
    WARNING = 2
    BAD = 3
    LOST = 4


@dataclass(frozen=True, slots=True)
class Condition:
    """A state of a device that the user should notice. It has a word, because there may be no colours."""

    word: str
    level: Level
    text: str | None = None  # the reason
    action: str | None = None  # what to do first


_HEALTH = {
    HealthState.LOST: Condition("LOST", Level.LOST),
    HealthState.CRITICAL: Condition("CRIT", Level.BAD),
    HealthState.WARNING: Condition("WARN", Level.WARNING),
}


def is_hot(temperature: float | None, slowdown: float | None) -> bool:
    if temperature is None:
        return False
    return temperature >= (slowdown - HOT_MARGIN_CELSIUS if slowdown else HOT_CELSIUS)


def is_full(used: int | None, total: int | None) -> bool:
    return used is not None and bool(total) and used >= FULL_RATIO * (total or 0)


def slowed_by(device: DeviceView) -> tuple[str, ...]:
    return tuple(reason for reason in device.throttles if reason not in HARMLESS_THROTTLES)


def conditions(device: DeviceView) -> tuple[Condition, ...]:
    """The worst first."""
    found = []
    reason = health_reason_text(device.health_reason, device.health)
    if device.health in _HEALTH:
        known = _HEALTH[device.health]
        found.append(Condition(known.word, known.level, reason, device.health_action))
    elif device.stale:
        found.append(Condition("STALE", Level.WARNING, reason))
    if is_hot(device.temperature_celsius, device.temperature_slowdown_celsius):
        found.append(Condition("HOT", Level.BAD))
    slow = slowed_by(device)
    if slow:
        found.append(Condition("SLOW", Level.WARNING, ", ".join(map(humanize, slow))))
    if is_full(device.memory_used_bytes, device.memory_total_bytes):
        found.append(Condition("FULL", Level.WARNING))
    if device.unusual:
        found.append(Condition("ANOMALY", Level.NOTE, device.unusual))
    if device.idle_ratio:
        found.append(Condition("IDLE", Level.NOTE))
    if not found and device.health is HealthState.UNKNOWN:
        found.append(Condition("?", Level.NOTE, reason))
    return tuple(sorted(found, key=lambda condition: -condition.level)) or (Condition("ok", Level.FINE),)


BUSY_RATIO = 0.01  # below it a device counts as idle


def use_tone(ratio: float | None) -> Tone:
    if ratio is None or ratio < BUSY_RATIO:
        return Tone.DIM
    return Tone.PLAIN


def fill_tone(ratio: float | None) -> Tone:
    if ratio is None:
        return Tone.DIM
    return Tone.WARN if ratio >= FULL_RATIO else Tone.PLAIN


def bar_cell(ratio: float | None, width: int, context: RenderContext, tone: Tone) -> Line:
    """A bar with its value at the right."""
    value = percent(ratio, context.glyphs)
    room = width - 5
    if room < 3:
        return [Span(value.rjust(width), tone if tone is not Tone.GOOD else Tone.PLAIN)]
    full, rest = bar(ratio, room, context.glyphs)
    return [Span(full, tone), Span(rest, Tone.DIM), Span(value.rjust(width - room), use_tone(ratio))]


def spark_cell(key: str, width: int, context: RenderContext) -> Line:
    return [Span(sparkline(context.history.of(key), width, context.glyphs), Tone.GOOD)]


def ratio_of(used: float | None, total: float | None) -> float | None:
    return used / total if used is not None and total else None
