"""Writes the record of a node to the tables: rows are replaced by a new reading, and marked as stale by
time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isnan
from typing import Any

import numpy as np
from msgspec.structs import replace

from accelscope.fleet.rows import (
    DeviceRow,
    NodeReport,
    NodeRow,
    NodeValues,
    PodRow,
    ProcessRow,
    ReportNeeded,
    SourceKind,
)
from accelscope.fleet.store.events import EventRecorder, device_name
from accelscope.fleet.store.node_rows import (
    FRESH,
    INCOMPATIBLE,
    NODE_NUMBERS,
    PRECEDENCE,
    STALE,
    UNREAD,
    NodeIdentity,
    NodeRecord,
    NodeRows,
    SourceContribution,
    SourceReading,
    make_rows,
    node_numbers,
    node_row,
)
from accelscope.fleet.store.query import Condition, Positions, RowQuery
from accelscope.fleet.store.table import ColumnTable, NodeNumbers
from accelscope.model.update import DEVICE_NUMBERS, POD_NUMBERS, PROCESS_NUMBERS

_UNSEARCHED = frozenset({"state", "source", "health", "type", "owner_kind"})


class NodeTables:
    """The four tables, which always contain the same nodes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._numbers = numbers = NodeNumbers()
        self.nodes = ColumnTable(
            NodeRow, ("cluster", "node"), unsearched=_UNSEARCHED, numbers=numbers, clock=clock
        )
        self.devices = ColumnTable(
            DeviceRow,
            ("cluster", "node", "id"),
            unsearched=_UNSEARCHED | {"uuid"},  # the id contains it
            numbers=numbers,
            clock=clock,
        )
        self.pods = ColumnTable(
            PodRow,
            ("cluster", "node", "namespace", "pod", "container", "device", "partition"),
            unsearched=_UNSEARCHED,
            numbers=numbers,
            clock=clock,
        )
        self.processes = ColumnTable(
            ProcessRow,
            ("cluster", "node", "pid", "device", "partition"),
            unsearched=_UNSEARCHED,
            numbers=numbers,
            clock=clock,
        )
        self._parts: tuple[ColumnTable[Any], ...] = (self.devices, self.pods, self.processes)
        self._all: tuple[ColumnTable[Any], ...] = (self.nodes, *self._parts)

    def number(self, cluster: str, node: str) -> int:
        return self._numbers.give(cluster, node)

    def healths(self, number: int) -> dict[str, str]:
        """Health of the node's devices, by id."""
        here = self.devices.of_node(number)
        ids, healths = self.devices.texts("id").texts, self.devices.texts("health").texts
        codes = zip(
            self.devices.column("id", here).tolist(),
            self.devices.column("health", here).tolist(),
            strict=True,
        )
        return {str(ids[id_]): str(healths[health]) for id_, health in codes}

    def replace(self, number: int, rows: NodeRows) -> None:
        """Replaces all rows but that of the node itself."""
        self.devices.replace(number, rows.devices)
        self.pods.replace(number, rows.pods, rows.pod_devices)
        self.processes.replace(number, rows.processes, rows.process_devices)

    def update(self, number: int, values: NodeValues) -> None:
        """Sets the values of all rows but that of the node itself. Raises ReportNeeded."""
        given = (values.devices, values.containers, values.processes)
        here = [table.of_node(number) for table in self._parts]
        if [len(rows) for rows in given] != [len(positions) for positions in here]:
            raise ReportNeeded
        read = here[0][self.devices.having("state", FRESH, here[0])]  # not the devices that are stale
        self.devices.update(here[0], DEVICE_NUMBERS, values.devices, values.texts)
        self.pods.update(here[1], POD_NUMBERS, values.containers)
        self.processes.update(here[2], PROCESS_NUMBERS, values.processes)
        for table, positions in zip(self._parts, (read, *here[1:]), strict=True):
            table.assign(positions, "taken_at", values.taken_at)

    def mark_stale(self, number: int) -> None:
        for table in self._parts:
            table.assign(table.of_node(number), "state", STALE)

    def mark_node(self, number: int, state: str, reason: str | None) -> bool:
        """False: nothing changed."""
        here = self.nodes.of_node(number)
        position = int(here[0])
        if (self.nodes.value("state", position), self.nodes.value("reason", position)) == (state, reason):
            return False
        self.nodes.assign(here, "state", state)
        self.nodes.assign(here, "reason", reason)
        return True

    def declare_simulated(self, cluster: str, simulated: bool) -> None:
        for table in self._all:
            table.assign(_of_cluster(table, cluster), "simulated", simulated)

    def hide(self, cluster: str) -> None:
        """Hides the cluster from all queries at once; its nodes are cleared later, one by one."""
        for table in self._all:
            table.hide(_of_cluster(table, cluster))

    def clear(self, cluster: str, node: str, number: int) -> None:
        for table in self._all:
            table.remove(number)
        self._numbers.release(cluster, node)

    def settle(self) -> bool:
        """Does a few milliseconds of maintenance that queries would otherwise do; False: there was none."""
        return any(table.settle() for table in self._all)


