"""Renders a snapshot as a page of metrics.

The sample lines are rendered once per collection. They are the same in text format 0.0.4 and OpenMetrics 1.0;
only the headers differ. They are joined and compressed once, and all scrapes of a format get the same bytes.
Label strings are cached between collections, because they rarely change.
"""

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from math import isfinite

from accelscope.metrics.catalogue import CATALOGUE, INFO_LABELS
from accelscope.metrics.dialects import Dialect, Workloads
from accelscope.metrics.dialects import blocks as dialect_blocks
from accelscope.metrics.family import (
    SCOPE_LABELS,
    AgentView,
    Family,
    ReaderView,
    Scope,
    escape,
    label_text,
    sample_line,
)
from accelscope.model import Allocation, Device, Pod, PodUsage, Process, Snapshot, Unattributed

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

# --- labels

Pairs = tuple[tuple[str, str], ...]

_INVALID_IN_NAME = re.compile(r"[^a-zA-Z0-9_]")
_LABELS_OF_INFO = (*SCOPE_LABELS[Scope.DEVICE], *INFO_LABELS)


def _is_outgrown(cached: int, used: int) -> bool:
    """Whether most cached labels belong to objects that no longer exist, such as deleted pods."""
    return cached > 2 * used + 64


def kubernetes_labels(labels: Pairs) -> Iterator[tuple[str, str]]:
    """Labels of a pod or Node, named as kube-state-metrics does. If two get the same name, the first one is
    used: a series cannot have a label twice."""
    seen = set()
    for name, value in labels:
        written = f"label_{_INVALID_IN_NAME.sub('_', name)}"
        if written not in seen:
            seen.add(written)
            yield written, value


def _node_labels(snapshot: Snapshot) -> str:
    """Labels that only `accelerator_info` has, after its own."""
    pairs = {"node": snapshot.node}
    for name, value in (*snapshot.labels, *kubernetes_labels(snapshot.node_labels)):
        if name not in _LABELS_OF_INFO:
            pairs.setdefault(name, value)
    return label_text(pairs.items())


class _PodLabels:
    """Finds the labels of a pod by uid, or by name if the uid is not known."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._by_uid: dict[str | None, Pairs] = {}
        self._by_name: dict[tuple[str, str], Pairs] = {}
        for pod in pods:
            self._by_uid[pod.uid] = self._by_name[pod.namespace, pod.name] = pod.labels

    def find(self, usage: PodUsage) -> Pairs:
        found = self._by_uid.get(usage.pod_uid)
        return self._by_name.get((usage.namespace, usage.pod), ()) if found is None else found


class _LabelCache:
    """Label strings of devices and pods."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str, int | None], str] = {}
        self._usages: dict[tuple[str, str, str, str, str | None, Pairs], str] = {}

    def device(self, device: Device) -> str:
        key = (device.id, device.index)
        labels = self._devices.get(key)
        if labels is None:
            index = "" if device.index is None else str(device.index)
            labels = label_text((("vendor", device.vendor), ("device", device.id), ("index", index)))
            self._devices[key] = labels
        return labels

    def usage(self, usage: PodUsage, device: str, pod_labels: Pairs) -> str:
        key = (device, usage.namespace, usage.pod, usage.container, usage.partition, pod_labels)
        labels = self._usages.get(key)
        if labels is None:
            pairs = [("namespace", usage.namespace), ("pod", usage.pod), ("container", usage.container)]
            if usage.partition is not None:
                pairs.append(("partition", usage.partition))
            labels = self._usages[key] = f"{device},{label_text([*pairs, *kubernetes_labels(pod_labels)])}"
        return labels

    def shrink(self, *, devices: int, usages: int) -> None:
        if _is_outgrown(len(self._devices), devices):
            self._devices.clear()
        if _is_outgrown(len(self._usages), usages):
            self._usages.clear()


def _device_labels(device: str, by_id: Mapping[str, str]) -> str:
    """The labels of a device by its id, which may be missing from the snapshot."""
    labels = by_id.get(device)
    if labels is None:
        return label_text((("vendor", ""), ("device", device), ("index", "")))
    return labels


def _unattributed_labels(item: Unattributed, device: str) -> str:
    pairs = (("owner_kind", item.kind), ("owner", item.name or ""), ("reason", item.reason))
    return f"{device},{label_text(pairs)}"


def _pod_labels(pod: Pod) -> str:
    values = (pod.namespace, pod.name, pod.uid, pod.owner_kind or "", pod.owner_name or "")
    own = zip(SCOPE_LABELS[Scope.POD_INFO], values, strict=True)
    return label_text([*own, *kubernetes_labels(pod.labels)])


