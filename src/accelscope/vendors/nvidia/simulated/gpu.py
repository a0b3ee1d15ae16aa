"""A simulated GPU: its constant properties, and its readings at any time, in the units of NVIDIA's library.

A reading is the common source of the simulated library, the simulated tool and the expectations of tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from accelscope.simulate import spec as identity
from accelscope.simulate.faults import Fault, FaultKind, last_restart, lasted
from accelscope.simulate.workload import DeviceLoad, Placement, PowerDraw
from accelscope.vendors.nvidia.simulated.spec import (
    COMPUTE_SLICES,
    MEMORY_SLICES,
    Card,
    MigDevice,
    NvidiaDeviceSpec,
    NvidiaSpec,
)

_SWITCHES = 4  # NVSwitches of a board that connects all GPUs


@dataclass(frozen=True)
class Gpu:
    """`slot` is its position in the description. Unlike the index, it stays when another GPU vanishes."""

    seed: int
    slot: int
    count: int  # GPUs of the node
    linked: bool  # whether its NVLinks lead to another GPU
    spec: NvidiaDeviceSpec

    @property
    def card(self) -> Card:
        return self.spec.card

    @cached_property
    def uuid(self) -> str:
        return "GPU-" + identity.uuid(self.seed, "nvidia", "uuid", self.slot)

    @cached_property
    def serial(self) -> str | None:
        number = identity.whole(132 * 10**10, 166 * 10**10, self.seed, "nvidia", "serial", self.slot)
        return str(number) if self.card.serial else None

    @property
    def bus(self) -> int:
        return identity.bus_number(self.slot, self.count)

    @property
    def bus_id(self) -> str:
        """As NVML prints it: in upper case, the domain with eight digits."""
        return f"00000000:{self.bus:02X}:00.0"

    @property
    def numa_node(self) -> int:
        return identity.numa_node(self.slot, self.count)

    @property
    def partitioned(self) -> bool:
        return self.spec.mig is not None

    @property
    def mig(self) -> tuple[MigDevice, ...]:
        return self.spec.mig or ()

    @property
    def max_mig_devices(self) -> int:
        return COMPUTE_SLICES if self.card.mig_profiles else 0

    @property
    def links(self) -> int:
        return self.card.nvlink.links if self.card.nvlink else 0

    def link_active(self, link: int) -> bool:
        return self.linked and link not in self.spec.links_down

    def link_remote(self, link: int) -> str:
        """Bus id of the NVSwitch at the far end."""
        return f"00000000:{0x05 + link % _SWITCHES:02X}:00.0"

    def mig_uuid(self, part: MigDevice) -> str:
        path = (self.slot, part.gpu_instance_id, part.compute_instance_id)
        return "MIG-" + identity.uuid(self.seed, "nvidia", "mig", *path)


def create_gpus(spec: NvidiaSpec, seed: int) -> tuple[Gpu, ...]:
    devices = spec.devices
    with_links = sum(device.card.nvlink is not None for device in devices)
    return tuple(
        Gpu(
            seed=seed,
            slot=slot,
            count=len(devices),
            linked=device.card.nvlink is not None and with_links > 1,
            spec=device,
        )
        for slot, device in enumerate(devices)
    )


# Bits of the clock event (throttle) reasons
GPU_IDLE = 0x1
SW_POWER_CAP = 0x4
HW_SLOWDOWN = 0x8
SW_THERMAL = 0x20
HW_THERMAL = 0x40
SUPPORTED_REASONS = 0x1FF


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    placement: Placement
    gpu_instance_id: int | None
    compute_instance_id: int | None
    memory_bytes: int | None
    # Percent over the sampling period; None without a sample: the process was idle, or MIG is on.
    sm: int | None
    memory: int | None
    encoder: int | None
    decoder: int | None

    @property
    def pid(self) -> int:
        return self.placement.process.pid

    @property
    def name(self) -> str:
        return self.placement.process.spec.name

    @property
    def path(self) -> str:
        return f"/usr/bin/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """A GPM metric: its value now in percent, or MiB/s of PCIe traffic, and the integral over seconds."""

    metric: int  # nvmlGpmMetricId_t
    percent: float
    integral: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MigReading:
    part: MigDevice
    uuid: str
    name: str
    memory_total_bytes: int
    memory_used_bytes: int  # of the GPU instance: its compute instances share it
    bar1_total_bytes: int  # likewise; nothing of it is ever in use


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReading:
    link: int
    active: bool
    transmit_kib: int
    receive_kib: int
    replays: int
    recoveries: int
    crc_errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EccReading:
    """Counts of memory errors: volatile since the driver was loaded, aggregate over the card's life."""

    volatile_corrected: int
    volatile_uncorrected: int
    aggregate_corrected: int
    aggregate_uncorrected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remapping:
    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    number: int  # increases with every event of this GPU
    code: int
    at: float  # simulated time


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    gpu: Gpu
    index: int | None  # None: not enumerated
    fault: str | None  # lost, vanished, hang or reset_required, which affect the whole device
    utilization_percent: int
    memory_utilization_percent: int
    encoder_percent: int
    decoder_percent: int
    memory_total_bytes: int
    memory_reserved_bytes: int
    memory_used_bytes: int
    bar1_used_bytes: int
    temperature_celsius: int
    memory_temperature_celsius: int | None
    power_average_milliwatts: int
    power_instant_milliwatts: int
    energy_millijoules: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    video_clock_mhz: int
    pstate: int
    fan_percent: int | None
    fan_rpm: int | None
    pcie_generation: int
    pcie_transmit_kb_per_second: int
    pcie_receive_kb_per_second: int
    pcie_transmit_bytes: int
    pcie_receive_bytes: int
    pcie_replays: int
    clock_event_reasons: int
    thermal_violation_nanoseconds: int
    ecc: EccReading | None
    remapping: Remapping | None
    retired_pages: tuple[int, int] | None  # for single-bit and for double-bit errors
    retirement_pending: bool
    links: tuple[LinkReading, ...]
    activity: tuple[Activity, ...]
    instance_activity: tuple[tuple[int, tuple[Activity, ...]], ...]  # by GPU instance
    xids: tuple[XidEvent, ...]
    mig: tuple[MigReading, ...]
    processes: tuple[ProcessReading, ...]

    @property
    def memory_free_bytes(self) -> int:
        return self.memory_total_bytes - self.memory_reserved_bytes - self.memory_used_bytes


