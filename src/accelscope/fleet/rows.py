"""Types that the sources, the store and the API share: table rows, node reports and cluster views.

A field of a row is a column of the store's table and a field of the API's responses. Fields that a row shares
with an object of the snapshot have no description here: OpenAPI takes it from the model (`api/openapi.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from accelscope.model import Snapshot
from accelscope.vendors import declarations


def _described(text: str) -> Meta:
    return Meta(description=text)


HealthName = Annotated[str, _described("`ok`, `warning`, `critical`, `lost` or `unknown`")]
VendorName = Annotated[str, _described(", ".join(f"`{name}`" for name in declarations()))]


class Row(Struct, frozen=True, kw_only=True, gc=False):
    cluster: str
    node: str


class NodeRow(Row, frozen=True, kw_only=True, gc=False):
    """A node that has accelerators, or is expected to have them."""

    state: Annotated[str, _described("`fresh`, `stale`, `incompatible` or `unread`")]
    reason: Annotated[str | None, _described("why the node is not fresh, or why the last read failed")] = None
    source: Annotated[str | None, _described("sources of the data, by precedence, separated by commas")] = (
        None
    )
    simulated: bool = False
    taken_at: float | None = None
    age_seconds: float | None = None
    agent_version: str | None = None
    vendors: Annotated[str | None, _described("vendors of its devices, separated by commas")] = None
    models: Annotated[str | None, _described("models of its devices, separated by commas")] = None
    devices: int = 0
    devices_lost: int = 0
    devices_unhealthy: Annotated[
        int, _described("number of devices whose health is warning, critical or lost")
    ] = 0
    pods: int = 0
    processes: int = 0
    utilization_ratio: Annotated[float | None, _described("mean over its devices")] = None
    memory_total_bytes: Annotated[int | None, _described("sum over its devices")] = None
    memory_used_bytes: Annotated[int | None, _described("sum over its devices")] = None
    memory_used_ratio: Annotated[
        float | None, _described("used memory divided by total memory, over devices that report both")
    ] = None
    power_watts: Annotated[float | None, _described("sum over its devices")] = None
    temperature_max_celsius: float | None = None


class DeviceRow(Row, frozen=True, kw_only=True, gc=False):
    id: str
    vendor: VendorName
    index: int | None = None
    model: str | None = None
    uuid: str | None = None
    serial: str | None = None
    pci_address: str | None = None
    driver_version: str | None = None
    firmware_version: str | None = None
    source: str
    state: str
    simulated: bool = False
    taken_at: Annotated[
        float | None,
        _described("time of the reading, in seconds since the epoch; null: never read, or not reported"),
    ]
    age_seconds: float | None = None
    health: HealthName
    health_reason: str | None = None
    health_action: str | None = None
    unusual: str | None = None
    utilization_ratio: float | None = None
    memory_utilization_ratio: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    temperature_celsius: float | None = None
    temperature_slowdown_celsius: float | None = None
    temperature_margin_celsius: Annotated[
        float | None,
        _described("degrees below the slowdown temperature; negative above it"),
    ] = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    energy_joules: float | None = None
    fan_speed_ratio: Annotated[float | None, _described("speed of the fastest fan")] = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    throttled: Annotated[
        str | None, _described("active throttle reasons, separated by commas; idle clocks do not count")
    ] = None
    ecc_uncorrected: Annotated[int | None, _described("number of uncorrected memory errors")] = None
    errors: Annotated[int | None, _described("number of errors reported with a code, over all codes")] = None
    partitions: Annotated[int, _described("number of partitions")] = 0
    processes: int = 0
    allocated: Annotated[
        int, _described("number of containers that the device, or a part, is allocated to")
    ] = 0
    idle_seconds: Annotated[
        float | None,
        _described("time since any of these containers used it; null: not allocated, or not known"),
    ] = None
    namespaces: Annotated[
        str | None,
        _described("namespaces of the pods that it is allocated to or that use it, separated by commas"),
    ] = None


class PodRow(Row, frozen=True, kw_only=True, gc=False):
    """One container of a pod on one device: values measured, allocated or apportioned by the agent."""

    namespace: str
    pod: str
    container: str
    device: str
    partition: str | None = None
    vendor: VendorName
    model: str | None = None
    pod_uid: str | None = None
    owner_kind: str | None = None
    owner_name: str | None = None
    source: str
    state: str
    simulated: bool = False
    taken_at: float
    age_seconds: float | None = None
    processes: int = 0
    allocated: int = 0
    resources: Annotated[str | None, _described("names of the allocated resources, separated by commas")] = (
        None
    )
    idle_seconds: float | None = None
    unusual: str | None = None
    utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_share_bytes: int | None = None
    compute_share_ratio: float | None = None
    device_share_ratio: float | None = None
    energy_joules: float | None = None


class ProcessRow(Row, frozen=True, kw_only=True, gc=False):
    pid: int
    device: str
    device_index: int | None = None
    vendor: VendorName
    partition: str | None = None
    name: str | None = None
    user: str | None = None
    type: Annotated[str | None, _described("`compute`, `graphics` or `both`")] = None
    owner_kind: Annotated[
        str | None, _described("`pod`, `container`, `slurm_job`, `systemd_unit`, `user`, `none` or `unknown`")
    ] = None
    owner: Annotated[
        str | None, _described("container, job, unit or user of a process that is in no pod")
    ] = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    source: str
    state: str
    simulated: bool = False
    taken_at: float
    age_seconds: float | None = None
    memory_bytes: int | None = None
    utilization_ratio: float | None = None
    memory_utilization_ratio: float | None = None
    encoder_utilization_ratio: float | None = None
    decoder_utilization_ratio: float | None = None
    cpu_ratio: float | None = None
    resident_memory_bytes: int | None = None
    started_at: float | None = None


# --- Reports of sources ------------------------------------------------------


class SourceKind(StrEnum):
    """In order of precedence: if two sources report the same vendor's devices on a node, the first one counts
    while it is fresh."""

    AGENTS = "agents"
    EXEC = "exec"
    ANNOTATIONS = "annotations"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A reading of a node. What the source cannot read is absent in the snapshot."""

    node: str
    source: SourceKind
    taken_at: float  # time of the reading, by this process's clock, seconds since the epoch
    snapshot: Snapshot
    structure: str | None = None  # as the agent names it; None: it sends no updates
    document: bytes = b""  # the snapshot as the agent sent it, gzip; empty: there is none
    remark: str | None = None  # what was omitted, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeValues:
    """A newer reading of a node that has the same rows as the last report of the source: values by row and
    column. The columns are those of `model.update`; NaN is an absent value."""

    node: str
    source: SourceKind
    taken_at: float
    structure: str  # of that report
    texts: dict[str, list[str | None]]  # of devices, by column
    devices: npt.NDArray[np.float64]
    containers: npt.NDArray[np.float64]
    processes: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUnchanged:
    """The node responded, and has no newer reading than the last one."""

    node: str
    source: SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """The node did not respond, or its response cannot be used. Its last reading stays and ages."""

    node: str
    source: SourceKind
    reason: str  # a metric label: timeout, unreachable, forbidden, bad_answer ...
    text: str  # one line for people, without secrets
    incompatible: bool = (
        False  # this version cannot read the schema of the response; `text` names both versions
    )


