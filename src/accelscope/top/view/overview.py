"""The tables of a fleet: clusters and one page of nodes."""

from dataclasses import dataclass

from accelscope.top.view.model import ClusterSums, NodeSums, Sums
from accelscope.top.view.table import Column, Line, RenderContext, Span, Tone, bar_cell, fill_tone, spark_cell
from accelscope.top.view.text import celsius, duration, fraction, size_of, watts

STALE_SECONDS = 60.0  # older values are highlighted


@dataclass(frozen=True, slots=True)
class SumsRow:
    """A cluster or a node."""

    key: str
    label: str
    sums: Sums
    state: str
    fine: bool
    age_seconds: float | None = None
    cluster: str | None = None
    models: str | None = None
    reason: str | None = None
    marked: bool = False


def cluster_row(cluster: ClusterSums, chosen: str | None) -> SumsRow:
    state = {True: "ok", False: "unreachable", None: "not read yet"}[cluster.reachable]
    return SumsRow(
        key=cluster.key,
        label=cluster.key,
        sums=cluster.sums,
        state=state,
        fine=cluster.reachable is True,
        age_seconds=cluster.age_seconds,
        reason=cluster.reason or ("simulated" if cluster.simulated else None),
        marked=chosen == cluster.key,
    )


def node_row(node: NodeSums) -> SumsRow:
    return SumsRow(
        key=node.key,
        label=node.node,
        sums=node.sums,
        state="ok" if node.state == "fresh" else node.state,
        fine=node.state == "fresh",
        age_seconds=node.age_seconds,
        cluster=node.cluster,
        models=node.models,
        reason=node.reason,
    )


def _name(row: SumsRow, context: RenderContext) -> Span:
    return Span((context.glyphs.mark if row.marked else " ") + row.label, Tone.STRONG)


def _state(row: SumsRow, context: RenderContext) -> Span:
    del context
    words = [] if row.fine else [row.state.upper()]
    if row.sums.devices_lost:
        words.append(f"{row.sums.devices_lost} LOST")
    if unhealthy := row.sums.devices_unhealthy - row.sums.devices_lost:
        words.append(f"{unhealthy} unhealthy")
    if not words:
        return Span(row.state, Tone.GOOD)
    return Span(" ".join(words), Tone.BAD if row.sums.devices_unhealthy or not row.fine else Tone.WARN)


def _use(row: SumsRow, width: int, context: RenderContext) -> Line:
    return bar_cell(row.sums.utilization_ratio, width, context, Tone.GOOD)


def _spark(row: SumsRow, width: int, context: RenderContext) -> Line:
    return spark_cell(row.key, width, context)


def _memory(row: SumsRow, context: RenderContext) -> Span:
    used, total = row.sums.memory_used_bytes, row.sums.memory_total_bytes
    return Span(size_of(used, total, context.glyphs), fill_tone(row.sums.memory_used_ratio))


def _count(number: int | None, context: RenderContext) -> Span:
    return Span(context.glyphs.absent, Tone.DIM) if number is None else Span(str(number))


def _heat(row: SumsRow, context: RenderContext) -> Span:
    """Never highlighted: the limit depends on the device, and the sums do not contain it."""
    return Span(celsius(row.sums.temperature_max_celsius, context.glyphs))


def _age(row: SumsRow, context: RenderContext) -> Span:
    old = row.age_seconds is None or row.age_seconds >= STALE_SECONDS
    return Span(duration(row.age_seconds, context.glyphs), Tone.WARN if old else Tone.DIM)


def _why(row: SumsRow, context: RenderContext) -> Span:
    if not row.fine and row.reason:
        return Span(row.reason, Tone.WARN)
    return Span(row.models or row.reason or context.glyphs.absent, Tone.DIM)


