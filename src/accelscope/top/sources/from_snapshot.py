"""The view of a node from its snapshot."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from accelscope.model import (
    Device,
    Owner,
    OwnerKind,
    Partition,
    PodUsage,
    Process,
    ReaderState,
    Snapshot,
    UnattributedReason,
    is_idle,
    usage_shares,
)
from accelscope.top.view.model import DeviceView, NodeView, PartitionView, ProcessUse, ProcessView
from accelscope.top.view.text import humanize

_CLOCKS = ("graphics", "sm", "aicore", "npu")  # the first of these that a device has is its clock


def node_view(
    snapshot: Snapshot,
    *,
    key: str,
    source: str,
    age_seconds: float,
    error: str | None = None,
    document: Mapping[str, Any] | None = None,
) -> NodeView:
    vendors = {device.vendor for device in snapshot.devices}
    labels = {d.id: device_label(d.vendor, d.index, d.id, len(vendors) > 1) for d in snapshot.devices}
    pods = _pods(snapshot)
    usages: defaultdict[str, list[PodUsage]] = defaultdict(list)
    for usage in snapshot.pod_usages:
        usages[usage.device].append(usage)
    return NodeView(
        key=key,
        name=snapshot.node,
        source=source,
        error=error,
        age_seconds=age_seconds,
        driver=", ".join(_drivers(snapshot.readers)) or None,
        drivers_found=any(reader.found for reader in snapshot.readers),
        read=any(reader.up for reader in snapshot.readers),
        devices=tuple(_device(device, key, pods, usages[device.id]) for device in snapshot.devices),
        processes=tuple(_processes(snapshot.processes, key, labels)),
        troubles=tuple(_troubles(snapshot)),
        notes=tuple(
            humanize(": ".join(filter(None, (state.source, state.reason or "not up", state.error))))
            for state in snapshot.attribution
            if not state.up
        ),
        document=document,
    )


def device_label(vendor: str, index: int | None, id: str, several_vendors: bool) -> str:  # noqa: A002
    number = id.removeprefix(f"{vendor}:")[:12] if index is None else str(index)
    return f"{vendor} {number}" if several_vendors else number


def unread(vendor: str, reason: str | None) -> str:
    """The problem of a driver that was found and cannot be read."""
    return f"{vendor}: cannot read the driver: {humanize(reason or 'no device answers')}"


def _drivers(readers: Iterable[ReaderState]) -> Iterable[str]:
    for reader in readers:
        if reader.found and reader.driver_version:
            yield f"{reader.vendor} {reader.driver_version}"


def _troubles(snapshot: Snapshot) -> Iterable[str]:
    shown = Counter(device.vendor for device in snapshot.devices)
    for reader in snapshot.readers:
        if reader.found and not reader.up:
            yield unread(reader.vendor, reader.reason)
        elif (missing := reader.devices_expected - shown[reader.vendor]) > 0:
            # Devices that are listed have their own state.
            yield f"{reader.vendor}: {missing} of {reader.devices_expected} devices were never seen"


def _pods(snapshot: Snapshot) -> dict[tuple[str, str | None], tuple[str, ...]]:
    """The pods of each device and each partition."""
    found: defaultdict[tuple[str, str | None], dict[str, None]] = defaultdict(dict)
    for usage in snapshot.pod_usages:
        name = f"{usage.namespace}/{usage.pod}"
        found[usage.device, None][name] = None
        if usage.partition is not None:
            found[usage.device, usage.partition][name] = None
    return {place: tuple(names) for place, names in found.items()}


def _idle_seconds(usages: Sequence[PodUsage]) -> float | None:
    """Since any of its pods used it; None if it is not allocated, or not known for all of them."""
    allocated = [usage.idle_seconds for usage in usages if usage.allocated]
    known = [seconds for seconds in allocated if seconds is not None]
    return min(known) if known and len(known) == len(allocated) else None


def _idle_ratio(usages: Sequence[PodUsage]) -> float:
    shares = zip(usages, usage_shares(usages), strict=True)
    return sum(share for usage, share in shares if is_idle(usage.idle_seconds))


def _device(
    device: Device,
    node: str,
    pods: Mapping[tuple[str, str | None], tuple[str, ...]],
    usages: Sequence[PodUsage],
) -> DeviceView:
    clocks = {clock.domain: clock.hertz for clock in device.clocks}
    fans = [fan.speed_ratio for fan in device.fans if fan.speed_ratio is not None]
    key = f"{node} {device.id}"
    return DeviceView(
        key=key,
        node=node,
        id=device.id,
        vendor=device.vendor,
        index=device.index,
        model=device.model,
        health=device.health.state,
        health_reason=device.health.reason,
        stale=device.stale,
        read_at=device.read_at,
        utilization_ratio=device.utilization_ratio,
        memory_used_bytes=device.memory_used_bytes,
        memory_total_bytes=device.memory_total_bytes,
        power_watts=device.power_watts,
        power_limit_watts=device.power_limit_watts,
        temperature_celsius=device.temperature_celsius,
        temperature_slowdown_celsius=device.temperature_slowdown_celsius,
        fan_ratio=max(fans, default=None),
        clock_hertz=next((clocks[name] for name in _CLOCKS if clocks.get(name) is not None), None),
        throttles=tuple(throttle.reason for throttle in device.throttles if throttle.active),
        pods=pods.get((device.id, None), ()),
        idle_seconds=_idle_seconds(usages),
        idle_ratio=_idle_ratio(usages),
        partitions=tuple(
            _partition(partition, key, pods.get((device.id, partition.id), ()))
            for partition in device.partitions
        ),
    )


def _partition(partition: Partition, device: str, pods: tuple[str, ...]) -> PartitionView:
    return PartitionView(
        key=f"{device} {partition.id}",
        id=partition.id,
        label=partition.profile or partition.device_name or partition.id,
        index=partition.index,
        utilization_ratio=partition.utilization_ratio,
        memory_used_bytes=partition.memory_used_bytes,
        memory_total_bytes=partition.memory_total_bytes,
        pods=pods,
    )


def _processes(processes: Iterable[Process], node: str, labels: Mapping[str, str]) -> Iterable[ProcessView]:
    by_pid: defaultdict[int, list[Process]] = defaultdict(list)
    for process in processes:
        by_pid[process.pid].append(process)
    for pid, found in by_pid.items():
        first, owner = found[0], found[0].owner or Owner(kind=OwnerKind.UNKNOWN)
        gone = owner.reason is UnattributedReason.PROCESS_GONE
        yield ProcessView(
            key=f"{node} {pid}",
            node=node,
            pid=pid,
            name=first.name,
            user=first.user,
            uses=tuple(_use(process, node, labels) for process in found),
            cpu_ratio=first.cpu_ratio,
            resident_memory_bytes=first.resident_memory_bytes,
            started_at=first.started_at,
            namespace=owner.namespace,
            pod=owner.pod,
            container=owner.container,
            owner_kind=owner.kind,
            owner="gone from /proc" if gone else owner.name,
        )


def _use(process: Process, node: str, labels: Mapping[str, str]) -> ProcessUse:
    device = process.device or ""
    key = f"{node} {device}"
    index = "?" if process.device_index is None else str(process.device_index)
    return ProcessUse(
        device=key,
        label=labels.get(device, index),
        partition=f"{key} {process.partition}" if process.partition is not None else None,
        type=process.type,
        memory_bytes=process.memory_bytes,
        utilization_ratio=process.utilization_ratio,
    )