# --- behaviour ------------------------------------------------------------
# A reading depends on the time alone. Rates are linear in the load, so counters (energy, bytes) are exact
# integrals of the load: they never decrease and agree with the rates.


_MIB = 1 << 20
_CONTEXT_BYTES = 4 * _MIB  # used by the driver on a card
_INSTANCE_BYTES = 12 * _MIB  # used by the driver on a MIG instance
_BUSY = 0.005  # a lower load is below the driver's sampling resolution
_POWER_AT_FULL_LOAD = 0.985  # of the limit
_POWER_CAP_FROM = 0.97
_HEADROOM_AT_FULL_POWER = 18  # degrees below slowdown
_HOT_CLOCK = 0.55  # of the highest clock, when the card is throttled
_STORM_CORRECTED_PER_SECOND = 40
_STORM_SECONDS_PER_UNCORRECTED = 30
_STORM_SECONDS_PER_ROW = 60
_DEFAULT_XID = 31  # an invalid memory access of the application, the most common XID
_XID_LOST, _XID_ROW_REMAP, _XID_CONTAINED_ECC, _XID_RESET = 79, 63, 94, 154
_REMEMBERED_XIDS = 64
_GPM_METRICS = {  # nvmlGpmMetricId_t: share of the load
    1: 1.0,  # graphics: any engine active
    2: 0.86,  # SMs busy
    3: 0.42,  # warps resident
    4: 0.18,  # integer
    5: 0.55,  # any tensor
    7: 0.55,  # half-precision tensor
    10: 0.48,  # DRAM bandwidth
    11: 0.02,  # fp64
    12: 0.21,  # fp32
    13: 0.11,  # fp16
}
_DEVICE_FAULTS = (FaultKind.VANISHED, FaultKind.LOST, FaultKind.RESET_REQUIRED, FaultKind.HANG)


