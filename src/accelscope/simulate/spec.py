"""The specification of a simulated node, as read from its description; loads over time; values derived from a
seed."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from hashlib import sha256
from typing import Protocol, Self, TypeVar

from accelscope.config.document import Section
from accelscope.config.values import ConfigError, WholeNumber
from accelscope.simulate.faults import Fault


class Shape(StrEnum):
    STEADY = "steady"  # around its level, with a slight ripple
    WAVE = "wave"  # between a tenth of its level and its level
    BURSTY = "bursty"  # its level or 0
    IDLE = "idle"  # 0, with memory allocated


_RIPPLE = 0.05  # of a steady load, either way
_WAVE_FLOOR = 0.1
_BURST_DUTY = 0.4  # share of a period that a burst lasts
DEFAULT_PERIOD_SECONDS = {Shape.STEADY: 37.0, Shape.WAVE: 120.0, Shape.BURSTY: 45.0, Shape.IDLE: 60.0}


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """The load of a process over time: a ratio, 0 outside of [begin, until).

    It is a function of time with a known integral. So counters that are computed from it (energy, bytes) are
    exact for any instant, and never decrease.
    """

    shape: Shape
    level: float
    period: float
    phase: float  # 0-1 of a period
    begin: float = -math.inf
    until: float = math.inf

    @property
    def peak(self) -> float:
        if self.shape is Shape.IDLE:
            return 0.0
        return self.level * (1 + _RIPPLE) if self.shape is Shape.STEADY else self.level

    def scaled(self, factor: float) -> "LoadCurve":
        return LoadCurve(self.shape, self.level * factor, self.period, self.phase, self.begin, self.until)

    def runs_at(self, at: float) -> bool:
        return self.begin <= at < self.until

    def at(self, at: float) -> float:
        if not self.runs_at(at):
            return 0.0
        turn = at / self.period + self.phase
        match self.shape:
            case Shape.STEADY:
                return self.level * (1 + _RIPPLE * math.sin(math.tau * turn))
            case Shape.WAVE:
                return self.level * (_WAVE_FLOOR + (1 - _WAVE_FLOOR) * (1 + math.sin(math.tau * turn)) / 2)
            case Shape.BURSTY:
                return self.level if turn % 1 < _BURST_DUTY else 0.0
            case Shape.IDLE:
                return 0.0

    def integral(self, at: float) -> float:
        """Ratio times seconds up to `at`, from a fixed origin."""
        at = min(max(at, self.begin), self.until)
        turn = at / self.period + self.phase
        swing = -math.cos(math.tau * turn) * self.period / math.tau
        match self.shape:
            case Shape.STEADY:
                return self.level * (at + _RIPPLE * swing)
            case Shape.WAVE:
                return self.level * (_WAVE_FLOOR * at + (1 - _WAVE_FLOOR) * (at + swing) / 2)
            case Shape.BURSTY:
                bursts = math.floor(turn) * _BURST_DUTY + min(turn % 1, _BURST_DUTY)
                return self.level * bursts * self.period
            case Shape.IDLE:
                return 0.0

    def mean(self, at: float, window: float = 1.0) -> float:
        """The mean over the last `window` seconds, as drivers report it."""
        return (self.integral(at) - self.integral(at - window)) / window


Pauses = tuple[tuple[float, float], ...]  # from, until: simulated seconds


@dataclass(frozen=True, slots=True)
class PausedCurve(LoadCurve):
    """A load that is 0 during the pauses."""

    pauses: Pauses = ()

    def at(self, at: float) -> float:
        paused = any(begin <= at < until for begin, until in self.pauses)
        return 0.0 if paused else LoadCurve.at(self, at)

    def integral(self, at: float) -> float:
        missed = sum(
            LoadCurve.integral(self, min(max(at, begin), until)) - LoadCurve.integral(self, begin)
            for begin, until in self.pauses
        )
        return LoadCurve.integral(self, at) - missed


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
    """The share of each of its devices that HAMi allocates to a container."""

    memory_bytes: int
    cores_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """Names that are not given are derived from the seed."""

    namespace: str | None = None
    name: str | None = None
    container: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    owner: PodOwner | None = None  # None: a Deployment, unless the pod has a name
    resource: str | None = None  # None: the default of the device's plugin
    replicas: int | None = None  # of each device; None: the whole device, or one replica if it is shared
    hami: HamiShare | None = None
    allocated: bool = True  # False: it uses devices without an allocation


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
    """As printed by nvidia-smi: compute, graphics, and M for clients of the Multi-Process Service."""

    COMPUTE = "C"
    GRAPHICS = "G"
    BOTH = "C+G"
    MPS = "M+C"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A workload: `count` processes on each of its devices, all in one container, pod or job."""

    name: str
    vendor: str
    devices: tuple[int, ...]  # indices among the devices of the vendor
    instance: int | None = None  # of each of the devices, if they are partitioned
    count: int = 1
    spans_devices: bool = False  # each process uses all of the devices, not one
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
    own: Hashable | None = None  # keys of the vendor


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePodSpec:
    """A pod that has devices allocated and runs no process on them."""

    vendor: str
    devices: tuple[int, ...]
    instance: int | None = None
    cgroup: CgroupSpec = CgroupSpec(kind=CgroupKind.POD)
    begin: float | None = None
    until: float | None = None
    own: Hashable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCost:
    """CPU time and resident memory of one run of a tool."""

    cpu_milliseconds: int = 0
    memory_mib: int = 0