def _unknown_allocations(allocations: Iterable[Allocation]) -> Mapping[str, Allocation]:
    """Allocations of unknown devices by their labels: two sources may report the same one."""
    found: dict[str, Allocation] = {}
    for a in allocations:
        if a.device is None:
            values = (a.namespace, a.pod, a.container, a.resource or "", a.device_id, a.claim or "")
            found.setdefault(label_text(zip(SCOPE_LABELS[Scope.UNKNOWN_ALLOCATION], values, strict=True)), a)
    return found


# --- the page

LabelledObjects = list[tuple[object, str]]  # objects of a scope with their label strings


class Page:
    """The page of one collection. Each format is rendered at the first request for it."""

    def __init__(self, blocks: Sequence[tuple[Family, str]], series: int) -> None:
        self._blocks = blocks
        self.series = series

    @cached_property
    def text(self) -> bytes:
        return "".join(f"{_text_header(family)}{lines}" for family, lines in self._blocks).encode(
            errors="replace"
        )

    @cached_property
    def openmetrics(self) -> bytes:
        page = "".join(f"{_openmetrics_header(family)}{lines}" for family, lines in self._blocks)
        return f"{page}# EOF\n".encode(errors="replace")

    @cached_property
    def text_gzip(self) -> bytes:
        return gzip.compress(self.text, compresslevel=1, mtime=0)

    @cached_property
    def openmetrics_gzip(self) -> bytes:
        return gzip.compress(self.openmetrics, compresslevel=1, mtime=0)


class Exposition:
    """Renders snapshots with the selected families and dialects."""

    def __init__(
        self,
        *,
        families: Iterable[Family] = CATALOGUE,
        dialects: Iterable[Dialect] = (),
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        max_process_series: int = 1000,
    ) -> None:
        self._families = [f for f in families if _is_selected(f.name, allow, deny)]
        self._process_families = [f for f in self._families if f.scope is Scope.PROCESS]
        self._dialects = [dialect.only(lambda name: _is_selected(name, allow, deny)) for dialect in dialects]
        self._max_process_series = max_process_series
        self._labels = _LabelCache()
        self._own_labels: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}  # names -> values -> text

    def render(self, snapshot: Snapshot) -> Page:
        by_id = {device.id: self._labels.device(device) for device in snapshot.devices}
        processes, dropped = self._select_processes(snapshot, by_id)
        scoped: dict[Scope, LabelledObjects] = {
            **self._devices(snapshot, by_id),
            **self._workloads(snapshot, by_id),
            Scope.PROCESS: [*processes],
            Scope.READER: [(view, f'vendor="{view.state.vendor}"') for view in _readers(snapshot)],
            Scope.SOURCE: [(s, f'source="{escape(s.source)}"') for s in snapshot.attribution],
            Scope.SINK: [(s, f'sink="{escape(s.sink)}"') for s in snapshot.sinks],
            Scope.AGENT: [(AgentView(snapshot.agent, snapshot.node, snapshot.taken_at, dropped), "")],
        }
        info_suffix = _node_labels(snapshot)
        blocks, series = [], 0
        uses: Counter[tuple[str, ...]] = Counter()
        for family in self._families:
            suffix = info_suffix if family.name == "accelerator_info" else ""
            written = self._own_labels.setdefault(family.labels, {})
            lines = _sample_lines(family, scoped[family.scope], written, suffix)
            if lines:
                series += len(lines)
                uses[family.labels] += len(lines)
                blocks.append((family, "".join(lines)))
        self._shrink_caches(snapshot, uses)
        if self._dialects:
            workloads = Workloads(snapshot, [process for process, _ in processes])
            for dialect in self._dialects:
                for family, lines in dialect_blocks(dialect, snapshot, workloads):
                    series += len(lines)
                    blocks.append((family, "".join(lines)))
        return Page(blocks, series)

    def _devices(self, snapshot: Snapshot, by_id: dict[str, str]) -> dict[Scope, LabelledObjects]:
        return {
            Scope.DEVICE: [(device, by_id[device.id]) for device in snapshot.devices],
            Scope.PARTITION: [
                (part, f'{by_id[device.id]},partition="{escape(part.id)}"')
                for device in snapshot.devices
                for part in device.partitions
            ],
            Scope.BALANCE: [(b, _device_labels(b.device, by_id)) for b in snapshot.balances],
        }

    def _workloads(self, snapshot: Snapshot, by_id: dict[str, str]) -> dict[Scope, LabelledObjects]:
        pod_labels = _PodLabels(snapshot.pods)
        unknown = _unknown_allocations(snapshot.allocations)
        return {
            Scope.POD: [
                (u, self._labels.usage(u, _device_labels(u.device, by_id), pod_labels.find(u)))
                for u in snapshot.pod_usages
            ],
            Scope.POD_INFO: [(pod, _pod_labels(pod)) for pod in snapshot.pods],
            Scope.UNATTRIBUTED: [
                (u, _unattributed_labels(u, _device_labels(u.device, by_id))) for u in snapshot.unattributed
            ],
            Scope.UNKNOWN_ALLOCATION: [(allocation, labels) for labels, allocation in unknown.items()],
        }

    def _shrink_caches(self, snapshot: Snapshot, uses: Counter[tuple[str, ...]]) -> None:
        self._labels.shrink(devices=len(snapshot.devices), usages=len(snapshot.pod_usages))
        for names, written in self._own_labels.items():
            if _is_outgrown(len(written), uses[names]):
                written.clear()

    def _select_processes(
        self, snapshot: Snapshot, by_id: dict[str, str]
    ) -> tuple[list[tuple[Process, str]], int]:
        """The processes within the limit, those with most memory first, and the number of series left out."""
        families = self._process_families
        in_dialects = {device.id: self._in_dialects(device) for device in snapshot.devices}
        selected: list[tuple[Process, str]] = []
        room, dropped = self._max_process_series, 0
        ranked = sorted(snapshot.processes, key=lambda p: (-(p.memory_bytes or 0), p.pid, p.device or ""))
        # No family has more than two series per process: far below the limit, counting is not necessary.
        most = 2 * len(families) + max(in_dialects.values(), default=0)
        count = most * len(ranked) > self._max_process_series
        for process in ranked:
            if count:
                series = sum(len(list(family.take(process))) for family in families)
                series += in_dialects.get(process.device or "", 0)
                if series > room:
                    dropped += series
                    continue
                room -= series
            base = _device_labels(process.device or "", by_id)
            labels = f'{base},pid="{process.pid}",name="{escape(process.name or "")}"'
            if process.partition is not None:
                labels = f'{labels},partition="{escape(process.partition)}"'
            selected.append((process, labels))
        selected.sort(key=lambda item: (item[0].device or "", item[0].pid, item[0].partition or ""))
        return selected, dropped

    def _in_dialects(self, device: Device) -> int:
        """Number of series that the dialects have for each process on the device."""
        return sum(dialect.process_series for dialect in self._dialects if dialect.includes(device))