_USE: Column[SumsRow] = Column(
    name="utilization_ratio",
    title="use",
    priority=2,
    draw=_use,
    least=9,
    most=17,
    sort=lambda row: row.sums.utilization_ratio,
)
_TREND: Column[SumsRow] = Column(name="trend", title="", priority=8, draw=_spark, least=6, most=16)
_MEMORY: Column[SumsRow] = Column(
    name="memory_used_bytes",
    title="memory",
    priority=4,
    text=_memory,
    least=11,
    most=11,
    right=True,
    sort=lambda row: row.sums.memory_used_bytes,
)
_POWER: Column[SumsRow] = Column(
    name="power_watts",
    title="power",
    priority=5,
    text=lambda row, context: Span(watts(row.sums.power_watts, context.glyphs)),
    least=6,
    most=7,
    right=True,
    sort=lambda row: row.sums.power_watts,
)
_HEAT: Column[SumsRow] = Column(
    name="temperature_max_celsius",
    title="temp",
    priority=3,
    text=_heat,
    least=4,
    most=5,
    right=True,
    sort=lambda row: row.sums.temperature_max_celsius,
)
_STATE: Column[SumsRow] = Column(
    name="devices_unhealthy",
    title="state",
    priority=1,
    text=_state,
    least=12,
    most=22,
    sort=lambda row: row.sums.devices_unhealthy,
)
_DEVICES: Column[SumsRow] = Column(
    name="devices",
    title="dev",
    priority=3,
    text=lambda row, context: _count(row.sums.devices, context),
    least=3,
    most=6,
    right=True,
    sort=lambda row: row.sums.devices,
)
_PROCESSES: Column[SumsRow] = Column(
    name="processes",
    title="procs",
    priority=7,
    text=lambda row, context: _count(row.sums.processes, context),
    least=5,
    most=6,
    right=True,
    sort=lambda row: row.sums.processes,
)
_AGE: Column[SumsRow] = Column(
    name="age_seconds",
    title="age",
    priority=4,
    text=_age,
    least=4,
    most=6,
    right=True,
    sort=lambda row: row.age_seconds,
)

CLUSTER_COLUMNS: tuple[Column[SumsRow], ...] = (
    Column(
        name="cluster",
        title=" cluster",
        priority=0,
        text=_name,
        least=9,
        most=24,
        sort=lambda row: row.label,
        largest_first=False,
    ),
    _STATE,
    Column(
        name="nodes",
        title="nodes",
        priority=3,
        text=lambda row, context: _count(row.sums.nodes, context),
        least=5,
        most=6,
        right=True,
        sort=lambda row: row.sums.nodes,
    ),
    _DEVICES,
    _USE,
    _TREND,
    _MEMORY,
    _POWER,
    _HEAT,
    _PROCESSES,
    Column(
        name="devices_idle",
        title="idle",
        priority=6,
        text=lambda row, context: Span(
            fraction(row.sums.devices_idle, context.glyphs),
            Tone.WARN if row.sums.devices_idle else Tone.DIM,
        ),
        least=4,
        most=5,
        right=True,
        sort=lambda row: row.sums.devices_idle,
    ),
    _AGE,
    Column(
        name="reason",
        title="note",
        priority=9,
        text=lambda row, _: Span(row.reason or "", Tone.DIM if row.fine else Tone.WARN),
        least=10,
        most=60,
        needed=lambda rows: any(row.reason for row in rows),
    ),
)

# The names are those of the fleet's API, which sorts over all pages.
NODE_COLUMNS: tuple[Column[SumsRow], ...] = (
    Column(
        name="cluster",
        title=" cluster",
        priority=3,
        text=lambda row, _: Span(" " + (row.cluster or "")),
        least=10,
        most=18,
        sort=lambda row: row.cluster,
        largest_first=False,
        needed=lambda rows: len({row.cluster for row in rows}) > 1,
    ),
    Column(
        name="node",
        title=" node",
        priority=0,
        text=_name,
        least=19,
        most=40,
        sort=lambda row: row.label,
        largest_first=False,
    ),
    _STATE,
    _DEVICES,
    _USE,
    _TREND,
    _MEMORY,
    _POWER,
    _HEAT,
    _PROCESSES,
    _AGE,
    Column(name="models", title="models or error", priority=7, text=_why, least=10, most=60),
)