class GpuDynamics:
    def __init__(self, gpu: Gpu, placements: Sequence[Placement]) -> None:
        self._gpu = gpu
        self._placements = tuple(p for p in placements if p.device == gpu.slot)
        self._load = DeviceLoad((p, self._share(p)) for p in self._placements)
        full = gpu.spec.power_limit_watts * _POWER_AT_FULL_LOAD
        idle = gpu.card.power.idle_watts
        self._power = PowerDraw(idle, max(0.0, full - idle), self._load)

    def _part(self, placement: Placement) -> MigDevice | None:
        return None if placement.instance is None else self._gpu.mig[placement.instance]

    def _share(self, placement: Placement) -> float:
        """The share of the card that the placement runs on."""
        part = self._part(placement)
        return part.share if part else 1.0

    def _between(self, low: float, high: float, name: str) -> float:
        return identity.between(low, high, self._gpu.seed, "nvidia", name, self._gpu.slot)

    def reading(self, at: float, faults: Sequence[Fault], index: int | None) -> GpuReading:
        """`faults` are all faults of this GPU up to now, `index` is its position in the enumeration."""
        gpu, card = self._gpu, self._gpu.card
        active = {fault.kind for fault in faults if fault.active(at)}
        hot = FaultKind.HOT in active
        mean, busy = self._load.mean(at), self._load.mean(at) > _BUSY
        average = self._power.mean(at)
        processes = tuple(self._process(p, at) for p in self._placements if p.curve.runs_at(at))
        temperature = card.temperature.slowdown + 2 if hot else self._temperature(at)
        sm_clock = self._sm_clock(mean, hot=hot)
        mig = self._mig(processes, at)
        used = _CONTEXT_BYTES + (
            sum({m.part.gpu_instance_id: m.memory_used_bytes for m in mig}.values())
            if gpu.partitioned
            else sum(p.placement.memory_bytes(at) for p in processes)
        )
        encoding = [p.encoder or 0 for p in processes]
        decoding = [p.decoder or 0 for p in processes]
        transmit, receive = (self._between(low, high, name) * 1e9 for low, high, name in _PCIE_GB_PER_SECOND)
        fan = self._fan_percent(temperature)
        retired = self._storm_rows(at, faults) if card.ecc and not card.row_remapping else None
        restart = last_restart(faults, at)
        return GpuReading(
            gpu=gpu,
            index=index,
            fault=next((str(kind) for kind in _DEVICE_FAULTS if kind in active), None),
            utilization_percent=min(100, round(100 * mean)),
            memory_utilization_percent=min(100, round(100 * self._memory_traffic(at))),
            encoder_percent=min(100, sum(encoding)),
            decoder_percent=min(100, sum(decoding)),
            memory_total_bytes=card.memory_mib * _MIB,
            memory_reserved_bytes=card.reserved_mib * _MIB,
            memory_used_bytes=used,
            bar1_used_bytes=min(card.bar1_mib, 2 + 2 * len(processes)) * _MIB,
            temperature_celsius=temperature,
            memory_temperature_celsius=round(temperature * 0.92) if card.temperature.memory_max else None,
            power_average_milliwatts=int(1000 * average),
            power_instant_milliwatts=int(1000 * self._power.now(at)),
            energy_millijoules=self._energy(at, restart),
            sm_clock_mhz=sm_clock,
            memory_clock_mhz=card.clocks.max_memory if busy else card.clocks.idle_memory,
            video_clock_mhz=card.clocks.max_video * sm_clock // card.clocks.max_sm // 15 * 15,
            pstate=card.busy_pstate if busy else card.idle_pstate,
            fan_percent=fan,
            fan_rpm=None if fan is None else fan * 33,
            pcie_generation=card.pcie_generation if busy else card.idle_pcie_generation,
            pcie_transmit_kb_per_second=int(transmit * mean / 1000),
            pcie_receive_kb_per_second=int(receive * mean / 1000),
            pcie_transmit_bytes=self._counted("pcie tx", transmit, at),
            pcie_receive_bytes=self._counted("pcie rx", receive, at),
            pcie_replays=self._replays(at) if restart is None else self._replays(at) - self._replays(restart),
            clock_event_reasons=self._reasons(average, busy=busy, hot=hot),
            thermal_violation_nanoseconds=int(1e9 * sum(lasted(faults, FaultKind.HOT, at))),
            ecc=self._ecc(at, faults, restart) if card.ecc else None,
            remapping=self._remapping(at, faults, restart) if card.row_remapping else None,
            retired_pages=None if retired is None else (0, retired),
            retirement_pending=bool(retired) and self._has_new_rows(at, faults, restart),
            links=tuple(self._link(link, at) for link in range(gpu.links)),
            activity=(
                (*_activity(self._load, at), *_pcie_traffic(self._load, at, transmit, receive))
                if card.gpm
                else ()
            ),
            instance_activity=self._instance_activity(at) if card.gpm else (),
            xids=_xids(faults, at),
            mig=mig,
            processes=processes,
        )

    def _temperature(self, at: float) -> int:
        full = self._gpu.card.temperature.slowdown - _HEADROOM_AT_FULL_POWER
        ambient = self._gpu.spec.ambient_celsius + self._between(0, 4, "ambient")
        return round(self._power.celsius(at, ambient=ambient, at_full_power=full))

    def _sm_clock(self, mean: float, *, hot: bool) -> int:
        clocks = self._gpu.card.clocks
        if mean <= _BUSY:
            return clocks.idle_sm
        share = _HOT_CLOCK if hot else 1 - 0.12 * mean**3
        return int(clocks.max_sm * share) // 15 * 15

    def _fan_percent(self, temperature: int) -> int | None:
        if self._gpu.card.fans == 0:
            return None
        return 0 if temperature < 50 else min(100, 30 + round((temperature - 50) * 1.6))

    def _reasons(self, watts: float, *, busy: bool, hot: bool) -> int:
        if hot:
            return HW_SLOWDOWN | SW_THERMAL | HW_THERMAL
        if watts >= self._gpu.spec.power_limit_watts * _POWER_CAP_FROM:
            return SW_POWER_CAP
        return 0 if busy else GPU_IDLE

    def _energy(self, at: float, restart: float | None) -> int:
        if restart is not None:
            return int(1000 * (self._power.joules(at) - self._power.joules(restart)))
        return int(1000 * (self._between(1e6, 5e8, "energy") + self._power.joules(at)))

    def _replays(self, at: float) -> int:
        return int(self._between(0, 3, "replays") + at * self._between(0, 0.002, "replay rate"))

    def _counted(self, name: str, per_second_at_full_load: float, at: float) -> int:
        return int(self._between(1e9, 1e12, name) + per_second_at_full_load * self._load.total(at))

    def _memory_traffic(self, at: float) -> float:
        return sum(p.memory_intensity * p.curve.mean(at) * self._share(p) for p in self._placements)

    def _process(self, placement: Placement, at: float) -> ProcessReading:
        part = self._part(placement)
        spec = placement.process.spec
        mean = placement.curve.mean(at)
        sampled = mean > _BUSY and not self._gpu.partitioned
        return ProcessReading(
            placement=placement,
            gpu_instance_id=part.gpu_instance_id if part else None,
            compute_instance_id=part.compute_instance_id if part else None,
            memory_bytes=placement.memory_bytes(at) if spec.memory_reported else None,
            sm=round(100 * mean) if sampled else None,
            memory=round(100 * mean * placement.memory_intensity) if sampled else None,
            encoder=round(100 * mean * spec.encoder) if sampled else None,
            decoder=round(100 * mean * spec.decoder) if sampled else None,
        )

    def _mig(self, processes: Sequence[ProcessReading], at: float) -> tuple[MigReading, ...]:
        def used(instance: int) -> int:
            sizes = (p.placement.memory_bytes(at) for p in processes if p.gpu_instance_id == instance)
            return _INSTANCE_BYTES + sum(sizes)

        return tuple(
            MigReading(
                part=part,
                uuid=self._gpu.mig_uuid(part),
                name=f"{self._gpu.card.name} MIG {part.name}",
                memory_total_bytes=part.profile.memory_mib * _MIB,
                memory_used_bytes=used(part.gpu_instance_id),
                bar1_total_bytes=self._gpu.card.bar1_mib * part.profile.memory_slices // MEMORY_SLICES * _MIB,
            )
            for part in self._gpu.mig
        )

    def _instance_activity(self, at: float) -> tuple[tuple[int, tuple[Activity, ...]], ...]:
        slices = {part.gpu_instance_id: part.profile.slices for part in self._gpu.mig}
        result = []
        for instance, count in slices.items():
            load = DeviceLoad(
                (placement, part.share * COMPUTE_SLICES / count)
                for placement in self._placements
                if (part := self._part(placement)) and part.gpu_instance_id == instance
            )
            result.append((instance, _activity(load, at)))
        return tuple(result)

    def _link(self, link: int, at: float) -> LinkReading:
        nvlink = self._gpu.card.nvlink
        active = self._gpu.link_active(link)
        rate = (
            nvlink.mbps * 1e6 / 1024 * self._between(0.2, 0.35, f"link {link}") if nvlink and active else 0.0
        )
        return LinkReading(
            link=link,
            active=active,
            transmit_kib=int(rate * self._load.total(at)),
            receive_kib=int(rate * 0.97 * self._load.total(at)),
            replays=int(self._between(0, 2, f"link {link} replays")) if active else 0,
            recoveries=0,
            crc_errors=int(at * self._between(0, 0.0005, f"link {link} crc")) if active else 0,
        )

    def _ecc(self, at: float, faults: Sequence[Fault], restart: float | None) -> EccReading:
        corrected, uncorrected = _storm_errors(faults, at)
        before = (0, 0) if restart is None else _storm_errors(faults, restart)
        return EccReading(
            volatile_corrected=corrected - before[0],
            volatile_uncorrected=uncorrected - before[1],
            aggregate_corrected=corrected + int(self._between(0, 9, "ecc history")),
            aggregate_uncorrected=uncorrected,
        )

    def _storm_rows(self, at: float, faults: Sequence[Fault]) -> int:
        storms = lasted(faults, FaultKind.ECC_STORM, at)
        return sum(1 + int(seconds / _STORM_SECONDS_PER_ROW) for seconds in storms)

    def _has_new_rows(self, at: float, faults: Sequence[Fault], restart: float | None) -> bool:
        """A restart completes the remapping of the rows of before."""
        before = 0 if restart is None else self._storm_rows(restart, faults)
        return self._storm_rows(at, faults) > before

    def _remapping(self, at: float, faults: Sequence[Fault], restart: float | None) -> Remapping:
        rows, pending = self._storm_rows(at, faults), self._has_new_rows(at, faults, restart)
        return Remapping(correctable=2 * rows, uncorrectable=rows, pending=pending, failed=False)


