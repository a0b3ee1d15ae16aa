"""What is out of habit, beside the rows: those are made anew with each reading, and this stays until whoever
found it takes it back."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from accelscope.fleet.rows import DeviceRow, PodRow
from accelscope.fleet.store.happenings import Happenings, device_name
from accelscope.fleet.store.node_rows import NodeRows
from accelscope.fleet.store.table import Table

UnusualKey = tuple[str, str, str]  # cluster, node and id of a device; cluster, namespace and name of a pod


class Unusual:
    def __init__(self, devices: Table[DeviceRow], pods: Table[PodRow], happenings: Happenings) -> None:
        self._device_table = devices
        self._pod_table = pods
        self._happenings = happenings
        self._devices: dict[UnusualKey, str] = {}
        self._pods: dict[UnusualKey, str] = {}

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

    def set_devices(self, texts: Mapping[UnusualKey, str | None], at: float) -> Iterator[tuple[str, str]]:
        """Yields the nodes whose rows changed; a device that is not there is passed over."""
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
            who = device_name(
                None if model is None else str(model), None if index is None else int(index), id_
            )
            self._happenings.unusual(was, text, at, cluster=cluster, node=node, device=id_, who=who)
            yield cluster, node

    def set_pods(self, texts: Mapping[UnusualKey, str | None], at: float) -> Iterator[tuple[str, str]]:
        self._forget_gone()
        changed = {key: text for key, text in texts.items() if text != self._pods.get(key)}
        for key, positions in self._positions_of_pods(changed):
            was, text = self._pods.pop(key, None), changed[key]
            if text is not None:
                self._pods[key] = text
            self._pod_table.assign(np.array(positions), "unusual", text)
            cluster, namespace, pod = key
            node = str(self._pod_table.value("node", positions[0]))
            self._happenings.unusual(
                *(was, text, at),
                cluster=cluster,
                node=node,
                namespace=namespace,
                pod=pod,
                who=f"{namespace}/{pod}",
            )
            yield cluster, node

    def _positions_of_pods(self, keys: Iterable[UnusualKey]) -> list[tuple[UnusualKey, list[int]]]:
        """One pass over the table for all of them."""
        keys = frozenset(keys)
        table = self._pod_table
        names = table.texts("pod")
        sought = [code for _, _, pod in keys if (code := names.code(pod)) is not None]
        everywhere = table.positions()
        found: dict[UnusualKey, list[int]] = {}
        for position in everywhere[np.isin(table.column("pod", everywhere), sought)].tolist():
            key = tuple(str(table.value(name, position)) for name in ("cluster", "namespace", "pod"))
            if key in keys:
                found.setdefault(key, []).append(position)
        return list(found.items())

    def _forget_gone(self) -> None:
        """Of devices and pods that are no longer there."""
        for device in list(self._devices):
            cluster, node, id_ = device
            if self._device_table.find(cluster=cluster, node=node, id=id_) is None:
                del self._devices[device]
        there = {key for key, _ in self._positions_of_pods(self._pods)}
        self._pods = {key: text for key, text in self._pods.items() if key in there}
