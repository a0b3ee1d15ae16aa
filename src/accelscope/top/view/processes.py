"""The table of processes, flat or as a tree of groups."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from accelscope.model import OwnerKind
from accelscope.top.view.devices import device_name
from accelscope.top.view.model import NodeView, ProcessUse, ProcessView
from accelscope.top.view.table import Column, RenderContext, Sort, Span, Tone, in_order, use_tone
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
    """A process, or a group of processes with their totals."""

    key: str
    label: str  # the command, or the name of the group
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
    owner: str | None = None
    in_pod: bool = False


def owner_text(process: ProcessView) -> str | None:
    """Its pod and container, or another owner."""
    if process.pod is not None:
        place = f"{process.namespace}/{process.pod}"
        return f"{place}/{process.container}" if process.container else place
    if process.owner_kind is OwnerKind.POD:
        return f"pod {process.owner}"  # only its uid is known
    kind = _OWNERS.get(process.owner_kind) if process.owner_kind is not None else None
    if kind is not None and process.owner:
        # docker and podman show twelve digits of a container's id.
        name = process.owner[:12] if process.owner_kind is OwnerKind.CONTAINER else process.owner
        return f"{kind} {name}"
    return process.owner


def devices_label(uses: Iterable[ProcessUse]) -> str:
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


def row_of(process: ProcessView, node: str, uses: tuple[ProcessUse, ...] | None = None) -> ProcessRow:
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
        owner=owner_text(process),
        in_pod=process.pod is not None,
    )


def matches(process: ProcessView, node: str, words: Sequence[str]) -> bool:
    """Whether every word is part of its name, user, owner, node or pid."""
    texts = (process.name, process.user, owner_text(process), node, str(process.pid))
    haystack = "\n".join(text for text in texts if text).casefold()
    return all(word in haystack for word in words)


def on_devices(process: ProcessView, chosen: frozenset[str]) -> bool:
    """Whether it uses one of these devices or partitions."""
    return any(use.device in chosen or use.partition in chosen for use in process.uses)


def _pid(row: ProcessRow, context: RenderContext) -> Span:
    del context
    return Span("" if row.pid is None else str(row.pid), Tone.STRONG)


def _user(row: ProcessRow, context: RenderContext) -> Span:
    return Span("" if row.process is None else row.user or context.glyphs.absent)


def _type(row: ProcessRow, context: RenderContext) -> Span:
    return Span(_TYPES.get(row.type or "", context.glyphs.absent))


def _memory(row: ProcessRow, context: RenderContext) -> Span:
    return Span(size(row.memory_bytes, context.glyphs), Tone.DIM if row.memory_bytes is None else Tone.PLAIN)


def _use(row: ProcessRow, context: RenderContext) -> Span:
    return Span(percent(row.utilization_ratio, context.glyphs), use_tone(row.utilization_ratio))


def _cpu(row: ProcessRow, context: RenderContext) -> Span:
    return Span(percent(row.cpu_ratio, context.glyphs), use_tone(row.cpu_ratio))


def _host_memory(row: ProcessRow, context: RenderContext) -> Span:
    absent = row.resident_memory_bytes is None
    return Span(size(row.resident_memory_bytes, context.glyphs), Tone.DIM if absent else Tone.PLAIN)


def _time(row: ProcessRow, context: RenderContext) -> Span:
    if row.started_at is None:
        return Span(context.glyphs.absent, Tone.DIM)
    return Span(duration(context.now - row.started_at, context.glyphs))


def _owner(row: ProcessRow, context: RenderContext) -> Span:
    return Span(row.owner or context.glyphs.absent, Tone.PLAIN if row.in_pod else Tone.DIM)


def _command(row: ProcessRow, context: RenderContext) -> Span:
    del context
    return Span(row.label)


def _label(row: ProcessRow, context: RenderContext) -> Span:
    if row.process is not None:
        return Span("  " * row.depth + context.glyphs.branch + row.label)
    sign = context.glyphs.folded if row.folded else context.glyphs.open
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
        needed=lambda rows: any(row.started_at is not None for row in rows),  # both come from /proc
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
    text=lambda row, context: Span(row.devices or context.glyphs.absent),
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
        name="owner",
        title="pod/container or owner",
        priority=3,
        text=_owner,
        least=20,
        most=90,
        sort=lambda row: row.owner,
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


# --- groups of processes


class Tree(StrEnum):
    FLAT = "flat"
    POD = "by pod"
    DEVICE = "by device"

    @property
    def following(self) -> "Tree":
        members = list(Tree)
        return members[(members.index(self) + 1) % len(members)]


Keep = Callable[[ProcessView, NodeView], bool]
_Found = Sequence[tuple[ProcessView, NodeView]]
N = TypeVar("N", int, float)
_Branch = tuple[ProcessRow, list[ProcessRow]]  # a group and the rows below it


def process_rows(
    nodes: Sequence[NodeView], tree: Tree, sort: Sort | None, folded: frozenset[str], keep: Keep
) -> list[ProcessRow]:
    processes = [(process, node) for node in nodes for process in node.processes if keep(process, node)]
    if tree is Tree.FLAT:
        return in_order(COLUMNS, [row_of(process, node.name) for process, node in processes], sort)
    branches = (
        _by_pod(processes, sort, folded) if tree is Tree.POD else _by_device(nodes, processes, sort, folded)
    )
    return _flatten(branches, sort)


def _by_pod(processes: _Found, sort: Sort | None, folded: frozenset[str]) -> list[_Branch]:
    pods: defaultdict[tuple[str, str], defaultdict[str, list[ProcessView]]] = defaultdict(
        lambda: defaultdict(list)
    )
    names = {node.key: node.name for _, node in processes}
    for process, node in processes:
        if process.pod is not None:
            pods[node.key, f"{process.namespace}/{process.pod}"][process.container or ""].append(process)
        else:
            pods[node.key, owner_text(process) or "unknown owner"][""].append(process)
    branches = []
    for (place, name), containers in pods.items():
        key = f"pod {place} {name}"
        below: list[_Branch] = []
        for container, members in containers.items():
            rows = in_order(COLUMNS, [row_of(process, names[place]) for process in members], sort)
            if container:
                head = _group(f"{key} {container}", container, rows, members, folded, depth=1)
                below.append((head, [replace(row, depth=2) for row in rows]))
            else:
                below += [(replace(row, depth=1), []) for row in rows]
        in_pod = [process for members in containers.values() for process in members]
        rows = [row_of(process, names[place]) for process in in_pod]
        branches.append((_group(key, name, rows, in_pod, folded), _flatten(below, sort)))
    return branches


def _by_device(
    nodes: Sequence[NodeView], processes: _Found, sort: Sort | None, folded: frozenset[str]
) -> list[_Branch]:
    uses: defaultdict[str, defaultdict[str, list[ProcessUse]]] = defaultdict(lambda: defaultdict(list))
    by_key = {process.key: process for process, _ in processes}
    for process, _ in processes:
        for use in process.uses:
            uses[use.device][process.key].append(use)
    branches = []
    for node in nodes:
        several = len({device.vendor for device in node.devices}) > 1
        for device in node.devices:
            there = uses[device.key]
            members = [replace(by_key[key], uses=tuple(those)) for key, those in there.items()]
            rows = [row_of(process, node.name) for process in members]
            rows = [replace(row, key=f"{row.key} {device.id}", depth=1) for row in rows]
            if rows:
                where = node.name if len(nodes) > 1 else None
                name = device_name(device, where, device.vendor if several else None)
                head = _group(f"device {device.key}", name, rows, members, folded)
                branches.append((head, in_order(COLUMNS, rows, sort)))
    return branches


def _group(
    key: str,
    name: str,
    rows: Sequence[ProcessRow],
    members: Sequence[ProcessView],
    folded: frozenset[str],
    *,
    depth: int = 0,
) -> ProcessRow:
    """A process on several devices counts once for the host."""
    types = {row.type for row in rows if row.type}
    return ProcessRow(
        key=key,
        label=name,
        depth=depth,
        folded=key in folded,
        count=len(rows),
        node=rows[0].node,
        devices=devices_label(use for process in members for use in process.uses),
        type="both" if len(types) > 1 else next(iter(types), None),
        memory_bytes=_sum(row.memory_bytes for row in rows),
        utilization_ratio=_sum(row.utilization_ratio for row in rows),
        cpu_ratio=_sum(row.cpu_ratio for row in rows),
        resident_memory_bytes=_sum(row.resident_memory_bytes for row in rows),
        started_at=min((row.started_at for row in rows if row.started_at is not None), default=None),
    )


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _flatten(branches: Sequence[_Branch], sort: Sort | None) -> list[ProcessRow]:
    below = {head.key: rows for head, rows in branches}
    shown = []
    for head in in_order(COLUMNS, [head for head, _ in branches], sort):
        shown.append(head)
        if not head.folded:
            shown += below[head.key]
    return shown
