"""The four tables, which always hold the same nodes."""

from collections.abc import Callable
from typing import Any

from accelscope.fleet.rows import DeviceRow, NodeRow, PodRow, ProcessRow
from accelscope.fleet.store.node_numbers import NodeNumbers
from accelscope.fleet.store.node_rows import STALE, NodeRows
from accelscope.fleet.store.query import Condition, Positions, Query
from accelscope.fleet.store.table import Table

_UNSEARCHED = frozenset({"state", "source", "health", "type", "owner_kind"})


class NodeTables:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._numbers = numbers = NodeNumbers()
        self.nodes = Table(NodeRow, ("cluster", "node"), unsearched=_UNSEARCHED, numbers=numbers, clock=clock)
        self.devices = Table(
            DeviceRow,
            ("cluster", "node", "id"),
            unsearched=_UNSEARCHED | {"uuid"},  # the id has it
            numbers=numbers,
            clock=clock,
        )
        self.pods = Table(
            PodRow,
            ("cluster", "node", "namespace", "pod", "container", "device", "partition"),
            unsearched=_UNSEARCHED,
            numbers=numbers,
            clock=clock,
        )
        self.processes = Table(
            ProcessRow,
            ("cluster", "node", "pid", "device", "partition"),
            unsearched=_UNSEARCHED,
            numbers=numbers,
            clock=clock,
        )
        self._parts: tuple[Table[Any], ...] = (self.devices, self.pods, self.processes)
        self._all: tuple[Table[Any], ...] = (self.nodes, *self._parts)

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
        """All but the row of the node itself."""
        self.devices.replace(number, rows.devices)
        self.pods.replace(number, rows.pods, rows.pod_devices)
        self.processes.replace(number, rows.processes, rows.process_devices)

    def mark_stale(self, number: int) -> None:
        for table in self._parts:
            table.assign(table.of_node(number), "state", STALE)

    def mark_node(self, number: int, state: str, reason: str | None) -> bool:
        """False: it was so before."""
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
        """Out of every answer at once; the nodes are cleared one by one afterwards."""
        for table in self._all:
            table.hide(_of_cluster(table, cluster))

    def clear(self, cluster: str, node: str, number: int) -> None:
        for table in self._all:
            table.remove(number)
        self._numbers.take_back(cluster, node)

    def settle(self) -> bool:
        """A few milliseconds of work that answers then need not do; False: there was none."""
        return any(table.settle() for table in self._all)


def _of_cluster(table: Table[Any], cluster: str) -> Positions:
    return table.matching(Query(where=(Condition("cluster", "=", cluster),)))
