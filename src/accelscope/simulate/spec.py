"""What a node is, once its description has been read and found good."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Protocol, Self, TypeVar

from accelscope.simulate.faults import Fault
from accelscope.simulate.load import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    shape: Shape = Shape.STEADY
    level: float = 0.6
    period_seconds: float | None = None


class CgroupKind(StrEnum):
    POD = "pod"
    DOCKER = "docker"
    SLURM = "slurm"
    HOST = "host"


class PodQos(StrEnum):
    GUARANTEED = "guaranteed"
    BURSTABLE = "burstable"
    BESTEFFORT = "besteffort"


@dataclass(frozen=True, slots=True)
class PodOwner:
    kind: str  # Deployment, Job ...
    name: str | None = None  # None: that of the workload


@dataclass(frozen=True, slots=True)
class HamiShare:
    """What HAMi lets a container use of each of its devices."""

    memory_bytes: int
    cores_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """What Kubernetes knows of a pod. Names that are not given are derived from the seed."""

    namespace: str | None = None
    name: str | None = None
    container: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    owner: PodOwner | None = None  # None: a Deployment, unless the pod has a name of its own
    resource: str | None = None  # None: the usual one of the device's plugin
    replicas: int | None = None  # of each device; None: the device itself, or one where others hold some too
    hami: HamiShare | None = None
    allocated: bool = True  # False: it uses devices that nobody gave it


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupSpec:
    """Ids that are not given are derived from the seed."""

    kind: CgroupKind = CgroupKind.HOST
    qos: PodQos = PodQos.BURSTABLE
    pod_uid: str | None = None
    container_id: str | None = None
    job: int | None = None  # Slurm
    unit: str | None = None  # systemd, of a host process; None: a user's session
    pod: PodSpec = PodSpec()


class ProcessType(StrEnum):
    """The vendor's letters: compute, graphics, and M for clients of NVIDIA's Multi-Process Service."""

    COMPUTE = "C"
    GRAPHICS = "G"
    BOTH = "C+G"
    MPS = "M+C"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A workload: `count` processes on each of its devices, all in one container, pod or job."""

    name: str
    vendor: str
    devices: tuple[int, ...]  # among those of the vendor
    instance: int | None = None  # of each of the devices, where they are cut into several
    count: int = 1
    spans_devices: bool = False  # each process uses all of the devices, instead of one
    memory_bytes: int = 1 << 30
    memory_reported: bool = True
    load: LoadSpec = LoadSpec()
    encoder: float = 0.0  # ratio at full load
    decoder: float = 0.0
    type: ProcessType = ProcessType.COMPUTE
    uid: int = 1000
    cgroup: CgroupSpec = CgroupSpec()
    pid: int | None = None
    begin: float | None = None
    until: float | None = None
    own: Hashable | None = None  # what only its vendor knows of


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderSpec:
    """A pod that holds devices and runs nothing on them."""

    vendor: str
    devices: tuple[int, ...]
    instance: int | None = None
    cgroup: CgroupSpec = CgroupSpec(kind=CgroupKind.POD)
    begin: float | None = None
    until: float | None = None
    own: Hashable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCost:
    """What one run of a tool costs: CPU time and resident memory."""

    cpu_milliseconds: int = 0
    memory_mib: int = 0


FREE = ToolCost()


@dataclass(frozen=True, slots=True)
class MemoryPool:
    """Memory that processes share; `name` tells it from the vendor's other pools."""

    name: Hashable
    bytes: int


class VendorSpec(Protocol):
    """A vendor's section of the description: a frozen dataclass of its own that derives from this."""

    @property
    def device_count(self) -> int: ...

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:
        """Where a process on this device, or on this instance of it, takes its memory from."""

    def instances(self, device: int) -> int | None:  # noqa: ARG002  what holds where nothing can be cut
        """Into how many instances the device is cut; a process there must say on which it runs. None: it is
        whole."""
        return None

    def without_costs(self) -> Self:
        """The same driver, whose tools use no time of their own."""
        costs = {f.name: FREE for f in fields(self) if isinstance(getattr(self, f.name), ToolCost)}  # type: ignore[arg-type]
        return replace(self, **costs)  # type: ignore[type-var]


Own = TypeVar("Own", bound=VendorSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    name: str
    seed: int = 1
    vendors: Mapping[str, VendorSpec] = field(default_factory=dict)  # in the order of the registry
    processes: tuple[ProcessSpec, ...] = ()
    holders: tuple[HolderSpec, ...] = ()
    node_labels: tuple[tuple[str, str], ...] = ()  # of the Node object, beside the usual ones
    faults: tuple[Fault, ...] = ()
    text: str = field(default="", repr=False)  # the description itself

    def of(self, kind: type[Own]) -> Own:
        """The section of the vendor whose class this is. Raises LookupError."""
        for spec in self.vendors.values():
            if isinstance(spec, kind):
                return spec
        raise LookupError(f"{self.name} has no {kind.__name__}")

    @property
    def device_count(self) -> int:
        return sum(spec.device_count for spec in self.vendors.values())
