"""The writer: a Snapshot in, its lines out, once per collection. The first scrape joins and compresses them,
further ones only send bytes.

Text format 0.0.4 and OpenMetrics 1.0 share their sample lines and differ in the headers, so the lines are
made once. Label strings are kept from one collection to the next: they rarely change.
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
    number_text,
)
from accelscope.model import Allocation, Device, Pod, PodUsage, Process, Snapshot, Unattributed

# --- series labels ------------------------------------------------------------
# Labels of series about devices and pods, written out.
#
# What rarely changes is kept from one collection to the next, and forgotten when most of it is of the past:
# where pods come and go, what is kept must not grow with those that went.


Pairs = tuple[tuple[str, str], ...]

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")
_ON_INFO = (*SCOPE_LABELS[Scope.DEVICE], *INFO_LABELS)


def outgrown(kept: int, used: int) -> bool:
    """Whether more is kept than a node of this size needs."""
    return kept > 2 * used + 64


def kubernetes_labels(labels: Pairs) -> Iterator[tuple[str, str]]:
    """Labels of a pod or Node under the names that kube-state-metrics gives them. Of two that become the same
    name the first stays: a series cannot have a name twice."""
    seen = set()
    for name, value in labels:
        written = f"label_{_NOT_IN_A_NAME.sub('_', name)}"
        if written not in seen:
            seen.add(written)
            yield written, value


def node_labels(snapshot: Snapshot) -> str:
    """What stands behind the labels of `accelerator_info`: on every series it would multiply them."""
    pairs = {"node": snapshot.node}
    for name, value in (*snapshot.labels, *kubernetes_labels(snapshot.node_labels)):
        if name not in _ON_INFO:
            pairs.setdefault(name, value)
    return label_text(pairs.items())


class PodLabels:
    """Which labels each pod's series have: those of the pod that a setting names."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._by_uid: dict[str | None, Pairs] = {}
        self._by_name: dict[tuple[str, str], Pairs] = {}
        for pod in pods:
            self._by_uid[pod.uid] = self._by_name[pod.namespace, pod.name] = pod.labels

    def of(self, usage: PodUsage) -> Pairs:
        """By name where the uid is not known, or not yet."""
        found = self._by_uid.get(usage.pod_uid)
        return self._by_name.get((usage.namespace, usage.pod), ()) if found is None else found


class SeriesLabels:
    def __init__(self) -> None:
        self._devices: dict[tuple[str, int | None], str] = {}
        self._usages: dict[tuple[str, str, str, str, str | None, Pairs], str] = {}

    def of_device(self, device: Device) -> str:
        key = (device.id, device.index)
        labels = self._devices.get(key)
        if labels is None:
            index = "" if device.index is None else str(device.index)
            labels = label_text((("vendor", device.vendor), ("device", device.id), ("index", index)))
            self._devices[key] = labels
        return labels

    def of_usage(self, usage: PodUsage, device: str, pod_labels: Pairs) -> str:
        key = (device, usage.namespace, usage.pod, usage.container, usage.partition, pod_labels)
        labels = self._usages.get(key)
        if labels is None:
            pairs = [("namespace", usage.namespace), ("pod", usage.pod), ("container", usage.container)]
            if usage.partition is not None:
                pairs.append(("partition", usage.partition))
            labels = self._usages[key] = f"{device},{label_text([*pairs, *kubernetes_labels(pod_labels)])}"
        return labels

    def forget(self, *, devices: int, usages: int) -> None:
        if outgrown(len(self._devices), devices):
            self._devices.clear()
        if outgrown(len(self._usages), usages):
            self._usages.clear()


def of_unlisted(device: str) -> str:
    """Of a device that is spoken of and not in the snapshot."""
    return label_text((("vendor", ""), ("device", device), ("index", "")))


def of_unattributed(item: Unattributed, device: str) -> str:
    pairs = (("owner_kind", item.kind), ("owner", item.name or ""), ("reason", item.reason))
    return f"{device},{label_text(pairs)}"


def of_pod(pod: Pod) -> str:
    values = (pod.namespace, pod.name, pod.uid, pod.owner_kind or "", pod.owner_name or "")
    own = zip(SCOPE_LABELS[Scope.POD_INFO], values, strict=True)
    return label_text([*own, *kubernetes_labels(pod.labels)])


def of_unknown(allocations: Iterable[Allocation]) -> Mapping[str, Allocation]:
    """Those whose device is not known, by their labels: an id that two sources tell of is one series."""
    found: dict[str, Allocation] = {}
    for a in allocations:
        if a.device is None:
            values = (a.namespace, a.pod, a.container, a.resource or "", a.device_id, a.claim or "")
            found.setdefault(label_text(zip(SCOPE_LABELS[Scope.UNKNOWN_ALLOCATION], values, strict=True)), a)
    return found


def of_source(name: str) -> str:
    return f'source="{escape(name)}"'


def of_sink(name: str) -> str:
    return f'sink="{escape(name)}"'


TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Scoped = list[tuple[object, str]]  # an object of a scope, with its labels written out


