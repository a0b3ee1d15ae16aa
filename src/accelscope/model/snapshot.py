"""The whole node at one instant: what sinks, pages and the fleet are made from."""

from dataclasses import dataclass

from accelscope.model.counted import Counted
from accelscope.model.device import Device, Vendor
from accelscope.model.process import Process
from accelscope.model.sink import SinkState
from accelscope.model.workload import (
    Allocation,
    AttributionSourceState,
    DeviceBalance,
    Pod,
    PodUsage,
    Unattributed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    vendor: Vendor
    found: bool  # the driver or its tool is on this node
    up: bool  # the last pass brought something back
    source: str | None = None  # where it reads: nvml, nvidia-smi, sysfs ...
    driver_version: str | None = None
    reason: str | None = None  # why it is not up, for people
    duration_seconds: float | None = None
    last_success: float | None = None  # seconds since the epoch
    devices_expected: int = 0
    devices_seen: int = 0
    abandoned_calls: int = 0  # driver calls that have not come back
    errors: tuple[Counted, ...] = ()
    rejected: tuple[Counted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    version: str
    started_at: float
    collections: int = 0
    overruns: int = 0
    collection_seconds: float | None = None
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    threads: int | None = None
    open_files: int | None = None
    config_reloads: tuple[Counted, ...] = ()
    token_reviews: tuple[Counted, ...] = ()  # by what came of them; empty where tokens are not reviewed


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    node: str
    taken_at: float  # seconds since the epoch
    agent: AgentState
    interval_seconds: float | None = None
    labels: tuple[tuple[str, str], ...] = ()  # static labels of the node, by setting
    readers: tuple[ReaderState, ...] = ()
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    # whose they are
    node_labels: tuple[tuple[str, str], ...] = ()  # of the Node object, those that a setting names
    attribution: tuple[AttributionSourceState, ...] = ()
    pods: tuple[Pod, ...] = ()  # those that hold or use a device
    allocations: tuple[Allocation, ...] = ()
    pod_usages: tuple[PodUsage, ...] = ()
    unattributed: tuple[Unattributed, ...] = ()
    balances: tuple[DeviceBalance, ...] = ()
    sinks: tuple[SinkState, ...] = ()  # as they were when the collection was made