NodeUpdate = NodeReport | NodeValues | NodeUnchanged | NodeFailure
UpdateHandler = Callable[[NodeUpdate], None]


class ReportNeeded(Exception):
    """Raised by an UpdateHandler for NodeValues that do not fit the stored rows: the source sends a report
    instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOutcome:
    """The result of one refresh of a source. `reason` and `text` are None if nothing failed. A source can be
    up although some of its nodes failed."""

    up: bool
    expected: int = 0  # nodes that should have responded
    answered: int = 0
    reason: str | None = None
    text: str | None = None


class ClusterSource(Protocol):
    """One way to read one cluster. `refresh` passes each node to `take` as soon as it is read, does not raise
    for failures of the cluster, and returns within its own deadlines."""

    kind: SourceKind

    async def refresh(self, take: UpdateHandler) -> SourceOutcome: ...

    def sees_accelerators(self) -> bool: ...

    async def close(self) -> None: ...


# --- Clusters and their sources, as the API returns them ---------------------


class SourceView(Struct, frozen=True, kw_only=True, gc=False):
    kind: Annotated[str, _described("`agents`, `exec`, `annotations` or `prometheus`")]
    up: Annotated[bool | None, _described("true: the last refresh succeeded; null: not tried yet")] = None
    reason: Annotated[str | None, _described("why it is not up, as a short identifier")] = None
    text: Annotated[str | None, _described("why it is not up, as a message")] = None
    refreshed_at: Annotated[
        float | None, _described("time of the last refresh, in seconds since the epoch")
    ] = None
    succeeded_at: Annotated[
        float | None, _described("time of the last refresh that succeeded, in seconds since the epoch")
    ] = None
    duration_seconds: Annotated[float | None, _described("duration of the last refresh")] = None
    expected: Annotated[int, _described("number of nodes that should have responded")] = 0
    answered: Annotated[int, _described("number of nodes that responded")] = 0
    errors: Annotated[int, _described("number of failed refreshes and of nodes that did not respond")] = 0


class ClusterView(Struct, frozen=True, kw_only=True):
    id: Annotated[str, _described("id in the clusters file")]
    name: str | None = None
    simulated: bool = False
    gpu: Annotated[bool | None, _described("true: it has accelerators; null: not known yet")] = None
    gpu_setting: Annotated[str, _described("`capabilities.gpu`: `true`, `false` or `auto`")] = "auto"
    reachable: Annotated[
        bool | None,
        _described(
            "true: its API server, or its Prometheus store if it has none, responds; null: not tried yet"
        ),
    ] = None
    reason: Annotated[
        str | None, _described("why it is unreachable or partly failing, as a short identifier")
    ] = None
    text: Annotated[str | None, _described("why it is unreachable or partly failing, as a message")] = None
    succeeded_at: Annotated[
        float | None, _described("when it last responded, in seconds since the epoch; null: never")
    ] = None
    age_seconds: Annotated[float | None, _described("time since the last reading of any node")] = None
    sources: Annotated[list[SourceView], _described("its sources")] = []
    nodes: Annotated[int | None, _described("number of nodes; null: nothing was read yet")] = None
    devices: Annotated[int | None, _described("number of devices; null: nothing was read yet")] = None