class Page:
    """One collection's page. Other forms than the sample lines are made when first asked for, then kept."""

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
    """Renders snapshots with a chosen set of families."""

    def __init__(
        self,
        *,
        families: Iterable[Family] = CATALOGUE,
        dialects: Iterable[Dialect] = (),
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        max_process_series: int = 1000,
    ) -> None:
        chosen = [f for f in families if _chosen(f.name, allow, deny)]
        self._families = {scope: [f for f in chosen if f.scope is scope] for scope in Scope}
        self._order = chosen
        self._dialects = [dialect.only(lambda name: _chosen(name, allow, deny)) for dialect in dialects]
        self._max_process_series = max_process_series
        self._labels = SeriesLabels()
        self._own_labels: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}  # names -> values -> text

    def render(self, snapshot: Snapshot) -> Page:
        by_id = {device.id: self._labels.of_device(device) for device in snapshot.devices}
        processes, dropped = self._select(snapshot, by_id)
        scoped: dict[Scope, Scoped] = {
            **self._devices(snapshot, by_id),
            **self._workloads(snapshot, by_id),
            Scope.PROCESS: [*processes],
            Scope.READER: [(view, f'vendor="{view.state.vendor}"') for view in _readers(snapshot)],
            Scope.SOURCE: [(s, of_source(s.source)) for s in snapshot.attribution],
            Scope.SINK: [(s, of_sink(s.sink)) for s in snapshot.sinks],
            Scope.AGENT: [(AgentView(snapshot.agent, snapshot.node, snapshot.taken_at, dropped), "")],
        }
        info_suffix = node_labels(snapshot)
        blocks, series = [], 0
        uses: Counter[tuple[str, ...]] = Counter()
        for family in self._order:
            suffix = info_suffix if family.name == "accelerator_info" else ""
            lines = self._lines(family, scoped[family.scope], suffix)
            if lines:
                series += len(lines)
                uses[family.labels] += len(lines)
                blocks.append((family, "".join(lines)))
        self._forget_labels(snapshot, uses)
        if self._dialects:
            workloads = Workloads(snapshot, [process for process, _ in processes])
            for dialect in self._dialects:
                for family, lines in dialect_blocks(dialect, snapshot, workloads):
                    series += len(lines)
                    blocks.append((family, "".join(lines)))
        return Page(blocks, series)

    def _devices(self, snapshot: Snapshot, by_id: dict[str, str]) -> dict[Scope, Scoped]:
        return {
            Scope.DEVICE: [(device, by_id[device.id]) for device in snapshot.devices],
            Scope.PARTITION: [
                (part, f'{by_id[device.id]},partition="{escape(part.id)}"')
                for device in snapshot.devices
                for part in device.partitions
            ],
            Scope.BALANCE: [(b, _of_device(b.device, by_id)) for b in snapshot.balances],
        }

    def _workloads(self, snapshot: Snapshot, by_id: dict[str, str]) -> dict[Scope, Scoped]:
        of_pods = PodLabels(snapshot.pods)
        unknown = of_unknown(snapshot.allocations)
        return {
            Scope.POD: [
                (u, self._labels.of_usage(u, _of_device(u.device, by_id), of_pods.of(u)))
                for u in snapshot.pod_usages
            ],
            Scope.POD_INFO: [(pod, of_pod(pod)) for pod in snapshot.pods],
            Scope.UNATTRIBUTED: [
                (u, of_unattributed(u, _of_device(u.device, by_id))) for u in snapshot.unattributed
            ],
            Scope.UNKNOWN_ALLOCATION: [(allocation, labels) for labels, allocation in unknown.items()],
        }

    def _forget_labels(self, snapshot: Snapshot, uses: Counter[tuple[str, ...]]) -> None:
        self._labels.forget(devices=len(snapshot.devices), usages=len(snapshot.pod_usages))
        for names, written in self._own_labels.items():
            if outgrown(len(written), uses[names]):
                written.clear()

    def _select(self, snapshot: Snapshot, by_id: dict[str, str]) -> tuple[list[tuple[Process, str]], int]:
        """The processes that fit under the cap, largest memory first, and how many series were left out."""
        families = self._families[Scope.PROCESS]
        in_dialects = {device.id: self._in_dialects(device) for device in snapshot.devices}
        kept: list[tuple[Process, str]] = []
        room, dropped = self._max_process_series, 0
        ranked = sorted(snapshot.processes, key=lambda p: (-(p.memory_bytes or 0), p.pid, p.device or ""))
        # No family has more than two series a process: a node far below the cap need not be counted.
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
            base = _of_device(process.device or "", by_id)
            labels = f'{base},pid="{process.pid}",name="{escape(process.name or "")}"'
            if process.partition is not None:
                labels = f'{labels},partition="{escape(process.partition)}"'
            kept.append((process, labels))
        kept.sort(key=lambda item: (item[0].device or "", item[0].pid, item[0].partition or ""))
        return kept, dropped

    def _lines(self, family: Family, scoped: Scoped, suffix: str) -> list[str]:
        name, names, take = family.name, family.labels, family.take
        written = self._own_labels.setdefault(names, {})
        lines = []
        for item, base in scoped:
            for values, number in take(item):
                labels = base
                if names:
                    own = written.get(values)
                    if own is None:
                        own = written[values] = label_text(zip(names, values, strict=True))
                    labels = f"{base},{own}" if base else own
                if suffix:
                    labels = f"{labels},{suffix}"
                if isfinite(number):  # what is no number is no reading, and costs itself only
                    text = number_text(number)
                    lines.append(f"{name}{{{labels}}} {text}\n" if labels else f"{name} {text}\n")
        return lines

    def _in_dialects(self, device: Device) -> int:
        """Series that dialects make of each process on the device."""
        return sum(dialect.process_series for dialect in self._dialects if dialect.shows(device))


def _of_device(device: str, by_id: dict[str, str]) -> str:
    labels = by_id.get(device)
    return of_unlisted(device) if labels is None else labels


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


def _chosen(name: str, allow: Sequence[str], deny: Sequence[str]) -> bool:
    if allow and not any(fnmatchcase(name, pattern) for pattern in allow):
        return False
    return not any(fnmatchcase(name, pattern) for pattern in deny)


def patterns_without_family(patterns: Sequence[str], dialects: Iterable[Dialect]) -> tuple[str, ...]:
    """Those that no family of the catalogue or of these dialects fits: misspelt, most likely."""
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
