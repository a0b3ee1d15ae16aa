"""The rows of the fleet's tables, and with them of its API: one declaration for columns, answers and OpenAPI.

A field is a column: text is interned, numbers are arrays in which NaN is absence, so that a filter or a sum
over a hundred thousand rows is one operation. Lists are no columns and stay in the node's document.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from accelscope.model import Snapshot


def _described(text: str) -> Meta:
    return Meta(description=text)


Ratio = Annotated[float | None, _described("0 to 1; null: not known")]
Bytes = Annotated[int | None, _described("bytes; null: not known")]
Seconds = Annotated[float | None, _described("seconds; null: not known")]


class Row(Struct, frozen=True, kw_only=True, gc=False):
    cluster: str
    node: str


class NodeRow(Row, frozen=True, kw_only=True, gc=False):
    """A node with accelerators, or one that should have them."""

    state: Annotated[str, _described("`fresh`, `stale`, `incompatible` or `unread`")]
    reason: Annotated[str | None, _described("why it is not fresh, or was not read the last time")] = None
    source: Annotated[str | None, _described("the sources that it was read from, by precedence")] = None
    simulated: bool = False
    taken_at: Annotated[float | None, _described("when it was read, seconds since the epoch")] = None
    age_seconds: Seconds = None
    agent_version: str | None = None
    vendors: Annotated[str | None, _described("vendors of its devices, separated by commas")] = None
    models: Annotated[str | None, _described("models of its devices, separated by commas")] = None
    devices: int = 0
    devices_lost: int = 0
    devices_unhealthy: Annotated[int, _described("warning, critical or lost")] = 0
    pods: int = 0
    processes: int = 0
    utilization_ratio: Annotated[float | None, _described("mean of its devices, 0 to 1")] = None
    memory_total_bytes: Bytes = None
    memory_used_bytes: Bytes = None
    memory_used_ratio: Annotated[
        float | None, _described("used of total, over devices that report both; null: none does")
    ] = None
    power_watts: float | None = None
    temperature_max_celsius: float | None = None


class DeviceRow(Row, frozen=True, kw_only=True, gc=False):
    id: Annotated[str, _described("stable: vendor and uuid, serial number or PCI address")]
    vendor: str
    index: int | None = None
    model: str | None = None
    uuid: str | None = None
    serial: str | None = None
    pci_address: str | None = None
    driver_version: str | None = None
    firmware_version: str | None = None
    source: str
    state: Annotated[str, _described("`fresh` or `stale`")]
    simulated: bool = False
    taken_at: Annotated[
        float | None,
        _described("when it was read, seconds since the epoch; null: never by this agent, or not told"),
    ]
    age_seconds: Seconds = None
    health: Annotated[str, _described("`ok`, `warning`, `critical`, `lost` or `unknown`")]
    health_reason: str | None = None
    unusual: Annotated[str | None, _described("what is out of the device's own habit")] = None
    utilization_ratio: Ratio = None
    memory_utilization_ratio: Ratio = None
    memory_total_bytes: Bytes = None
    memory_used_bytes: Bytes = None
    memory_free_bytes: Bytes = None
    temperature_celsius: float | None = None
    temperature_slowdown_celsius: float | None = None
    temperature_margin_celsius: Annotated[
        float | None,
        _described("°C left until the device slows itself down, negative beyond that; null: not known"),
    ] = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    energy_joules: Annotated[
        float | None, _described("since the driver was loaded, joules; null: not known")
    ] = None
    fan_speed_ratio: Ratio = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    throttled: Annotated[
        str | None, _described("reasons that slow it down, separated by commas; being idle is none")
    ] = None
    ecc_uncorrected: int | None = None
    errors: Annotated[int | None, _described("errors with a code, of all codes")] = None
    partitions: int = 0
    processes: int = 0
    allocated: Annotated[int, _described("containers that hold it or a part of it")] = 0
    idle_seconds: Annotated[
        float | None, _described("since any that holds it did anything; null: none holds it, or not known")
    ] = None
    namespaces: Annotated[str | None, _described("of the pods that hold or use it, by commas")] = None


class PodRow(Row, frozen=True, kw_only=True, gc=False):
    """One container of a pod on one device: as the agent measured, allocated or apportioned it."""

    namespace: str
    pod: str
    container: str
    device: Annotated[str, _described("id of the device")]
    partition: str | None = None
    vendor: str
    model: str | None = None
    pod_uid: str | None = None
    owner_kind: str | None = None
    owner_name: str | None = None
    source: str
    state: str
    simulated: bool = False
    taken_at: float
    age_seconds: Seconds = None
    processes: int = 0
    allocated: Annotated[int, _described("device ids that it holds; 0: it only uses the device")] = 0
    resources: Annotated[str | None, _described("names of the resources it asked for, by commas")] = None
    idle_seconds: Seconds = None
    unusual: str | None = None
    utilization_ratio: Ratio = None
    memory_used_bytes: Bytes = None
    memory_share_bytes: Bytes = None
    compute_share_ratio: Ratio = None
    device_share_ratio: Annotated[
        Ratio, _described("fraction of the device that it holds; null: it only uses the device")
    ] = None
    energy_joules: Annotated[
        float | None, _described("its part of the device's energy, joules; null: not known")
    ] = None


class ProcessRow(Row, frozen=True, kw_only=True, gc=False):
    pid: int
    device: str
    device_index: int | None = None
    vendor: str
    partition: str | None = None
    name: Annotated[str | None, _described("of the program")] = None
    user: str | None = None
    type: Annotated[str | None, _described("`compute`, `graphics` or `both`")] = None
    owner_kind: Annotated[
        str | None, _described("whose it is: pod, container, slurm_job, systemd_unit, user, none or unknown")
    ] = None
    owner: Annotated[str | None, _described("container, job, unit or user of a process in no pod")] = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    source: str
    state: str
    simulated: bool = False
    taken_at: float
    age_seconds: Seconds = None
    memory_bytes: Bytes = None
    utilization_ratio: Ratio = None
    memory_utilization_ratio: Ratio = None
    encoder_utilization_ratio: Ratio = None
    decoder_utilization_ratio: Ratio = None
    cpu_ratio: Annotated[float | None, _described("of the node's CPUs, 1 is one; null: not known")] = None
    resident_memory_bytes: Annotated[
        int | None, _described("of the node's own memory, bytes; null: not known")
    ] = None
    started_at: Annotated[
        float | None, _described("by the node's clock, seconds since the epoch; null: not known")
    ] = None


# --- report ------------------------------------------------------------
# What a source says of a node: one type for all of them, so that nobody else asks where it came from.


class SourceKind(StrEnum):
    """In order of precedence: of two that see the same vendor's devices on a node, the first one counts while
    it is fresh."""

    AGENTS = "agents"
    EXEC = "exec"
    ANNOTATIONS = "annotations"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A reading. What the source does not know of a node is absent in the snapshot."""

    node: str
    source: SourceKind
    taken_at: float  # when it was read there, by this process's clock, seconds since the epoch
    snapshot: Snapshot
    document: bytes = b""  # the snapshot as the agent sent it, gzip; empty: there is none
    remark: str | None = None  # what of it had to be left out, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUnchanged:
    """The node answered that its last reading is still its last."""

    node: str
    source: SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """A node that should have answered and did not. What was known of it stays and ages."""

    node: str
    source: SourceKind
    reason: str  # a word that serves as a metric label: timeout, unreachable, forbidden, bad_answer ...
    text: str  # one line for people; never holds a secret
    incompatible: bool = False  # it answered in a schema that this version cannot read; `text` names both


