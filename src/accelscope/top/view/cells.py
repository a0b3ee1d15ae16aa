"""Cells that several tables have."""

from dataclasses import dataclass
from enum import IntEnum

from accelscope.model import HARMLESS_THROTTLES, HOT_CELSIUS, HOT_MARGIN_CELSIUS, HealthState
from accelscope.top.view.shown import DeviceView
from accelscope.top.view.table import Line, Setting, Span, Tone
from accelscope.top.view.text import bar, percent, reason_of, sparkline, spoken

# --- condition ------------------------------------------------------------
# What a person must see of a device: sick, hot, full, slowed down, idle. Each has a word, so that none is
# told by a colour alone.


FULL_RATIO = 0.95


class Level(IntEnum):
    FINE = 0
    NOTE = 1
    WARNING = 2
    BAD = 3
    LOST = 4


@dataclass(frozen=True, slots=True)
class Condition:
    word: str
    level: Level
    text: str | None = None  # the reason, for a line of its own


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
    reason = reason_of(device.health_reason, device.health)
    if device.health in _HEALTH:
        known = _HEALTH[device.health]
        found.append(Condition(known.word, known.level, reason))
    elif device.stale:
        found.append(Condition("STALE", Level.WARNING, reason))
    if is_hot(device.temperature_celsius, device.temperature_slowdown_celsius):
        found.append(Condition("HOT", Level.BAD))
    slow = slowed_by(device)
    if slow:
        found.append(Condition("SLOW", Level.WARNING, ", ".join(map(spoken, slow))))
    if is_full(device.memory_used_bytes, device.memory_total_bytes):
        found.append(Condition("FULL", Level.WARNING))
    if device.unusual:
        found.append(Condition("ODD", Level.NOTE, device.unusual))
    if device.idle_ratio:
        found.append(Condition("IDLE", Level.NOTE))
    if not found and device.health is HealthState.UNKNOWN:
        found.append(Condition("?", Level.NOTE, reason))
    return tuple(sorted(found, key=lambda condition: -condition.level)) or (Condition("ok", Level.FINE),)


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
