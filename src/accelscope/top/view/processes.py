"""The table of processes, and of groups of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from accelscope.model import OwnerKind
from accelscope.top.view.cells import use_tone
from accelscope.top.view.shown import ProcessView, Use
from accelscope.top.view.table import Column, Setting, Span, Tone
from accelscope.top.view.text import duration, percent, ranges, size

_TYPES = {"compute": "C", "graphics": "G", "both": "C+G"}
_OWNERS = {
    OwnerKind.CONTAINER: "container",
    OwnerKind.SLURM_JOB: "job",
    OwnerKind.SYSTEMD_UNIT: "unit",
    OwnerKind.USER: "user",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """A process, or a group of them with their sums."""

    key: str
    label: str  # the command, or what the group is
    depth: int = 0
    process: ProcessView | None = None  # None: a group
    folded: bool | None = None  # of a group
    count: int = 1
    node: str = ""
    pid: int | None = None
    user: str | None = None
    devices: str = ""
    type: str | None = None
    memory_bytes: int | None = None
    utilization_ratio: float | None = None
    cpu_ratio: float | None = None
    resident_memory_bytes: int | None = None
    started_at: float | None = None
    whose: str | None = None
    in_pod: bool = False


def whose(process: ProcessView) -> str | None:
    """Its pod and container, else whose it is otherwise."""
    if process.pod is not None:
        place = f"{process.namespace}/{process.pod}"
        return f"{place}/{process.container}" if process.container else place
    if process.owner_kind is OwnerKind.POD:
        return f"pod {process.owner}"  # known by its uid only
    kind = _OWNERS.get(process.owner_kind) if process.owner_kind is not None else None
    if kind is not None and process.owner:
        # Of a container of docker or podman, the twelve digits that their own tools show.
        name = process.owner[:12] if process.owner_kind is OwnerKind.CONTAINER else process.owner
        return f"{kind} {name}"
    return process.owner


def devices_label(uses: Iterable[Use]) -> str:
    labels = dict.fromkeys(use.label for use in uses)
    if all(label.isdecimal() for label in labels):
        return ranges([int(label) for label in labels])
    by_vendor: defaultdict[str, list[int]] = defaultdict(list)
    for label in labels:
        vendor, _, number = label.rpartition(" ")
        if not number.isdecimal():
            return ",".join(labels)
        by_vendor[vendor].append(int(number))
    return " ".join(f"{vendor} {ranges(numbers)}" for vendor, numbers in by_vendor.items())


def row_of(process: ProcessView, node: str, uses: tuple[Use, ...] | None = None) -> ProcessRow:
    seen = process if uses is None else replace(process, uses=uses)
    return ProcessRow(
        key=process.key,
        label=process.name or "?",
        process=process,
        node=node,
        pid=process.pid,
        user=process.user,
        devices=devices_label(seen.uses),
        type=seen.type,
        memory_bytes=seen.memory_bytes,
        utilization_ratio=seen.utilization_ratio,
        cpu_ratio=process.cpu_ratio,
        resident_memory_bytes=process.resident_memory_bytes,
        started_at=process.started_at,
        whose=whose(process),
        in_pod=process.pod is not None,
    )


def matches(process: ProcessView, node: str, words: Sequence[str]) -> bool:
    """Every word is found somewhere in what says whose it is."""
    texts = (process.name, process.user, whose(process), node, str(process.pid))
    haystack = "\n".join(text for text in texts if text).casefold()
    return all(word in haystack for word in words)


def on_devices(process: ProcessView, chosen: frozenset[str]) -> bool:
    """Whether it uses one of them; a device is chosen with its partitions."""
    return any(use.device in chosen or use.partition in chosen for use in process.uses)


def _pid(row: ProcessRow, setting: Setting) -> Span:
    del setting
    return Span("" if row.pid is None else str(row.pid), Tone.STRONG)


def _user(row: ProcessRow, setting: Setting) -> Span:
    return Span("" if row.process is None else row.user or setting.glyphs.absent)


def _type(row: ProcessRow, setting: Setting) -> Span:
    return Span(_TYPES.get(row.type or "", setting.glyphs.absent))


def _memory(row: ProcessRow, setting: Setting) -> Span:
    return Span(size(row.memory_bytes, setting.glyphs), Tone.DIM if row.memory_bytes is None else Tone.PLAIN)


def _use(row: ProcessRow, setting: Setting) -> Span:
    return Span(percent(row.utilization_ratio, setting.glyphs), use_tone(row.utilization_ratio))


def _cpu(row: ProcessRow, setting: Setting) -> Span:
    return Span(percent(row.cpu_ratio, setting.glyphs), use_tone(row.cpu_ratio))


def _host_memory(row: ProcessRow, setting: Setting) -> Span:
    absent = row.resident_memory_bytes is None
    return Span(size(row.resident_memory_bytes, setting.glyphs), Tone.DIM if absent else Tone.PLAIN)


def _time(row: ProcessRow, setting: Setting) -> Span:
    if row.started_at is None:
        return Span(setting.glyphs.absent, Tone.DIM)
    return Span(duration(setting.now - row.started_at, setting.glyphs))


def _whose(row: ProcessRow, setting: Setting) -> Span:
    return Span(row.whose or setting.glyphs.absent, Tone.PLAIN if row.in_pod else Tone.DIM)


def _command(row: ProcessRow, setting: Setting) -> Span:
    del setting
    return Span(row.label)


def _label(row: ProcessRow, setting: Setting) -> Span:
    if row.process is not None:
        return Span("  " * row.depth + setting.glyphs.branch + row.label)
    sign = setting.glyphs.folded if row.folded else setting.glyphs.open
    count = f" ({row.count})" if row.folded else ""
    return Span(f"{'  ' * row.depth}{sign} {row.label}{count}", Tone.STRONG)


def _several_nodes(rows: Sequence[ProcessRow]) -> bool:
    return len({row.node for row in rows}) > 1


_NUMBERS: tuple[Column[ProcessRow], ...] = (
    Column(
        name="memory",
        title="dev.mem",
        priority=1,
        text=_memory,
        least=7,
        most=7,
        right=True,
        sort=lambda row: row.memory_bytes,
    ),
    Column(
        name="use",
        title="use",
        priority=1,
        text=_use,
        least=4,
        most=5,
        right=True,
        sort=lambda row: row.utilization_ratio,
    ),
    Column(
        name="cpu",
        title="cpu",
        priority=5,
        text=_cpu,
        least=4,
        most=6,
        right=True,
        sort=lambda row: row.cpu_ratio,
        needed=lambda rows: any(row.started_at is not None for row in rows),  # told together
    ),
    Column(
        name="host",
        title="host",
        priority=7,
        text=_host_memory,
        least=5,
        most=5,
        right=True,
        sort=lambda row: row.resident_memory_bytes,
        needed=lambda rows: any(row.resident_memory_bytes is not None for row in rows),
    ),
    Column(
        name="time",
        title="time",
        priority=5,
        text=_time,
        least=6,
        most=6,
        right=True,
        sort=lambda row: row.started_at,
        largest_first=False,
        needed=lambda rows: any(row.started_at is not None for row in rows),
    ),
)
_DEVICES: Column[ProcessRow] = Column(
    name="devices",
    title="dev",
    priority=2,
    text=lambda row, setting: Span(row.devices or setting.glyphs.absent),
    least=3,
    most=16,
    sort=lambda row: row.devices,
    largest_first=False,
)
_PID: Column[ProcessRow] = Column(
    name="pid",
    title="pid",
    priority=0,
    text=_pid,
    least=7,
    most=7,
    right=True,
    sort=lambda row: row.pid,
    largest_first=False,
)
_USER: Column[ProcessRow] = Column(
    name="user",
    title="user",
    priority=4,
    text=_user,
    least=6,
    most=12,
    sort=lambda row: row.user,
    largest_first=False,
)
_TYPE: Column[ProcessRow] = Column(name="type", title="type", priority=8, text=_type, least=4, most=4)
_NODE: Column[ProcessRow] = Column(
    name="node",
    title="node",
    priority=3,
    text=lambda row, _: Span(row.node),
    least=6,
    most=24,
    sort=lambda row: row.node,
    largest_first=False,
    needed=_several_nodes,
)

COLUMNS: tuple[Column[ProcessRow], ...] = (
    _NODE,
    _PID,
    _USER,
    _DEVICES,
    _TYPE,
    *_NUMBERS,
    Column(
        name="whose",
        title="pod/container or owner",
        priority=3,
        text=_whose,
        least=20,
        most=90,
        sort=lambda row: row.whose,
        largest_first=False,
    ),
    Column(
        name="command",
        title="command",
        priority=1,
        text=_command,
        least=8,
        most=24,
        sort=lambda row: row.label,
        largest_first=False,
    ),
)

TREE_COLUMNS: tuple[Column[ProcessRow], ...] = (
    Column(
        name="command",
        title="pod, container, process",
        priority=0,
        text=_label,
        least=26,
        most=70,
        sort=lambda row: row.label,
        largest_first=False,
    ),
    _PID,
    _USER,
    _DEVICES,
    _TYPE,
    *_NUMBERS,
)
