"""The whole node at one instant: what sinks, pages and the fleet are made from."""

from dataclasses import dataclass

from accelscope.model.device import Device, Vendor
from accelscope.model.health import Counted
from accelscope.model.workload import (
    Allocation,
    AttributionSourceState,
    DeviceBalance,
    Pod,
    PodUsage,
    Process,
    Unattributed,
)

# --- sink ------------------------------------------------------------
# How a sink is doing: what carries readings out to somewhere else.


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """A writer of readings [into the Node object](node-object.md)."""

    sink: str
    """`annotation`, `labels`, `feature-file` or `idle-state`."""
    up: bool
    """What it carries was written when it last tried."""
    reason: str | None = None
    """A short word for why it is not up; `too_large` also for what was left out. Absent: nothing is wrong."""
    error: str | None = None
    """The last error, for people; kept after the sink is well again. Absent: no error yet."""
    last_success: float | None = None
    """When it last wrote. Absent: before the first success."""
    writes: int = 0
    """Writes that succeeded."""
    skips: int = 0
    """Collections that had nothing new to write."""
    errors: tuple[Counted, ...] = ()
    """Writes that failed or had to leave something out, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """The reader of one vendor's driver."""

    vendor: Vendor
    """Whose driver it reads."""
    found: bool
    """The driver or its tool is on this node."""
    up: bool
    """The last pass brought something back."""
    source: str | None = None
    """Where it reads: `nvml`, `nvidia-smi`, `sysfs` …"""
    driver_version: str | None = None
    """Version of the driver."""
    reason: str | None = None
    """Why it is not up, for people. Absent: while it is up."""
    duration_seconds: float | None = None
    """How long the last pass took. Absent: before the first pass."""
    last_success: float | None = None
    """When a pass last succeeded. Absent: before the first success."""
    devices_expected: int = 0
    """Devices that should be there: by setting, else all that were seen since the agent started."""
    devices_seen: int = 0
    """Devices that answered at the last pass."""
    abandoned_calls: int = 0
    """Calls into the driver that were given up and have not come back."""
    errors: tuple[Counted, ...] = ()
    """Failed reads, by reason."""
    rejected: tuple[Counted, ...] = ()
    """Lines or cells of its answer that could not be taken as a value, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """The agent itself."""

    version: str
    """Version of AccelScope."""
    started_at: float
    """When the agent started."""
    collections: int = 0
    """Collections since the agent started."""
    overruns: int = 0
    """Collections that began late because the one before took longer than the interval."""
    collection_seconds: float | None = None
    """How long this collection took. Absent: never."""
    cpu_seconds: float | None = None
    """CPU time used by the agent and the tools that it ran. Absent: never."""
    memory_bytes: int | None = None
    """Resident memory of the agent."""
    threads: int | None = None
    """Threads of the agent. Absent: never."""
    open_files: int | None = None
    """Files and sockets that the agent has open."""
    config_reloads: tuple[Counted, ...] = ()
    """Changes of the settings file that were noticed, by what came of them."""
    token_reviews: tuple[Counted, ...] = ()
    """Reviews of bearer tokens by the API server, by what came of them. Absent: none, or tokens are not
    reviewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The document: the whole node at one instant."""

    node: str
    """Name of the node, as Kubernetes or the machine itself has it."""
    taken_at: float
    """When the collection was made, by the node's clock."""
    agent: AgentState
    """The agent itself."""
    interval_seconds: float | None = None
    """Time from one collection to the next. Absent: never."""
    labels: tuple[tuple[str, str], ...] = ()
    """Static labels of the node (`LABELS`)."""
    readers: tuple[ReaderState, ...] = ()
    """One for each vendor that is looked for."""
    devices: tuple[Device, ...] = ()
    """All that were found, those that do not answer included."""
    processes: tuple[Process, ...] = ()
    """One for each process and device."""
    # whose they are
    node_labels: tuple[tuple[str, str], ...] = ()
    """Labels of the Node object, those that `NODE_LABELS` names."""
    attribution: tuple[AttributionSourceState, ...] = ()
    """The sources of attribution that are in use."""
    pods: tuple[Pod, ...] = ()
    """Pods of this node that hold or use a device."""
    allocations: tuple[Allocation, ...] = ()
    """Device ids that containers were given."""
    pod_usages: tuple[PodUsage, ...] = ()
    """What containers use and hold, by device."""
    unattributed: tuple[Unattributed, ...] = ()
    """Use that is attributed to no pod, by device and owner."""
    balances: tuple[DeviceBalance, ...] = ()
    """What makes the parts of a device add up to the whole."""
    sinks: tuple[SinkState, ...] = ()
    """Writers of readings into the Node object, as they were when the collection was made."""


# --- reading ------------------------------------------------------------
# What a reader brings back from one device.


@dataclass(frozen=True, slots=True)
class Rejection:
    """A line or cell that was there but could not be taken as a value. It costs itself only."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    device: Device
    processes: tuple[Process, ...] = ()
    rejected: tuple[Rejection, ...] = ()