def _of_cluster(table: ColumnTable[Any], cluster: str) -> Positions:
    return table.matching(RowQuery(where=(Condition("cluster", "=", cluster),)))


AnomalyKey = tuple[str, str, str]  # cluster, node and id of a device; cluster, namespace and name of a pod


class AnomalyRegistry:
    """The texts of active anomalies, for the field `unusual` of rows, which each reading replaces."""

    def __init__(
        self, devices: ColumnTable[DeviceRow], pods: ColumnTable[PodRow], recorder: EventRecorder
    ) -> None:
        self._device_table = devices
        self._pod_table = pods
        self._recorder = recorder
        self._devices: dict[AnomalyKey, str] = {}
        self._pods: dict[AnomalyKey, str] = {}

    def mark(self, rows: NodeRows) -> None:
        if self._devices:
            rows.devices = [
                replace(row, unusual=text)
                if (text := self._devices.get((row.cluster, row.node, row.id))) is not None
                else row
                for row in rows.devices
            ]
        if self._pods:
            rows.pods = [
                replace(row, unusual=text)
                if (text := self._pods.get((row.cluster, row.namespace, row.pod))) is not None
                else row
                for row in rows.pods
            ]

    def set_devices(self, texts: Mapping[AnomalyKey, str | None], at: float) -> Iterator[tuple[str, str]]:
        """Yields the nodes whose rows changed. Unknown devices are ignored."""
        self._forget_gone()
        for key, text in texts.items():
            cluster, node, id_ = key
            position = self._device_table.find(cluster=cluster, node=node, id=id_)
            was = self._devices.get(key)
            if position is None or text == was:
                continue
            self._devices.pop(key, None)
            if text is not None:
                self._devices[key] = text
            self._device_table.assign(np.array([position]), "unusual", text)
            model, index = (self._device_table.value(name, position) for name in ("model", "index"))
            subject = device_name(
                None if model is None else str(model), None if index is None else int(index), id_
            )
            self._recorder.unusual(was, text, at, cluster=cluster, node=node, device=id_, subject=subject)
            yield cluster, node

    def set_pods(self, texts: Mapping[AnomalyKey, str | None], at: float) -> Iterator[tuple[str, str]]:
        self._forget_gone()
        changed = {key: text for key, text in texts.items() if text != self._pods.get(key)}
        for key, positions in self._positions_of_pods(changed):
            was, text = self._pods.pop(key, None), changed[key]
            if text is not None:
                self._pods[key] = text
            self._pod_table.assign(np.array(positions), "unusual", text)
            cluster, namespace, pod = key
            node = str(self._pod_table.value("node", positions[0]))
            self._recorder.unusual(
                *(was, text, at),
                cluster=cluster,
                node=node,
                namespace=namespace,
                pod=pod,
                subject=f"{namespace}/{pod}",
            )
            yield cluster, node

    def _positions_of_pods(self, keys: Iterable[AnomalyKey]) -> list[tuple[AnomalyKey, list[int]]]:
        """Finds all of them in one pass over the table."""
        keys = frozenset(keys)
        table = self._pod_table
        names = table.texts("pod")
        sought = [code for _, _, pod in keys if (code := names.code(pod)) is not None]
        everywhere = table.positions()
        found: dict[AnomalyKey, list[int]] = {}
        for position in everywhere[np.isin(table.column("pod", everywhere), sought)].tolist():
            key = tuple(str(table.value(name, position)) for name in ("cluster", "namespace", "pod"))
            if key in keys:
                found.setdefault(key, []).append(position)
        return list(found.items())

    def _forget_gone(self) -> None:
        """Removes devices and pods that are no longer in the tables."""
        for device in list(self._devices):
            cluster, node, id_ = device
            if self._device_table.find(cluster=cluster, node=node, id=id_) is None:
                del self._devices[device]
        there = {key for key, _ in self._positions_of_pods(self._pods)}
        self._pods = {key: text for key, text in self._pods.items() if key in there}


# Of the devices, for `node_numbers`.
_NODE_COLUMNS = [
    DEVICE_NUMBERS.index(name)
    for name in (
        "utilization_ratio",
        "memory_total_bytes",
        "memory_used_bytes",
        "power_watts",
        "temperature_celsius",
    )
]

# In units of the time to mark a node, some tens of microseconds.
WORK_OF_MARKING = 1
WORK_OF_WRITING = 40

NO_SOURCE = "no source reported it"
_NO_NEW_READING = "no new reading"