FREE = ToolCost()


@dataclass(frozen=True, slots=True)
class MemoryPool:
    """Memory that processes share; `name` is unique among the vendor's pools."""

    name: Hashable
    bytes: int


class VendorSpec(Protocol):
    """A vendor's section of the description. Each vendor derives a frozen dataclass from it."""

    @property
    def device_count(self) -> int: ...

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:
        """The memory of a process on this device, or on this instance of it."""

    def instances(self, device: int) -> int | None:  # noqa: ARG002 - the default
        """The number of instances of a partitioned device, of which a process must name one; None: not
        partitioned."""
        return None

    def without_costs(self) -> Self:
        """A copy whose tools use no CPU time and memory."""
        costs = {f.name: FREE for f in fields(self) if isinstance(getattr(self, f.name), ToolCost)}  # type: ignore[arg-type]
        return replace(self, **costs)  # type: ignore[type-var]


Own = TypeVar("Own", bound=VendorSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    name: str
    seed: int = 1
    vendors: Mapping[str, VendorSpec] = field(default_factory=dict)  # in the order of the declarations
    processes: tuple[ProcessSpec, ...] = ()
    holders: tuple[IdlePodSpec, ...] = ()
    node_labels: tuple[tuple[str, str], ...] = ()  # in addition to the default labels of the Node object
    faults: tuple[Fault, ...] = ()
    text: str = field(default="", repr=False)  # the description itself

    def of(self, kind: type[Own]) -> Own:
        """The vendor's section of this class. Raises LookupError."""
        for spec in self.vendors.values():
            if isinstance(spec, kind):
                return spec
        raise LookupError(f"{self.name} has no {kind.__name__}")

    @property
    def device_count(self) -> int:
        return sum(spec.device_count for spec in self.vendors.values())


# Values that look random and are reproducible: hashes of the seed and a path of names. Unlike with a random
# generator, adding a device or a process does not change the values of the others.


def digest(seed: int, *path: object) -> bytes:
    return sha256("/".join(map(str, (seed, *path))).encode()).digest()


def fraction(seed: int, *path: object) -> float:
    """A number in [0, 1)."""
    return int.from_bytes(digest(seed, *path)[:7], "big") / (1 << 56)


def between(low: float, high: float, seed: int, *path: object) -> float:
    return low + (high - low) * fraction(seed, *path)


def whole(low: int, high: int, seed: int, *path: object) -> int:
    """A whole number from low to high, both included."""
    return low + int(fraction(seed, *path) * (high - low + 1))


def uuid(seed: int, *path: object) -> str:
    text = digest(seed, *path).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def hex_id(seed: int, *path: object) -> str:
    """64 hexadecimal digits, as container ids have."""
    return digest(seed, *path).hex()


_FIRST_BUS = 0x10


def bus_number(slot: int, count: int) -> int:
    """The PCI bus of device `slot` of `count`: spread, as on boards with switches."""
    step = max(1, min(0x18, 0xE0 // count))
    return _FIRST_BUS + slot * step


def numa_node(slot: int, count: int) -> int:
    """The first half of the devices is connected to the first processor."""
    return 0 if slot < (count + 1) // 2 else 1


# --- sections of a description --------------------------------------------
# Sections of the descriptions of simulated nodes and fleets, from a file or from a command line.


class DescriptionError(ConfigError):
    """An invalid description."""


class Description(Section):
    error_type = DescriptionError

    def part(self, keys: Iterable[str], **more: object) -> Self:
        """A section at the same path with these keys of this one, and `more`."""
        return type(self)({**{key: self.raw(key) for key in keys}, **more}, self.where, file=self.file)


class Options(Description):
    """Options of a command line, with the same names as the keys of a description."""

    def path(self, key: str) -> str:
        return key.upper() if key == "kind" else f"--{key}"

    def finish(self) -> None:
        for key in self.unread:
            raise self.error(key, "not valid for this kind of fault")


MAX_DEVICES = 64

Device = TypeVar("Device")


def read_devices(section: Section, read: Callable[[Section], Device]) -> tuple[Device, ...]:
    """The list `devices`, each member `count` times. Raises DescriptionError."""
    devices: list[Device] = []
    for entry in section.sections("devices"):
        count = entry.take("count", WholeNumber(1, MAX_DEVICES), 1)
        devices.extend([read(entry)] * count)
        entry.finish()
    if len(devices) > MAX_DEVICES:
        raise section.error("devices", f"{len(devices)} devices; at most {MAX_DEVICES}")
    return tuple(devices)


def read_tool_cost(section: Section, key: str = "tool", usual: ToolCost = FREE) -> ToolCost:
    """`{cost_ms, memory_mb}` of one tool. Raises DescriptionError."""
    entry = section.section(key)
    cost = ToolCost(
        cpu_milliseconds=entry.take("cost_ms", WholeNumber(0, 60_000), usual.cpu_milliseconds),
        memory_mib=entry.take("memory_mb", WholeNumber(0, 4096), usual.memory_mib),
    )
    entry.finish()
    return cost
