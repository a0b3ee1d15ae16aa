"""What a node is, once its description has been read and found good."""

from dataclasses import dataclass, field
from enum import StrEnum

from accelscope.simulate.faults import Fault
from accelscope.simulate.load import Shape
from accelscope.simulate.nvidia.cards import Card
from accelscope.simulate.nvidia.mig import MigDevice


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupSpec:
    """Ids that are not given are derived from the seed."""

    kind: CgroupKind = CgroupKind.HOST
    qos: PodQos = PodQos.BURSTABLE
    pod_uid: str | None = None
    container_id: str | None = None
    job: int | None = None  # Slurm
    unit: str | None = None  # systemd, of a host process; None: a user's session


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
    devices: tuple[int, ...]
    instance: int | None = None  # MIG device of each device
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaDeviceSpec:
    card: Card
    power_limit_watts: float
    ambient_celsius: float = 30.0
    links_down: tuple[int, ...] = ()
    mig: tuple[MigDevice, ...] | None = None  # None: MIG is off


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCost:
    """What one run of the tool costs: CPU time and resident memory."""

    cpu_milliseconds: int = 0
    memory_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaSpec:
    driver_version: str = "590.48.01"
    cuda_version: str = "13.1"
    call_cost_microseconds: int = 0  # CPU time of every library call
    pcie_window_milliseconds: int = 20  # how long the driver measures PCIe traffic while the caller waits
    process_utilization: bool = True  # False: only nvmlDeviceGetProcessesUtilizationInfo answers
    tool: ToolCost = ToolCost()
    devices: tuple[NvidiaDeviceSpec, ...] = ()

    @property
    def driver_major(self) -> int:
        return int(self.driver_version.split(".", 1)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    name: str
    seed: int = 1
    nvidia: NvidiaSpec = NvidiaSpec()
    processes: tuple[ProcessSpec, ...] = ()
    faults: tuple[Fault, ...] = ()
    text: str = field(default="", repr=False)  # the description itself
