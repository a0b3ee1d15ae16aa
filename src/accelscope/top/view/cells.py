"""Conditions of devices, and cells that several tables use."""

from dataclasses import dataclass
from enum import IntEnum

from accelscope.model import HARMLESS_THROTTLES, HOT_CELSIUS, HOT_MARGIN_CELSIUS, HealthState
from accelscope.top.view.model import DeviceView
from accelscope.top.view.table import Line, RenderContext, Span, Tone
from accelscope.top.view.text import bar, health_reason_text, humanize, percent, sparkline

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
        found.append(Condition(known.word, known.level, reason))
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
