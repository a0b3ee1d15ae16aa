"""A simulated GPU: its constant properties, and its readings at an instant.

A reading is the reference for the driver's files and the output of the tools, which are made from it, and for
tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelscope.simulate import spec as identity
from accelscope.simulate.faults import Fault, FaultKind, last_restart, lasted
from accelscope.simulate.spec import numa_node
from accelscope.simulate.vendor import SimulatedHost
from accelscope.simulate.workload import DeviceLoad, Placement, PowerDraw, uptime_at_start
from accelscope.vendors.amd.simulated.spec import AmdDeviceSpec, AmdSpec, Card, Family

_FIRST_RENDER_NODE = 128
_PCIE_MEGABITS = 40  # per percent of memory traffic
_UINT_MAX = 0xFFFF_FFFF
_PLATFORM_DEVICES = 7  # that the driver creates for a partitioned GPU, for any number of partitions


@dataclass(frozen=True)
class Part:
    """A GPU to the compute driver: a whole GPU or a partition."""

    number: int
    node: int  # in the topology
    gpu_id: int
    render_minor: int
    compute_units: int
    vram_bytes: int


@dataclass(frozen=True)
class PlatformDevice:
    """Has the device files of one partition. The first partition has the device files of the GPU. If there
    are fewer partitions than platform devices, the last ones are unused."""

    name: str
    card: int
    render_minor: int


@dataclass(frozen=True)
class Gpu:
    """`slot` is the position in the description. Unlike the index it does not change when another GPU
    vanishes."""

    seed: int
    slot: int
    count: int  # GPUs of the node
    address: str
    spec: AmdDeviceSpec
    first_node: int  # in the compute driver's topology
    first_minor: int
    first_card: int
    first_platform_device: int
    has_bmc_display: bool  # whether card0 is the display of the server's management controller

    @property
    def card(self) -> Card:
        return self.spec.card

    @property
    def module(self) -> int:
        """Dies are in the order of their modules."""
        return self.slot // self.card.dies

    @property
    def is_primary_die(self) -> bool:
        return self.slot % self.card.dies == 0

    @property
    def folder(self) -> str:
        """Of the device in /sys."""
        return f"sys/devices/pci{self.address.rpartition(':')[0]}/{self.address}"

    @property
    def drm_card(self) -> str:
        return f"card{self.first_card}"

    @cached_property
    def unique_id(self) -> int | None:
        if self.card.family is Family.APU:
            return None
        return int.from_bytes(identity.digest(self.seed, "amd", "unique", self.slot)[:8], "big") | 1 << 60

    @cached_property
    def serial(self) -> str | None:
        """The serial number of the module."""
        if self.card.family is not Family.INSTINCT:
            return None
        number = identity.whole(10**5, 10**6 - 1, self.seed, "amd", "serial", self.module)
        return f"69240{number:06}"

    @property
    def numa_node(self) -> int:
        """Workstations with one CPU have no NUMA node."""
        return numa_node(self.slot, self.count) if self.card.family is Family.INSTINCT else -1

    @cached_property
    def hive(self) -> int | None:
        return (
            int.from_bytes(identity.digest(self.seed, "amd", "hive")[:8], "big") if self.card.linked else None
        )

    @property
    def cpus(self) -> int:
        """CPUs of the node."""
        return 2 if self.card.family is Family.INSTINCT and self.count > 1 else 1

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        count = self.spec.parts
        return tuple(
            Part(
                number=number,
                node=self.first_node + number,
                gpu_id=identity.whole(1000, 65000, self.seed, "amd", "gpu_id", self.slot, number),
                render_minor=self.first_minor + number,
                compute_units=self.card.compute_units // count,
                vram_bytes=self.card.vram_bytes // count,
            )
            for number in range(count)
        )

    @cached_property
    def platform_devices(self) -> tuple[PlatformDevice, ...]:
        """In the order of partitions, from the second on."""
        return tuple(
            PlatformDevice(
                name=f"amdgpu_xcp_{self.first_platform_device + number}",
                card=self.first_card + 1 + number,
                render_minor=self.first_minor + 1 + number,
            )
            for number in range(_platform_devices(self.spec))
        )

    @property
    def location(self) -> int:
        """Bus, device and function as one number."""
        _, bus, rest = self.address.split(":")
        slot, function = rest.split(".")
        return int(bus, 16) << 8 | int(slot, 16) << 3 | int(function)

    @property
    def domain(self) -> int:
        return int(self.address.split(":")[0], 16)


def gpus_of(spec: AmdSpec, site: SimulatedHost) -> tuple[Gpu, ...]:
    has_bmc_display = any(device.card.family is Family.INSTINCT for device in spec.devices)
    gpus: list[Gpu] = []
    node = 2 if has_bmc_display and len(spec.devices) > 1 else 1  # after the CPUs
    minor, card, platform_device = _FIRST_RENDER_NODE, int(has_bmc_display), 0
    for slot, device in enumerate(spec.devices):
        gpus.append(
            Gpu(
                seed=site.seed,
                slot=slot,
                count=len(spec.devices),
                address=site.pci_address(slot, len(spec.devices)),
                spec=device,
                first_node=node,
                first_minor=minor,
                first_card=card,
                first_platform_device=platform_device,
                has_bmc_display=has_bmc_display,
            )
        )
        further = _platform_devices(device)
        node += device.parts
        minor += 1 + further
        card += 1 + further
        platform_device += further
    return tuple(gpus)


def _platform_devices(spec: AmdDeviceSpec) -> int:
    return _PLATFORM_DEVICES if spec.parts > 1 else 0


# Readings at an instant, in the units of the driver.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    placement: Placement
    vram_bytes: int
    load: float  # fraction of the compute units that run its work
    graphics_ns: int
    compute_ns: int
    encoder_ns: int
    decoder_ns: int

    @property
    def pid(self) -> int:
        return self.placement.process.pid

    @property
    def name(self) -> str:
        return self.placement.process.spec.name

    @property
    def computes(self) -> bool:
        return "C" in self.placement.type

    @property
    def draws(self) -> bool:
        return "G" in self.placement.type


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReading:
    part: Part
    busy_percent: int
    activity_sum: int
    vram_used_bytes: int
    processes: tuple[ProcessReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class XgmiLink:
    peer: int  # slot of the other GPU
    read_kilobytes: int
    written_kilobytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """The firmware adds up values once per cycle, which is a millisecond."""

    gpu: Gpu
    index: int | None  # None if the driver does not list it
    fault: str | None
    busy_percent: int
    memory_busy_percent: int
    vram_used_bytes: int
    edge_millicelsius: int
    junction_millicelsius: int
    memory_millicelsius: int
    power_microwatts: int  # of the module
    energy_microjoules: int
    sclk_mhz: int
    mclk_mhz: int
    millivolts: int | None
    fan_percent: int | None
    pcie_replays: int
    errors: Mapping[str, tuple[int, int]]  # by block: uncorrectable, correctable
    bad_pages: int
    throttle_causes: frozenset[str]  # of the present
    uptime_nanoseconds: int  # of the node
    cycles: int
    activity_sum: int  # percents of all cycles
    memory_activity_sum: int
    throttle_cycles: Mapping[str, int]  # by cause, in the order of the driver
    video_percent: int
    vr_millicelsius: int  # voltage regulators
    xgmi: tuple[XgmiLink, ...]  # by port
    parts: tuple[PartReading, ...]

    @property
    def energy_counts(self) -> int | None:
        """In the units of the driver, 2^-16 J. Older firmware of Radeon cards counts in 32 bits. Newer
        firmware does not count, and the driver reports UINT_MAX. An APU has no counter."""
        if self.gpu.card.family is Family.APU:
            return None
        counts = self.energy_microjoules * 2**16 // 10**6
        if self.gpu.card.family is Family.RADEON:
            return counts & _UINT_MAX if self.gpu.spec.counts_energy else _UINT_MAX
        return counts

    @property
    def pcie_megabits(self) -> int:
        """PCIe traffic in both directions, in proportion to memory traffic."""
        return _PCIE_MEGABITS * self.memory_busy_percent

    @property
    def pcie_megabit_sum(self) -> int:
        return _PCIE_MEGABITS * self.memory_activity_sum

    @property
    def fan_rpm(self) -> int | None:
        full = self.gpu.card.fan_rpm
        return None if full is None or self.fan_percent is None else full * self.fan_percent // 100

    @property
    def suspended(self) -> bool:
        return self.gpu.spec.suspended

    @property
    def processes(self) -> tuple[ProcessReading, ...]:
        return tuple(process for part in self.parts for process in part.processes)


# From the load of processes and from faults to readings.

_MIB = 1 << 20
_DRIVER_BYTES = 283 * _MIB  # memory of the driver on an Instinct
_BUSY = 0.005  # a lower load is not visible in the driver's samples
_POWER_AT_FULL_LOAD = 0.97  # of the limit
_HEADROOM_AT_FULL_POWER = 22  # degrees below slowdown
_CYCLES = 1000  # per second
_LINK_KILOBYTES = 40_000_000  # per second of full load, between two GPUs
THROTTLE_CAUSES = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
_STORM_CORRECTED_PER_SECOND = 40
_STORM_SECONDS_PER_UNCORRECTED = 30
_STORM_SECONDS_PER_PAGE = 60
_DEVICE_FAULTS = (FaultKind.VANISHED, FaultKind.LOST, FaultKind.HANG)


class GpuDynamics:
    def __init__(self, gpu: Gpu, gpus: Sequence[Gpu], placements: Sequence[Placement]) -> None:
        """`gpus` are all GPUs of the node, including this one."""
        self._gpu = gpu
        self._placements = tuple(p for p in placements if p.device == gpu.slot)
        share = 1 / len(gpu.parts)
        self._load = _load_of(gpu, placements)
        slots = {die.slot for die in gpus if die.module == gpu.module}
        together = DeviceLoad((p, share / len(slots)) for p in placements if p.device in slots)
        self._peers = {
            other.slot: _load_of(other, placements) for other in gpus if other.hive and other is not gpu
        }
        full = gpu.spec.power_limit_watts * _POWER_AT_FULL_LOAD
        idle = gpu.card.power.idle_watts * self._between(0.96, 1.04, "idle")
        self._power = PowerDraw(idle, max(0.0, full - idle), together)

    def _between(self, low: float, high: float, name: str) -> float:
        # By module, so that both dies have the same value.
        return identity.between(low, high, self._gpu.seed, "amd", name, self._gpu.module)

    def reading(self, at: float, faults: Sequence[Fault], index: int | None) -> GpuReading:
        """`faults` are the past and present faults of this GPU."""
        card = self._gpu.card
        active = {fault.kind for fault in faults if fault.active(at)}
        hot = FaultKind.HOT in active
        causes = frozenset(cause for fault in faults if fault.active(at) and (cause := _cause(fault)))
        load = self._load.mean(at)
        parts = tuple(self._part(part, at) for part in self._gpu.parts)
        edge = card.crit_celsius + 2.0 if hot else self._celsius(at)
        clock = card.sclk_mhz[-1] if load > _BUSY else card.sclk_mhz[0]
        return GpuReading(
            gpu=self._gpu,
            index=index,
            fault=next((str(kind) for kind in _DEVICE_FAULTS if kind in active), None),
            busy_percent=min(100, round(100 * load)),
            memory_busy_percent=min(100, round(100 * self._memory_traffic(at))),
            vram_used_bytes=sum(part.vram_used_bytes for part in parts),
            edge_millicelsius=round(edge) * 1000,
            junction_millicelsius=round(edge + 4 + 10 * load) * 1000,
            memory_millicelsius=round(edge * 0.93) * 1000,
            power_microwatts=int(self._power.mean(at)) * 1_000_000,
            energy_microjoules=self._energy(at, last_restart(faults, at)),
            sclk_mhz=clock * 6 // 10 if causes else clock,
            mclk_mhz=card.mclk_mhz[-1] if load > _BUSY else card.mclk_mhz[0],
            millivolts=card.gfx_millivolts,
            fan_percent=None if card.fan_rpm is None else self._fan_percent(edge),
            pcie_replays=int(self._between(0, 4, "replays")),
            errors=self._errors(at, faults),
            bad_pages=sum(int(s // _STORM_SECONDS_PER_PAGE) for s in _storms(faults, at)),
            throttle_causes=causes,
            uptime_nanoseconds=int(1e9 * (uptime_at_start(self._gpu.seed) + at)),
            cycles=int(_CYCLES * (at + self._between(1e4, 9e5, "driver age"))),
            activity_sum=self._sum("activity", self._load.total(at)),
            memory_activity_sum=self._sum("memory activity", self._memory_total(at)),
            throttle_cycles=self._throttle_cycles(at, faults),
            video_percent=self._video_percent(at),
            vr_millicelsius=round(edge * 0.9) * 1000,
            xgmi=tuple(self._link(peer, at) for peer in self._peers),
            parts=parts,
        )

    def _energy(self, at: float, restart: float | None) -> int:
        before = self._between(1e6, 9e8, "energy") if restart is None else -self._power.joules(restart)
        return int(1e6 * (self._power.joules(at) + before))

    def _celsius(self, at: float) -> float:
        ambient = self._gpu.spec.ambient_celsius
        top = self._gpu.card.crit_celsius - _HEADROOM_AT_FULL_POWER
        return self._power.celsius(at, ambient=ambient, at_full_power=top)

    def _memory_traffic(self, at: float) -> float:
        share = 1 / len(self._gpu.parts)
        return sum(p.curve.mean(at) * p.memory_intensity * share for p in self._placements)

    def _memory_total(self, at: float) -> float:
        share = 1 / len(self._gpu.parts)
        total = DeviceLoad((p, share * p.memory_intensity) for p in self._placements)
        return total.total(at)

    def _sum(self, name: str, load_seconds: float, *path: object) -> int:
        """A sum of percents over all cycles, which began at some number before simulated time 0."""
        before = identity.whole(10**6, 10**9, self._gpu.seed, "amd", name, self._gpu.slot, *path)
        return before + int(100 * _CYCLES * load_seconds)

    def _throttle_cycles(self, at: float, faults: Sequence[Fault]) -> dict[str, int]:
        """Each cause has throttled the GPU for some time before simulated time 0."""
        seed, slot = self._gpu.seed, self._gpu.slot
        lasting = {
            cause: [fault.seconds(at) for fault in faults if _cause(fault) == cause]
            for cause in THROTTLE_CAUSES
        }
        return {
            cause: identity.whole(0, 9000, seed, "amd", "throttled", cause, slot)
            + int(_CYCLES * sum(seconds))
            for cause, seconds in lasting.items()
        }

    def _video_percent(self, at: float) -> int:
        specs = [(p.curve.mean(at), p.process.spec) for p in self._placements if p.curve.runs_at(at)]
        return min(100, round(100 * sum(load * max(spec.encoder, spec.decoder) for load, spec in specs)))

    def _link(self, peer: int, at: float) -> XgmiLink:
        """Each GPU reads from its peers in proportion to its load; what one reads, the other writes."""
        own, seed = self._gpu.slot, self._gpu.seed
        loads = {own: self._load, peer: self._peers[peer]}
        read, written = (
            identity.whole(10**6, 10**9, seed, "amd", "link", reader, source)
            + int(_LINK_KILOBYTES * loads[reader].total(at))
            for reader, source in ((own, peer), (peer, own))
        )
        return XgmiLink(peer=peer, read_kilobytes=read, written_kilobytes=written)

    @staticmethod
    def _fan_percent(celsius: float) -> int:
        return 0 if celsius < 45 else min(100, round((celsius - 45) * 2.2) + 18)

    def _errors(self, at: float, faults: Sequence[Fault]) -> dict[str, tuple[int, int]]:
        """The driver counts since it was loaded; a reset of the GPU does not change the counts."""
        loads = [fault for fault in faults if fault.kind is not FaultKind.RESET]
        load = last_restart(loads, at)
        uncorrected, corrected = _storm_errors(faults, at)
        before = (0, 0) if load is None else _storm_errors(faults, load)
        counts = dict.fromkeys(self._gpu.card.ras_blocks, (0, 0))
        if "umc" in counts:
            counts["umc"] = (uncorrected - before[0], corrected - before[1])
        return counts

    def _part(self, part: Part, at: float) -> PartReading:
        here = [p for p in self._placements if (p.instance or 0) == part.number and p.curve.runs_at(at)]
        processes = tuple(self._process(p, at) for p in here)
        return PartReading(
            part=part,
            busy_percent=min(100, round(100 * sum(p.curve.mean(at) for p in here))),
            activity_sum=self._sum("activity", self._part_total(part, at), part.number),
            vram_used_bytes=sum(process.vram_bytes for process in processes)
            + _DRIVER_BYTES // len(self._gpu.parts),
            processes=processes,
        )

    def _part_total(self, part: Part, at: float) -> float:
        return DeviceLoad((p, 1.0) for p in self._placements if (p.instance or 0) == part.number).total(at)

    def _process(self, placement: Placement, at: float) -> ProcessReading:
        """Only GPUs with graphics engines report the engine time of processes."""
        spec = placement.process.spec
        ran = placement.curve.integral(at) - placement.curve.integral(0.0) + 600.0
        has_engine_times = not self._gpu.card.ras_blocks
        draws, computes = "G" in spec.type, "C" in spec.type
        return ProcessReading(
            placement=placement,
            vram_bytes=placement.memory_bytes(at),
            load=placement.curve.mean(at) if computes else 0.0,
            graphics_ns=int(1e9 * ran) if has_engine_times and draws else 0,
            compute_ns=int(1e9 * ran) if has_engine_times and computes and not draws else 0,
            encoder_ns=int(1e9 * ran * spec.encoder) if has_engine_times else 0,
            decoder_ns=int(1e9 * ran * spec.decoder) if has_engine_times else 0,
        )


def _load_of(gpu: Gpu, placements: Sequence[Placement]) -> DeviceLoad:
    share = 1 / len(gpu.parts)
    return DeviceLoad((p, share) for p in placements if p.device == gpu.slot)


def _cause(fault: Fault) -> str | None:
    return "socket_thermal" if fault.kind is FaultKind.HOT else fault.cause


def _storm_errors(faults: Sequence[Fault], at: float) -> tuple[int, int]:
    """Uncorrected and corrected errors."""
    storms = _storms(faults, at)
    corrected = sum(int(seconds * _STORM_CORRECTED_PER_SECOND) for seconds in storms)
    return sum(int(seconds // _STORM_SECONDS_PER_UNCORRECTED) for seconds in storms), corrected


def _storms(faults: Sequence[Fault], at: float) -> tuple[float, ...]:
    return lasted(faults, FaultKind.ECC_STORM, at)
