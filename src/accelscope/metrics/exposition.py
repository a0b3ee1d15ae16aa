"""The writer: a Snapshot in, a page out, once per collection. A scrape only sends bytes.

Text format 0.0.4 and OpenMetrics 1.0 share their sample lines and differ in the headers, so the lines are
made once. Label strings of devices are kept from one collection to the next: they rarely change.
"""

import gzip
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from math import isfinite

from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.dialects import Dialect
from accelscope.metrics.dialects.page import blocks as dialect_blocks
from accelscope.metrics.family import AgentView, Family, ReaderView, Scope
from accelscope.metrics.lines import escape, label_text, number_text
from accelscope.model import Device, Process, Snapshot

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_MOST_LABELS_KEPT = 10_000

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
        self._device_labels: dict[tuple[str, int | None], str] = {}
        self._own_labels: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}  # names -> values -> text

    def render(self, snapshot: Snapshot) -> Page:
        # The node's own labels stand on the info series only: elsewhere they would multiply every series.
        info_suffix = label_text((("node", snapshot.node), *snapshot.labels))
        devices: Scoped = [(d, self._labels_of(d)) for d in snapshot.devices]
        by_id = {d.id: labels for d, (_, labels) in zip(snapshot.devices, devices, strict=True)}
        partitions: Scoped = [
            (p, f'{by_id[d.id]},partition="{escape(p.id)}"') for d in snapshot.devices for p in d.partitions
        ]
        processes, dropped = self._select(snapshot, by_id)
        scoped: dict[Scope, Scoped] = {
            Scope.DEVICE: devices,
            Scope.PARTITION: partitions,
            Scope.PROCESS: [*processes],
            Scope.READER: [(view, f'vendor="{view.state.vendor}"') for view in _readers(snapshot)],
            Scope.AGENT: [(AgentView(snapshot.agent, snapshot.node, snapshot.taken_at, dropped), "")],
        }
        self._forget_labels(len(snapshot.devices))
        blocks, series = [], 0
        for family in self._order:
            suffix = info_suffix if family.name == "accelerator_info" else ""
            lines = self._lines(family, scoped[family.scope], suffix)
            if lines:
                series += len(lines)
                blocks.append((family, "".join(lines)))
        shown = [process for process, _ in processes]
        for dialect in self._dialects:
            for family, lines in dialect_blocks(dialect, snapshot, shown):
                series += len(lines)
                blocks.append((family, "".join(lines)))
        return Page(blocks, series)

    def _labels_of(self, device: Device) -> str:
        key = (device.id, device.index)
        labels = self._device_labels.get(key)
        if labels is None:
            index = "" if device.index is None else str(device.index)
            labels = label_text((("vendor", device.vendor), ("device", device.id), ("index", index)))
            self._device_labels[key] = labels
        return labels

    def _forget_labels(self, devices: int) -> None:
        if len(self._device_labels) > 2 * devices + 64:
            self._device_labels.clear()

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
            base = by_id.get(process.device or "", 'vendor="",device="",index=""')
            labels = f'{base},pid="{process.pid}",name="{escape(process.name or "")}"'
            if process.partition is not None:
                labels = f'{labels},partition="{escape(process.partition)}"'
            kept.append((process, labels))
        kept.sort(key=lambda item: (item[0].device or "", item[0].pid, item[0].partition or ""))
        return kept, dropped

    def _lines(self, family: Family, scoped: Scoped, suffix: str) -> list[str]:
        name, names, take = family.name, family.labels, family.take
        written = self._own_labels.setdefault(names, {})
        if len(written) > _MOST_LABELS_KEPT:
            written.clear()
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
        showing = (d for d in self._dialects if d.vendor in (None, device.vendor))
        return sum(dialect.process_series for dialect in showing)


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


def _text_header(family: Family) -> str:
    return f"# HELP {family.name} {_help(family)}\n# TYPE {family.name} {family.type}\n"


def _openmetrics_header(family: Family) -> str:
    name = family.base_name
    unit = f"# UNIT {name} {family.unit}\n" if family.unit else ""
    return f"# TYPE {name} {family.openmetrics_type}\n{unit}# HELP {name} {_help(family)}\n"


def _help(family: Family) -> str:
    return family.help.replace("\\", "\\\\").replace("\n", "\\n")
