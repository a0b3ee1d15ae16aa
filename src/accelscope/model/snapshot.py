"""The snapshot of a node, with the state of the agent, its readers and its sinks."""

from dataclasses import dataclass

from accelscope.model.device import Device, Health, ReasonCount, Vendor
from accelscope.model.workload import (
    Allocation,
    AttributionSourceState,
    DeviceBalance,
    Pod,
    PodUsage,
    Process,
    Unattributed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """A sink: it writes readings [to the Node object](node-object.md)."""

    sink: str
    """`annotation`, `labels`, `feature-file`, `idle-state` or `health-state`."""
    up: bool
    """The last write succeeded."""
    reason: str | None = None
    """Why it is not up, as a keyword; `too_large` also if something was left out. Absent: no problem."""
    error: str | None = None
    """Text of the last error; it stays after the sink has recovered. Absent: no error yet."""
    last_success: float | None = None
    """Time of the last successful write. Absent: before the first success."""
    writes: int = 0
    """Successful writes."""
    skips: int = 0
    """Collections with nothing new to write."""
    errors: tuple[ReasonCount, ...] = ()
    """Writes that failed or left something out, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """The reader of one vendor's driver."""

    vendor: Vendor
    """Vendor of the driver."""
    found: bool
    """The driver or its tool was found on this node."""
    up: bool
    """The last read succeeded."""
    source: str | None = None
    """Source of the readings: `nvml`, `nvidia-smi`, `sysfs` …"""
    driver_version: str | None = None
    """Version of the driver."""
    reason: str | None = None
    """Human-readable reason why it is not up. Absent: while it is up."""
    duration_seconds: float | None = None
    """Duration of the last complete read. Absent: before the first read."""
    last_success: float | None = None
    """Time of the last successful read. Absent: before the first success."""
    devices_expected: int = 0
    """Number of expected devices: as configured, otherwise all devices seen since the agent started."""
    devices_seen: int = 0
    """Number of devices that answered the last read."""
    abandoned_calls: int = 0
    """Driver calls that missed their deadline and have not returned yet."""
    errors: tuple[ReasonCount, ...] = ()
    """Failed reads, by reason."""
    rejected: tuple[ReasonCount, ...] = ()
    """Lines or values of the driver's output that could not be parsed, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """State of the agent."""

    version: str
    """Version of AccelScope."""
    started_at: float
    """Start time of the agent."""
    collections: int = 0
    """Collections since the agent started."""
    overruns: int = 0
    """Collections that started late because the previous one took longer than the interval."""
    collection_seconds: float | None = None
    """Duration of this collection. Absent: never."""
    cpu_seconds: float | None = None
    """CPU time used by the agent and by the tools that it ran. Absent: never."""
    memory_bytes: int | None = None
    """Resident memory of the agent."""
    threads: int | None = None
    """Number of threads of the agent. Absent: never."""
    open_files: int | None = None
    """Open files and sockets of the agent."""
    config_reloads: tuple[ReasonCount, ...] = ()
    """Detected changes of the configuration file, by result."""
    token_reviews: tuple[ReasonCount, ...] = ()
    """Bearer tokens reviewed by the API server, by result. Absent: no reviews, or token review is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The document: the state of a node at one time."""

    node: str
    """Name of the node in Kubernetes, or its host name."""
    taken_at: float
    """Time of the collection, by the node's clock."""
    agent: AgentState
    """State of the agent."""
    interval_seconds: float | None = None
    """Interval between collections. Absent: never."""
    labels: tuple[tuple[str, str], ...] = ()
    """Static labels of the node (`LABELS`)."""
    readers: tuple[ReaderState, ...] = ()
    """One per enabled vendor."""
    devices: tuple[Device, ...] = ()
    """All devices found, including those that do not answer."""
    processes: tuple[Process, ...] = ()
    """One per process and device."""
    # attribution
    node_labels: tuple[tuple[str, str], ...] = ()
    """Labels of the Node object that `NODE_LABELS` lists."""
    attribution: tuple[AttributionSourceState, ...] = ()
    """Attribution sources in use."""
    pods: tuple[Pod, ...] = ()
    """Pods of this node that use a device or have one allocated."""
    allocations: tuple[Allocation, ...] = ()
    """Device ids allocated to containers."""
    pod_usages: tuple[PodUsage, ...] = ()
    """Use and allocations of containers, by device."""
    unattributed: tuple[Unattributed, ...] = ()
    """Use that is not attributed to a pod, by device and owner."""
    balances: tuple[DeviceBalance, ...] = ()
    """Differences between the total of a device and the sum over its pods."""
    sinks: tuple[SinkState, ...] = ()
    """Sinks that write to the Node object, at the time of the collection."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A line or value that could not be parsed. It does not affect the others."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Result of reading one device."""

    device: Device
    processes: tuple[Process, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    # Everything that the driver reports as a problem now, the worst as `device.health`; empty: only that.
    problems: tuple[Health, ...] = ()