_PCIE_GB_PER_SECOND = ((0.4, 2.5, "pcie transmit"), (1.0, 6.0, "pcie receive"))  # at full load


def _storm_errors(faults: Sequence[Fault], at: float) -> tuple[int, int]:
    """Corrected and uncorrected errors."""
    storms = lasted(faults, FaultKind.ECC_STORM, at)
    corrected = sum(12 + int(_STORM_CORRECTED_PER_SECOND * seconds) for seconds in storms)
    return corrected, sum(1 + int(seconds / _STORM_SECONDS_PER_UNCORRECTED) for seconds in storms)


def _activity(load: DeviceLoad, at: float) -> tuple[Activity, ...]:
    mean, total = load.mean(at), load.total(at)
    return tuple(
        Activity(metric=metric, percent=100 * share * mean, integral=100 * share * total)
        for metric, share in _GPM_METRICS.items()
    )


def _pcie_traffic(load: DeviceLoad, at: float, transmit: float, receive: float) -> tuple[Activity, ...]:
    """GPM has rates of the whole GPU in MiB/s, and none of an instance."""
    mean, total = load.mean(at) / _MIB, load.total(at) / _MIB
    return tuple(
        Activity(metric=metric, percent=rate * mean, integral=rate * total)
        for metric, rate in ((20, transmit), (21, receive))
    )


