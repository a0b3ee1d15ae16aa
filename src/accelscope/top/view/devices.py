"""The table of devices, with partitions below their devices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accelscope.model import is_idle
from accelscope.top.view.model import DeviceView, NodeView, PartitionView
from accelscope.top.view.table import (
    Column,
    Level,
    Line,
    RenderContext,
    Sort,
    Span,
    Tone,
    bar_cell,
    conditions,
    fill_tone,
    in_order,
    is_hot,
    ratio_of,
    spark_cell,
)
from accelscope.top.view.text import (
    celsius,
    clean,
    duration,
    health_reason_text,
    hertz,
    percent,
    size,
    size_of,
    watts_of,
)
from accelscope.vendors import declarations

TONES = {
    Level.FINE: Tone.GOOD,
    Level.NOTE: Tone.DIM,
    Level.WARNING: Tone.WARN,
    Level.BAD: Tone.BAD,
    Level.LOST: Tone.BAD,
}


@dataclass(frozen=True, slots=True)
class DeviceRow:
    device: DeviceView
    partition: PartitionView | None = None
    label: str = ""
    marked: bool = False
    position: int = 0  # among the devices of its node, in the order of the drivers

    @property
    def key(self) -> str:
        return self.device.key if self.partition is None else self.partition.key

    @property
    def utilization_ratio(self) -> float | None:
        return (self.partition or self.device).utilization_ratio

    @property
    def memory_used_bytes(self) -> int | None:
        return (self.partition or self.device).memory_used_bytes

    @property
    def memory_total_bytes(self) -> int | None:
        return (self.partition or self.device).memory_total_bytes

    @property
    def pods(self) -> tuple[str, ...]:
        return (self.partition or self.device).pods


def short_model(model: str | None) -> str | None:
    for vendor in declarations().values():
        if model is not None and vendor.model_prefix and model.startswith(vendor.model_prefix + " "):
            return model.removeprefix(vendor.model_prefix + " ")
    return model


def device_name(device: DeviceView, *before: str | None) -> str:
    """Number and model of the device after the given words, for sentences."""
    number = device.id if device.index is None else str(device.index)
    return " ".join(word for word in (*before, number, short_model(device.model)) if word)


def rows_of(
    node: NodeView, devices: Iterable[DeviceView], sort: Sort | None, marked: frozenset[str]
) -> list[DeviceRow]:
    """Sorted by device; partitions stay below their device."""
    several = len({device.vendor for device in node.devices}) > 1
    whole = [
        DeviceRow(device, None, _label(device, several), device.key in marked, position)
        for position, device in enumerate(devices)
    ]
    rows = []
    for row in in_order(COLUMNS, whole, sort):
        rows.append(row)
        for partition in row.device.partitions:
            label = "" if partition.index is None else str(partition.index)
            rows.append(DeviceRow(row.device, partition, label, partition.key in marked))
    return rows


def _label(device: DeviceView, several: bool) -> str:
    number = "?" if device.index is None else str(device.index)
    return f"{device.vendor} {number}" if several else number


def _index(row: DeviceRow, context: RenderContext) -> Span:
    mark = context.glyphs.mark if row.marked else " "
    if row.partition is None:
        return Span(mark + row.label, Tone.STRONG)
    return Span(f"{mark} {context.glyphs.branch}{row.label}", Tone.DIM)


def _model(row: DeviceRow, context: RenderContext) -> Span:
    if row.partition is not None:
        return Span(f"  {row.partition.label}", Tone.DIM)
    return Span(short_model(row.device.model) or context.glyphs.absent)


def _use(row: DeviceRow, width: int, context: RenderContext) -> Line:
    return bar_cell(row.utilization_ratio, width, context, Tone.GOOD)


def _spark(row: DeviceRow, width: int, context: RenderContext) -> Line:
    return spark_cell(row.key, width, context)


def _fill(row: DeviceRow, width: int, context: RenderContext) -> Line:
    ratio = ratio_of(row.memory_used_bytes, row.memory_total_bytes)
    tone = fill_tone(ratio)
    return bar_cell(ratio, width, context, tone if tone is Tone.WARN else Tone.GOOD)


def _memory(row: DeviceRow, context: RenderContext) -> Span:
    used, total = row.memory_used_bytes, row.memory_total_bytes
    if used is None and total is not None:
        return Span(f"{context.glyphs.absent}/{size(total, context.glyphs)}", Tone.DIM)
    tone = fill_tone(ratio_of(used, total)) if total else Tone.PLAIN
    return Span(
        size_of(used, total, context.glyphs) if total is not None else size(used, context.glyphs), tone
    )


def _power(row: DeviceRow, context: RenderContext) -> Span:
    if row.partition is not None:
        return Span("")
    watts, limit = row.device.power_watts, row.device.power_limit_watts
    return Span(watts_of(watts, limit, context.glyphs), Tone.DIM if watts is None else Tone.PLAIN)


def _temperature(row: DeviceRow, context: RenderContext) -> Span:
    if row.partition is not None:
        return Span("")
    device = row.device
    value = device.temperature_celsius
    tone = Tone.DIM if value is None else Tone.PLAIN
    if is_hot(value, device.temperature_slowdown_celsius):
        tone = Tone.BAD
    return Span(celsius(value, context.glyphs), tone)


def _fan(row: DeviceRow, context: RenderContext) -> Span:
    return Span("" if row.partition is not None else percent(row.device.fan_ratio, context.glyphs))


def _clock(row: DeviceRow, context: RenderContext) -> Span:
    return Span("" if row.partition is not None else hertz(row.device.clock_hertz, context.glyphs))


def _state(row: DeviceRow, context: RenderContext) -> Span:
    if row.partition is not None:
        return Span("")
    found = conditions(row.device)
    words = [condition.word for condition in found]
    if "IDLE" in words:
        words[words.index("IDLE")] = f"IDLE {_idle(row.device, context)}"
    return Span(" ".join(words), TONES[found[0].level])


def _idle(device: DeviceView, context: RenderContext) -> str:
    """The duration if all its pods are idle, otherwise the idle fraction of it."""
    if is_idle(device.idle_seconds):
        return duration(device.idle_seconds, context.glyphs)
    return percent(device.idle_ratio, context.glyphs)


def _pods(row: DeviceRow, context: RenderContext) -> Span:
    if row.device.stale and row.partition is None:
        return Span(_why(row.device, context), Tone.DIM)
    names = [clean(name, context.glyphs) for name in row.pods]
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return Span((names[0] if names else context.glyphs.absent) + more, Tone.PLAIN if names else Tone.DIM)


def _why(device: DeviceView, context: RenderContext) -> str:
    """For a stale device: its age and the reason."""
    age = None if device.read_at is None else context.now - device.read_at
    since = "never read" if age is None else f"last read {duration(age, context.glyphs)} ago"
    reason = health_reason_text(device.health_reason, device.health)
    return f"{since}: {reason}" if reason else since


def _worst(row: DeviceRow) -> tuple[int, int]:
    found = conditions(row.device)
    return int(found[0].level), len(found)


def _has_fans(rows: Sequence[DeviceRow]) -> bool:
    return any(row.device.fan_ratio is not None for row in rows)


def _has_clocks(rows: Sequence[DeviceRow]) -> bool:
    return any(row.device.clock_hertz is not None for row in rows)


def _has_pods(rows: Sequence[DeviceRow]) -> bool:
    return any(row.pods or row.device.stale for row in rows)


COLUMNS: tuple[Column[DeviceRow], ...] = (
    Column(
        name="device",
        title=" #",
        priority=0,
        text=_index,
        least=2,
        most=14,
        sort=lambda row: row.position,
        largest_first=False,
    ),
    Column(
        name="model",
        title="model",
        priority=5,
        text=_model,
        least=14,
        most=24,
        sort=lambda row: row.device.model,
        largest_first=False,
    ),
    Column(name="state", title="state", priority=1, text=_state, least=14, most=20, sort=_worst),
    Column(
        name="use",
        title="use",
        priority=2,
        draw=_use,
        least=9,
        most=15,
        sort=lambda row: row.utilization_ratio,
    ),
    Column(name="trend", title="", priority=7, draw=_spark, least=6, most=16),
    Column(
        name="fill",
        title="memory",
        priority=8,
        draw=_fill,
        least=9,
        most=13,
        sort=lambda row: ratio_of(row.memory_used_bytes, row.memory_total_bytes),
    ),
    Column(
        name="memory",
        title="used/total",
        priority=3,
        text=_memory,
        least=11,
        most=11,
        right=True,
        sort=lambda row: row.memory_used_bytes,
    ),
    Column(
        name="power",
        title="power",
        priority=4,
        text=_power,
        least=8,
        most=9,
        right=True,
        sort=lambda row: row.device.power_watts,
    ),
    Column(
        name="temperature",
        title="temp",
        priority=2,
        text=_temperature,
        least=4,
        most=5,
        right=True,
        sort=lambda row: row.device.temperature_celsius,
    ),
    Column(
        name="fan",
        title="fan",
        priority=10,
        text=_fan,
        least=4,
        most=4,
        right=True,
        sort=lambda row: row.device.fan_ratio,
        needed=_has_fans,
    ),
    Column(
        name="clock",
        title="clock",
        priority=9,
        text=_clock,
        least=7,
        most=7,
        right=True,
        sort=lambda row: row.device.clock_hertz,
        needed=_has_clocks,
    ),
    Column(name="pods", title="pods", priority=6, text=_pods, least=12, most=120, needed=_has_pods),
)