def render_page(families: Iterable[Family], objects: Mapping[Scope, LabelledObjects]) -> Page:
    """The page of a process that has no snapshot, such as the fleet."""
    lines = [(family, _sample_lines(family, objects[family.scope], {})) for family in families]
    blocks = [(family, "".join(samples)) for family, samples in lines if samples]
    return Page(blocks, sum(len(samples) for _, samples in lines))


def _sample_lines(
    family: Family, objects: LabelledObjects, written: dict[tuple[str, ...], str], suffix: str = ""
) -> list[str]:
    """`written` caches the text of the family's own labels by their values."""
    names, take = family.labels, family.take
    lines = []
    for item, base in objects:
        for values, number in take(item):
            labels = base
            if names:
                own = written.get(values)
                if own is None:
                    own = written[values] = label_text(zip(names, values, strict=True))
                labels = f"{base},{own}" if base else own
            if suffix:
                labels = f"{labels},{suffix}"
            if isfinite(number):
                lines.append(sample_line(family, labels, number))
    return lines


def _readers(snapshot: Snapshot) -> list[ReaderView]:
    views = []
    for state in snapshot.readers:
        absent = Counter(
            str(absence.reason)
            for device in snapshot.devices
            if device.vendor is state.vendor
            for absence in device.absent
        )
        views.append(ReaderView(state, tuple(sorted(absent.items()))))
    return views


def _is_selected(name: str, allow: Sequence[str], deny: Sequence[str]) -> bool:
    if allow and not any(fnmatchcase(name, pattern) for pattern in allow):
        return False
    return not any(fnmatchcase(name, pattern) for pattern in deny)


def patterns_without_family(patterns: Sequence[str], dialects: Iterable[Dialect]) -> tuple[str, ...]:
    """Patterns that match no family of the catalogue or of these dialects, such as misspelt names."""
    names = {family.name for family in CATALOGUE}
    names |= {family.name for dialect in dialects for family in dialect.families}
    return tuple(pattern for pattern in patterns if not any(fnmatchcase(n, pattern) for n in names))


def _text_header(family: Family) -> str:
    return f"# HELP {family.name} {_help(family)}\n# TYPE {family.name} {family.type}\n"


def _openmetrics_header(family: Family) -> str:
    name = family.base_name
    unit = f"# UNIT {name} {family.unit}\n" if family.unit else ""
    return f"# TYPE {name} {family.openmetrics_type}\n{unit}# HELP {name} {_help(family)}\n"


def _help(family: Family) -> str:
    return family.help.replace("\\", "\\\\").replace("\n", "\\n")