class NodeWriter:
    """`touch` is called with a node whose rows changed. `quiet` suppresses events of a node whose cluster is
    unreachable, because the cluster has an event of its own."""

    def __init__(
        self,
        tables: NodeTables,
        anomalies: AnomalyRegistry,
        recorder: EventRecorder,
        touch: Callable[[str, str], None],
    ) -> None:
        self._tables = tables
        self._anomalies = anomalies
        self._recorder = recorder
        self._touch = touch

    def update(self, record: NodeRecord, values: NodeValues, now: float) -> None:
        """After a reading with the same rows as the last one. Raises ReportNeeded if the rows are others."""
        before, after = self._tables.healths(record.number), values.texts["health"]
        self._tables.update(record.number, values)
        if list(before.values()) != after:
            table = self._tables.devices
            rows = table.rows(table.of_node(record.number), now)
            self._recorder.devices(record, before, rows, now)
        columns = values.devices.T[_NODE_COLUMNS].tolist()
        numbers = node_numbers(
            after, *([None if isnan(value) else value for value in column] for column in columns)
        )
        here = self._tables.nodes.of_node(record.number)
        self._tables.nodes.update(here, NODE_NUMBERS, np.array([numbers], np.float64))
        self._tables.nodes.assign(here, "taken_at", values.taken_at)
        self._touch(record.cluster, record.node)

    def refresh(self, record: NodeRecord, now: float, *, simulated: bool, quiet: bool) -> int:
        """After anything but a new reading. Returns the amount of work."""
        shares = record.source_shares(now) if record.readings else ()
        if record.state is not None and (shares == record.shares or _only_aged(record.shares, shares)):
            self._mark(record, shares, now, quiet=quiet)
            return WORK_OF_MARKING
        self.write(record, shares, None, now, simulated=simulated, quiet=quiet)
        return WORK_OF_WRITING if shares else WORK_OF_MARKING

    def write(
        self,
        record: NodeRecord,
        shares: tuple[SourceContribution, ...],
        report: NodeReport | None,
        now: float,
        *,
        simulated: bool,
        quiet: bool,
    ) -> None:
        """`report` is the new reading, which need not be decompressed."""
        place = NodeIdentity(cluster=record.cluster, node=record.node, simulated=simulated)
        rows = make_rows(place, parts_of(record, shares, report))
        self._anomalies.mark(rows)
        same_sources = [share.source for share in shares] == [share.source for share in record.shares]
        before = self._tables.healths(record.number) if same_sources else None
        self._tables.replace(record.number, rows)
        if record.state is not None and before not in (None, {row.id: row.health for row in rows.devices}):
            self._recorder.devices(record, before or {}, rows.devices, now)
        record.shares = shares
        self._write_node(record, place, rows, now, quiet)

    def _write_node(
        self, record: NodeRecord, place: NodeIdentity, rows: NodeRows, now: float, quiet: bool
    ) -> None:
        state, reason = _state(record)
        first = record.readings[record.shares[0].source] if record.shares else None
        agent = record.readings.get(SourceKind.AGENTS)
        row = node_row(
            place,
            rows,
            state=state,
            reason=reason,
            sources=sorted((share.source for share in record.shares), key=PRECEDENCE.__getitem__),
            taken_at=None if first is None else first.taken_at,
            agent_version=None if agent is None else agent.agent_version,
        )
        self._tables.nodes.replace(record.number, [row])
        self._changed(record, state, reason, now, quiet)

    def _mark(
        self, record: NodeRecord, shares: tuple[SourceContribution, ...], now: float, *, quiet: bool
    ) -> None:
        """Updates only the state of the rows."""
        if shares != record.shares:
            self._tables.mark_stale(record.number)
            record.shares = shares
        state, reason = _state(record)
        if self._tables.mark_node(record.number, state, reason):
            self._changed(record, state, reason, now, quiet)

    def _changed(self, record: NodeRecord, state: str, reason: str | None, now: float, quiet: bool) -> None:
        if state != record.state:
            self._recorder.node_state(record, state, reason, now, quiet)
            record.state = state
        self._touch(record.cluster, record.node)


def parts_of(
    record: NodeRecord, shares: tuple[SourceContribution, ...], report: NodeReport | None = None
) -> list[SourceReading]:
    parts = []
    for share in shares:
        reading = record.readings[share.source]
        given = None if report is None or report.source is not share.source else report.snapshot
        parts.append(
            SourceReading(
                source=share.source.value,
                state=FRESH if share.fresh else STALE,
                taken_at=reading.document_taken_at,
                snapshot=reading.snapshot() if given is None else given,
                vendors=share.vendors,
            )
        )
    return parts


def _state(record: NodeRecord) -> tuple[str, str | None]:
    failure = record.failure()
    text = None if failure is None else failure.text
    if record.shares:
        if not record.shares[0].fresh:
            return STALE, text or _NO_NEW_READING
        remarks = (record.readings[share.source].remark for share in record.shares)
        return FRESH, "; ".join(dict.fromkeys(filter(None, (text, *remarks)))) or None
    if failure is None:
        return UNREAD, NO_SOURCE
    return INCOMPATIBLE if failure.incompatible else UNREAD, text


def _only_aged(before: tuple[SourceContribution, ...], after: tuple[SourceContribution, ...]) -> bool:
    """Whether the reading of a single source became stale, so that the rows are the same."""
    return len(before) == len(after) == 1 and before[0].source == after[0].source and not after[0].fresh
