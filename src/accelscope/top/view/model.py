"""The data of a view: nodes, devices, processes, and the overview of a fleet.

Units are those of accelscope.model. `None` is an absent value and is never shown as 0. Texts are foreign;
`text.clean` makes them safe for a terminal when lines are rendered.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from accelscope.model import HealthState, OwnerKind


class ViewKind(StrEnum):
    """The kind of source of a view."""

    LOCAL = "local"
    AGENTS = "agents"
    FLEET = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    key: str
    id: str
    label: str  # its profile, or its name in the driver
    index: int | None = None
    utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    key: str  # unique among all nodes of a view
    node: str  # key of its node
    id: str
    vendor: str
    index: int | None = None
    model: str | None = None
    health: HealthState = HealthState.UNKNOWN
    health_reason: str | None = None
    health_action: str | None = None  # what to do first
    stale: bool = False
    read_at: float | None = None  # Unix time of the last successful read
    unusual: str | None = None  # an anomaly that the fleet has detected
    utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    temperature_slowdown_celsius: float | None = None
    fan_ratio: float | None = None
    clock_hertz: float | None = None
    throttles: tuple[str, ...] = ()  # active reasons
    pods: tuple[str, ...] = ()  # namespace/pod of pods that use it or have it allocated
    idle_seconds: float | None = None  # since any of its pods used it
    idle_ratio: float = 0.0  # fraction of it that is allocated and idle
    partitions: tuple[PartitionView, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Use of one device or partition by a process."""

    device: str  # key of the device
    label: str  # of the device
    partition: str | None = None  # key of the partition
    type: str | None = None
    memory_bytes: int | None = None
    utilization_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """A process with all its devices."""

    key: str
    node: str  # key of its node
    pid: int
    name: str | None = None
    user: str | None = None
    uses: tuple[ProcessUse, ...] = ()
    cpu_ratio: float | None = None  # 1.0 is one CPU
    resident_memory_bytes: int | None = None
    started_at: float | None = None  # Unix time
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    owner_kind: OwnerKind | None = None  # None: not determined
    owner: str | None = None  # container, job, unit or user of a process outside pods

    @property
    def type(self) -> str | None:
        types = {use.type for use in self.uses if use.type}
        return "both" if len(types) > 1 else next(iter(types), None)

    @property
    def memory_bytes(self) -> int | None:
        known = [use.memory_bytes for use in self.uses if use.memory_bytes is not None]
        return sum(known) if known else None

    @property
    def utilization_ratio(self) -> float | None:
        """The sum over all its devices."""
        known = [use.utilization_ratio for use in self.uses if use.utilization_ratio is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    key: str
    name: str
    source: str  # a URL, or this node
    cluster: str | None = None
    error: str | None = None  # why the last attempt failed; the values are older
    age_seconds: float | None = None  # None: never read
    simulated: bool = False
    driver: str | None = None
    drivers_found: bool = True
    read: bool = False  # whether any driver could be read
    devices: tuple[DeviceView, ...] = ()
    processes: tuple[ProcessView, ...] = ()
    troubles: tuple[str, ...] = ()  # problems of readers, one line each
    notes: tuple[str, ...] = ()  # attribution sources that are not up
    document: Mapping[str, Any] | None = None  # the original document, for --json


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Totals of a cluster, a node or the whole view. Absent values are left out of sums and averages."""

    nodes: int | None = 0  # None: not read yet; the same for devices and processes
    nodes_not_read: int = 0  # of these, nodes without values
    devices: int | None = 0
    devices_lost: int = 0
    devices_unhealthy: int = 0  # warning, critical or lost
    devices_idle: float | None = None  # sum of the allocated and idle fractions of devices
    processes: int | None = 0
    utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None  # of the devices in `memory_used_bytes`; None: not known
    memory_used_ratio: float | None = None
    power_watts: float | None = None
    temperature_max_celsius: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSums:
    key: str
    sums: Sums
    reachable: bool | None = None
    reason: str | None = None
    age_seconds: float | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSums:
    key: str
    cluster: str
    node: str
    state: str  # fresh, stale, incompatible or unread
    sums: Sums
    reason: str | None = None
    age_seconds: float | None = None
    models: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A fleet: totals, clusters, and one page of its nodes."""

    sums: Sums
    clusters: tuple[ClusterSums, ...] = ()
    nodes: tuple[NodeSums, ...] = ()
    nodes_total: int = 0  # on all pages
    page: int = 0
    has_next: bool = False
    troubles: tuple[str, ...] = ()  # the worst problems, one line each
    troubles_total: int = 0  # number of all problems
    documents: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    kind: ViewKind
    title: str
    at: float  # Unix time, by this machine's clock
    nodes: tuple[NodeView, ...] = ()
    overview: Overview | None = None  # None: `nodes` are shown
    error: str | None = None  # of the whole source
    age_seconds: float = 0.0  # age of the values if there is an error


# --- history --------------------------------------------------------------
# Totals of a view, and the history of utilization for sparklines, one value per reading.


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
