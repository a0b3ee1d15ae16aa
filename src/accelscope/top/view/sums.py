"""Sums over what is shown: what is absent stays out of them, and of nothing there is no mean."""

from collections.abc import Iterable

from accelscope.model import HealthState
from accelscope.top.view.shown import NodeView, Sums, View

_UNHEALTHY = frozenset({HealthState.WARNING, HealthState.CRITICAL, HealthState.LOST})


def sums_of(view: View) -> Sums:
    return view.overview.sums if view.overview is not None else node_sums(view.nodes)


def node_sums(nodes: Iterable[NodeView]) -> Sums:
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