def _xids(faults: Sequence[Fault], at: float) -> tuple[XidEvent, ...]:
    """Events in order of time, so that an event always has the same number. A program that starts after a
    restart of the GPU receives none of before it."""
    events: list[tuple[float, int]] = []
    for fault in faults:
        if fault.begin > at:
            continue
        match fault.kind:
            case FaultKind.LOST:
                events.append((fault.begin, _XID_LOST))
            case FaultKind.RESET_REQUIRED:
                events.append((fault.begin, _XID_RESET))
            case FaultKind.XID:
                events.append((fault.begin, fault.code or _DEFAULT_XID))
            case FaultKind.ECC_STORM:
                events.append((fault.begin, _XID_ROW_REMAP))
                repeats = int(fault.seconds(at) / _STORM_SECONDS_PER_UNCORRECTED) + 1
                events += [
                    (fault.begin + i * _STORM_SECONDS_PER_UNCORRECTED, _XID_CONTAINED_ECC)
                    for i in range(repeats)
                ]
    events.sort(key=lambda event: event[0])
    numbered = [
        XidEvent(number=number, code=code, at=begun) for number, (begun, code) in enumerate(events, start=1)
    ]
    restart = last_restart(faults, at)
    return tuple(xid for xid in numbered[-_REMEMBERED_XIDS:] if restart is None or xid.at > restart)
