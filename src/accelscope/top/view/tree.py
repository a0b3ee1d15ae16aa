"""Processes in groups: by pod and container, or by device. Groups have sums and can be folded."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from accelscope.top.view.devices import device_name
from accelscope.top.view.processes import COLUMNS, ProcessRow, devices_label, row_of, whose
from accelscope.top.view.shown import NodeView, ProcessView, Use
from accelscope.top.view.table import Sort, in_order


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
_Branch = tuple[ProcessRow, list[ProcessRow]]  # a group, and all that is below it


def arranged(
    nodes: Sequence[NodeView], tree: Tree, sort: Sort | None, folded: frozenset[str], keep: Keep
) -> list[ProcessRow]:
    processes = [(process, node) for node in nodes for process in node.processes if keep(process, node)]
    if tree is Tree.FLAT:
        return in_order(COLUMNS, [row_of(process, node.name) for process, node in processes], sort)
    branches = (
        _by_pod(processes, sort, folded) if tree is Tree.POD else _by_device(nodes, processes, sort, folded)
    )
    return _opened(branches, sort)


def _by_pod(processes: _Found, sort: Sort | None, folded: frozenset[str]) -> list[_Branch]:
    pods: defaultdict[tuple[str, str], defaultdict[str, list[ProcessView]]] = defaultdict(
        lambda: defaultdict(list)
    )
    names = {node.key: node.name for _, node in processes}
    for process, node in processes:
        if process.pod is not None:
            pods[node.key, f"{process.namespace}/{process.pod}"][process.container or ""].append(process)
        else:
            pods[node.key, whose(process) or "nobody knows whose"][""].append(process)
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
        everybody = [process for members in containers.values() for process in members]
        rows = [row_of(process, names[place]) for process in everybody]
        branches.append((_group(key, name, rows, everybody, folded), _opened(below, sort)))
    return branches


def _by_device(
    nodes: Sequence[NodeView], processes: _Found, sort: Sort | None, folded: frozenset[str]
) -> list[_Branch]:
    uses: defaultdict[str, defaultdict[str, list[Use]]] = defaultdict(lambda: defaultdict(list))
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
    """A process that several devices have counts once on the host."""
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


def _opened(branches: Sequence[_Branch], sort: Sort | None) -> list[ProcessRow]:
    below = {head.key: rows for head, rows in branches}
    shown = []
    for head in in_order(COLUMNS, [head for head, _ in branches], sort):
        shown.append(head)
        if not head.folded:
            shown += below[head.key]
    return shown
