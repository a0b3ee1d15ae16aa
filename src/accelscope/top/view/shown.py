"""What a source hands to whatever shows it: nodes, devices, processes, and a fleet's overview.

Units are the model's; `None` is absent and is shown as such, never as 0. Text is as its source wrote it:
`text.clean` makes it fit for a terminal where lines are made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from accelscope.model import HealthState, OwnerKind


class Kind(StrEnum):
    """Where a view is from."""

    LOCAL = "local"
    AGENTS = "agents"
    FLEET = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    key: str
    id: str
    label: str  # its profile, or what its driver calls it
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
    stale: bool = False
    read_at: float | None = None  # seconds since the epoch of the last good reading
    unusual: str | None = None  # a fleet's word for what is out of its habit
    utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    temperature_slowdown_celsius: float | None = None
    fan_ratio: float | None = None
    clock_hertz: float | None = None
    throttles: tuple[str, ...] = ()  # reasons at work
    pods: tuple[str, ...] = ()  # namespace/pod of those that hold or use it
    idle_seconds: float | None = None  # since any that holds it did anything with it
    idle_ratio: float = 0.0  # fraction of it that is held and idle
    partitions: tuple[PartitionView, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """What a process does on one device or partition."""

    device: str  # key of the device
    label: str  # how its device is named beside it
    partition: str | None = None  # key of the partition
    type: str | None = None
    memory_bytes: int | None = None
    utilization_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """A process once, however many devices it is on."""

    key: str
    node: str  # key of its node
    pid: int
    name: str | None = None
    user: str | None = None
    uses: tuple[Use, ...] = ()
    cpu_ratio: float | None = None  # 1.0 is one CPU
    resident_memory_bytes: int | None = None
    started_at: float | None = None  # seconds since the epoch
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    owner_kind: OwnerKind | None = None  # None: nobody has looked
    owner: str | None = None  # of a process in no pod: container, job, unit or user

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
        """Over all its devices: two that it keeps half busy are 1.0."""
        known = [use.utilization_ratio for use in self.uses if use.utilization_ratio is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    key: str
    name: str
    source: str  # where it was read: a URL, or this node
    cluster: str | None = None
    error: str | None = None  # why the last attempt brought nothing; what is shown is older
    age_seconds: float | None = None  # None: it was never read
    simulated: bool = False
    driver: str | None = None
    drivers_found: bool = True
    read: bool = False  # whether what is shown was read from a driver at all
    devices: tuple[DeviceView, ...] = ()
    processes: tuple[ProcessView, ...] = ()
    troubles: tuple[str, ...] = ()  # of readers, one line each
    notes: tuple[str, ...] = ()  # what is less than a trouble: sources of names that are not up
    document: Mapping[str, Any] | None = None  # as it came, for who wants it whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Of a cluster, or of all; what is absent stays out of sums and means."""

    nodes: int | None = 0  # None: not read yet, as of devices and processes
    nodes_not_read: int = 0  # among them, so that there is nothing of them in what follows
    devices: int | None = 0
    devices_lost: int = 0
    devices_unhealthy: int = 0  # warning, critical or lost
    devices_idle: float | None = None  # sum of the fractions of devices that are held and idle
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
    """Of a fleet: sums, clusters, and one page of its nodes."""

    sums: Sums
    clusters: tuple[ClusterSums, ...] = ()
    nodes: tuple[NodeSums, ...] = ()
    nodes_total: int = 0  # on all pages
    page: int = 0
    has_next: bool = False
    troubles: tuple[str, ...] = ()  # the worst of them, one line each
    troubles_total: int = 0  # also those that have no line
    documents: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    kind: Kind
    title: str
    at: float  # seconds since the epoch, by this machine's clock
    nodes: tuple[NodeView, ...] = ()
    overview: Overview | None = None  # None: nodes are shown, also of a fleet whose node was asked for
    error: str | None = None  # of the source as a whole
    age_seconds: float = 0.0  # of what is shown where there is an error
