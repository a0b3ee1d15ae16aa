"""The rows of a snapshot, and the part of them that changes with every reading.

The fleet shows each device, each container on a device and each process on a device as a row. Most of a
snapshot is the same in each reading: names, ids and versions. The fleet sends the name of the *structure* of
its last snapshot of an agent. While the structure is the same, the agent responds with numbers and the health
of devices only, otherwise with the whole snapshot.

Agent and fleet both use this module, so that they agree on the order of rows and columns. A change of columns
or order needs another `FORMAT`.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from accelscope.model.device import HARMLESS_THROTTLES, Device
from accelscope.model.snapshot import Snapshot
from accelscope.model.workload import PodUsage, Process, usage_shares

FORMAT = 1
CONTENT_TYPE = "application/vnd.accelscope.update+json"
STRUCTURE_HEADER = "X-AccelScope-Structure"
NO_STRUCTURE = "none"  # of a client without a snapshot

# Columns of an update.
DEVICE_TEXTS = ("health", "health_reason", "health_action", "throttled")
DEVICE_NUMBERS = (
    "utilization_ratio",
    "memory_utilization_ratio",
    "memory_total_bytes",
    "memory_used_bytes",
    "memory_free_bytes",
    "temperature_celsius",
    "temperature_slowdown_celsius",
    "temperature_margin_celsius",
    "power_watts",
    "power_limit_watts",
    "energy_joules",
    "fan_speed_ratio",
    "pcie_generation",
    "pcie_width",
    "ecc_uncorrected",
    "errors",
    "idle_seconds",
)
POD_NUMBERS = (
    "processes",
    "idle_seconds",
    "utilization_ratio",
    "memory_used_bytes",
    "memory_share_bytes",
    "compute_share_ratio",
    "device_share_ratio",
    "energy_joules",
)
PROCESS_NUMBERS = (
    "memory_bytes",
    "utilization_ratio",
    "memory_utilization_ratio",
    "encoder_utilization_ratio",
    "decoder_utilization_ratio",
    "cpu_ratio",
    "resident_memory_bytes",
)

Values = tuple[Any, ...]  # of the columns, in their order; None for absence


@dataclass(frozen=True, slots=True)
class DeviceOfRow:
    """A device with its processes and the containers that use it or have it."""

    device: Device
    processes: int
    usages: Sequence[PodUsage]

    @property
    def allocated(self) -> list[PodUsage]:
        return [usage for usage in self.usages if usage.allocated]

    def texts(self) -> Values:
        health = self.device.health
        return health.state.value, health.reason, health.action, _throttled(self.device)

    def numbers(self) -> Values:
        device, pcie = self.device, self.device.pcie
        return (
            device.utilization_ratio,
            device.memory_utilization_ratio,
            device.memory_total_bytes,
            device.memory_used_bytes,
            device.memory_free_bytes,
            device.temperature_celsius,
            device.temperature_slowdown_celsius,
            _temperature_margin(device),
            device.power_watts,
            device.power_limit_watts,
            device.energy_joules,
            max((fan.speed_ratio for fan in device.fans if fan.speed_ratio is not None), default=None),
            None if pcie is None else pcie.generation,
            None if pcie is None else pcie.width,
            _ecc_uncorrected(device) if device.ecc else None,
            sum(error.count for error in device.errors) if device.errors else None,
            self._idle_seconds(),
        )

    def _idle_seconds(self) -> float | None:
        """Since any of the containers used it that it is allocated to; None: not allocated, or not known."""
        allocated = self.allocated
        idle = [usage.idle_seconds for usage in allocated if usage.idle_seconds is not None]
        return min(idle) if allocated and len(idle) == len(allocated) else None


@dataclass(frozen=True, slots=True)
class ContainerOfRow:
    device: Device
    usage: PodUsage
    share: float  # of the device

    def numbers(self) -> Values:
        usage = self.usage
        return (
            usage.processes,
            usage.idle_seconds,
            usage.utilization_ratio,
            usage.memory_used_bytes,
            usage.memory_share_bytes,
            usage.compute_share_ratio,
            self.share if usage.allocated else None,
            usage.energy_joules,
        )


@dataclass(frozen=True, slots=True)
class ProcessOfRow:
    device: Device
    process: Process

    def numbers(self) -> Values:
        process = self.process
        return (
            process.memory_bytes,
            process.utilization_ratio,
            process.memory_utilization_ratio,
            process.encoder_utilization_ratio,
            process.decoder_utilization_ratio,
            process.cpu_ratio,
            process.resident_memory_bytes,
        )


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """What becomes a row, in the order of rows. Of several members with the same identity the last counts."""

    devices: list[DeviceOfRow]
    containers: list[ContainerOfRow]  # rows of a pod and of a container are adjacent
    processes: list[ProcessOfRow]


def rows_of(snapshot: Snapshot, vendors: Collection[str] | None = None) -> SnapshotRows:
    """`vendors` leaves out other devices and everything on them."""
    index = _DeviceIndex(snapshot.devices, vendors)
    processes: dict[object, ProcessOfRow] = {}
    for process in snapshot.processes:
        device = index.find(process.device, process.device_index)
        if device is not None:
            processes[process.pid, device.id, process.partition] = ProcessOfRow(device, process)
    usages: dict[object, tuple[Device, PodUsage]] = {}
    for usage in snapshot.pod_usages:
        device = index.find(usage.device)
        if device is not None:
            key = usage.namespace, usage.pod, usage.container, device.id, usage.partition
            usages[key] = device, usage
    by_device: dict[str, list[PodUsage]] = defaultdict(list)
    for device, usage in usages.values():
        by_device[device.id].append(usage)
    shares = {
        id(usage): share
        for of_device in by_device.values()
        for usage, share in zip(of_device, usage_shares(of_device), strict=True)
    }
    containers = [ContainerOfRow(device, usage, shares[id(usage)]) for device, usage in usages.values()]
    containers.sort(key=lambda row: (row.usage.namespace, row.usage.pod, row.usage.container))
    running = Counter(row.device.id for row in processes.values())
    return SnapshotRows(
        [DeviceOfRow(device, running[device.id], by_device[device.id]) for device in index.taken],
        containers,
        list(processes.values()),
    )


class _DeviceIndex:
    """Devices by id, or by a unique index if the source has no id."""

    def __init__(self, devices: Iterable[Device], vendors: Collection[str] | None) -> None:
        self._by_id = {device.id: device for device in devices if vendors is None or device.vendor in vendors}
        self.taken = list(self._by_id.values())
        self._by_index: dict[int, Device | None] = {}
        for device in self.taken:
            if device.index is not None:
                self._by_index[device.index] = None if device.index in self._by_index else device

    def find(self, id_: str | None, index: int | None = None) -> Device | None:
        if id_ is not None:
            return self._by_id.get(id_)
        return None if index is None else self._by_index.get(index)


def listed(words: Iterable[str]) -> str | None:
    return ",".join(sorted(words)) or None


def _throttled(device: Device) -> str | None:
    return listed(
        throttle.reason
        for throttle in device.throttles
        if throttle.active and throttle.reason not in HARMLESS_THROTTLES
    )


def _temperature_margin(device: Device) -> float | None:
    """None for 0, which drivers report for an unknown limit."""
    at, slowdown = device.temperature_celsius, device.temperature_slowdown_celsius
    return round(slowdown - at, 3) if slowdown and at is not None else None


def _ecc_uncorrected(device: Device) -> int | None:
    """The count since the driver was loaded if there is one, because a repaired board keeps its lifetime
    count; the total of the device if there is one, else the sum of its blocks."""
    counts = [count for count in device.ecc if count.severity == "uncorrected"]
    counts = [count for count in counts if not count.lifetime] or counts
    counts = [count for count in counts if count.block is None] or counts
    return sum(count.count for count in counts) if counts else None


def structure_of(snapshot: Snapshot, rows: SnapshotRows) -> tuple[object, ...]:
    """Everything in rows that an update does not contain. Equal structures have the same rows."""
    return (
        *(snapshot.node, snapshot.agent.version, snapshot.interval_seconds, snapshot.node_labels),
        tuple(
            (
                *(row.device.id, row.device.vendor, row.device.index, row.device.model, row.device.uuid),
                *(row.device.serial, row.device.pci_address, row.device.driver_version),
                *(row.device.firmware_version, len(row.device.partitions), row.processes),
                *(row.device.stale, row.device.read_at if row.device.stale else None),
            )
            for row in rows.devices
        ),
        tuple(
            (
                *(row.device.id, row.usage.namespace, row.usage.pod, row.usage.container),
                *(row.usage.partition, row.usage.pod_uid, row.usage.allocated, row.usage.resources),
            )
            for row in rows.containers
        ),
        tuple(
            (
                *(row.device.id, row.process.pid, row.process.partition, row.process.name),
                *(row.process.user, row.process.type, row.process.owner, row.process.started_at),
            )
            for row in rows.processes
        ),
        tuple((pod.namespace, pod.name, pod.owner_kind, pod.owner_name) for pod in snapshot.pods),
    )


def update_document(rows: SnapshotRows) -> bytes:
    """JSON: the number of rows of each kind, the texts of devices, and the numbers of all rows in one list,
    row by row, in the order of the names above."""
    document = {
        "format": FORMAT,
        "rows": (len(rows.devices), len(rows.containers), len(rows.processes)),
        "texts": [text for row in rows.devices for text in row.texts()],
        "numbers": [
            *(number for device in rows.devices for number in device.numbers()),
            *(number for container in rows.containers for number in container.numbers()),
            *(number for process in rows.processes for number in process.numbers()),
        ],
    }
    return json.dumps(document, separators=(",", ":")).encode()


class Structures:
    """Names the structures of one agent's snapshots. `prefix` is unique to the process."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._number = 0
        self._last: tuple[object, ...] | None = None

    def name(self, structure: tuple[object, ...]) -> str:
        """The same name as of the previous call if the structure is the same."""
        if structure != self._last:
            self._last = structure
            self._number += 1
        return f"{self._prefix}-{self._number}"