Saying = NodeReport | NodeUnchanged | NodeFailure
Take = Callable[[Saying], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOutcome:
    """How one refresh of a source went. `reason` and `text` are absent when all went well; a source may be up
    although some of its nodes failed."""

    up: bool
    expected: int = 0  # nodes that it should have heard of
    answered: int = 0
    reason: str | None = None
    text: str | None = None


class Source(Protocol):
    """One way to see one cluster. `refresh` hands over each node as soon as it has it, never raises for what
    the cluster does, and ends within its own deadlines."""

    kind: SourceKind

    async def refresh(self, take: Take) -> SourceOutcome: ...

    def sees_accelerators(self) -> bool: ...

    async def close(self) -> None: ...


# --- cluster view ------------------------------------------------------------
# What is known of a cluster as such, beside its nodes: as the API shows it.


class SourceView(Struct, frozen=True, kw_only=True, gc=False):
    """How one source of a cluster is doing."""

    kind: Annotated[str, Meta(description="`agents`, `exec`, `annotations` or `prometheus`")]
    up: Annotated[bool | None, Meta(description="null: not asked yet")] = None
    reason: Annotated[str | None, Meta(description="why it is not up, in a short word")] = None
    text: Annotated[str | None, Meta(description="why it is not up, for people")] = None
    refreshed_at: Annotated[float | None, Meta(description="seconds since the epoch")] = None
    succeeded_at: Annotated[float | None, Meta(description="when it last did, seconds since the epoch")] = (
        None
    )
    duration_seconds: Annotated[float | None, Meta(description="how long the last reading took")] = None
    expected: Annotated[int, Meta(description="nodes that it should have heard of")] = 0
    answered: Annotated[int, Meta(description="nodes that answered")] = 0
    errors: Annotated[int, Meta(description="refreshes that failed, and nodes that did not answer")] = 0


class ClusterView(Struct, frozen=True, kw_only=True):
    """A cluster of the file. `reachable` is about its API server, or about its store where it has none."""

    id: Annotated[str, Meta(description="as the clusters file has it")]
    name: str | None = None
    simulated: bool = False
    gpu: Annotated[bool | None, Meta(description="whether it has accelerators; null: not known yet")] = None
    gpu_setting: Annotated[str, Meta(description="`true`, `false` or `auto`")] = "auto"
    reachable: Annotated[bool | None, Meta(description="null: not tried yet")] = None
    reason: Annotated[str | None, Meta(description="why it is not well, in a short word")] = None
    text: Annotated[str | None, Meta(description="why it is not well, for people")] = None
    succeeded_at: Annotated[float | None, Meta(description="null: it was never reached")] = None
    age_seconds: Annotated[float | None, Meta(description="since anything of it was read")] = None
    sources: Annotated[list[SourceView], Meta(description="what it is read from")] = []
    nodes: Annotated[
        int | None, Meta(description="number of nodes; null: nothing was read of the cluster yet")
    ] = None
    devices: Annotated[
        int | None, Meta(description="number of devices; null: nothing was read of the cluster yet")
    ] = None
