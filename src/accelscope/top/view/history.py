"""Totals of a view, and the history of utilization for sparklines, one value per reading."""

from collections import deque
from collections.abc import Iterable

from accelscope.model import HealthState
from accelscope.top.view.model import NodeView, Sums, View

_UNHEALTHY = frozenset({HealthState.WARNING, HealthState.CRITICAL, HealthState.LOST})


def sums_of(view: View) -> Sums:
    return view.overview.sums if view.overview is not None else node_sums(view.nodes)


def node_sums(nodes: Iterable[NodeView]) -> Sums:
    """Totals over all devices. Absent values are left out of sums and averages."""
    nodes = tuple(nodes)
    devices = [device for node in nodes for device in node.devices]
    use = _known(device.utilization_ratio for device in devices)
    heat = _known(device.temperature_celsius for device in devices)
    power = _known(device.power_watts for device in devices)
    whole = [d for d in devices if d.memory_used_bytes is not None and d.memory_total_bytes is not None]
    used = sum(device.memory_used_bytes or 0 for device in whole) if whole else None
    total = sum(device.memory_total_bytes or 0 for device in whole) if whole else None
    return Sums(
        nodes=len(nodes),
        nodes_not_read=sum(node.age_seconds is None for node in nodes),
        devices=len(devices),
        devices_lost=sum(device.health is HealthState.LOST for device in devices),
        devices_unhealthy=sum(device.health in _UNHEALTHY for device in devices),
        devices_idle=sum(device.idle_ratio for device in devices),
        processes=sum(len(node.processes) for node in nodes),
        utilization_ratio=sum(use) / len(use) if use else None,
        memory_used_bytes=used,
        memory_total_bytes=total,
        memory_used_ratio=used / total if used is not None and total else None,
        power_watts=sum(power) if power else None,
        temperature_max_celsius=max(heat, default=None),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


READINGS_LIMIT = 240
ALL = ""  # key of the average over all devices


class History:
    def __init__(self) -> None:
        self._series: dict[str, deque[float | None]] = {}
        self._scope: str | None = None

    def note(self, view: View) -> None:
        """Add a reading. A missing device gets a gap, and is dropped once it has only gaps."""
        values = _values(view)
        scope = f"{view.kind} {view.overview is None} {view.title} {[node.key for node in view.nodes]}"
        if view.overview is not None:
            scope = f"{view.kind} overview"
        if scope != self._scope:
            self._series, self._scope = {}, scope
        for key in self._series.keys() | values.keys():
            self._series.setdefault(key, deque(maxlen=READINGS_LIMIT)).append(values.get(key))
        for key in [key for key, series in self._series.items() if all(value is None for value in series)]:
            del self._series[key]

    def of(self, key: str) -> list[float | None]:
        return list(self._series.get(key, ()))


def _values(view: View) -> dict[str, float | None]:
    values: dict[str, float | None] = {ALL: sums_of(view).utilization_ratio}
    if view.overview is not None:
        for cluster in view.overview.clusters:
            values[cluster.key] = cluster.sums.utilization_ratio
        for row in view.overview.nodes:
            values[row.key] = row.sums.utilization_ratio
    for node in view.nodes:
        for device in node.devices:
            values[device.key] = device.utilization_ratio
            for partition in device.partitions:
                values[partition.key] = partition.utilization_ratio
    return values
