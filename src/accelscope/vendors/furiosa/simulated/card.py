"""What a simulated card shows at an instant: the truth that readers are held against."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelscope.simulate import spec as identity
from accelscope.simulate import spec as pci
from accelscope.simulate.faults import Fault, FaultKind, lasted
from accelscope.simulate.vendor import SimulatedHost
from accelscope.simulate.workload import DeviceLoad, Placement, PowerDraw, uptime_at_start
from accelscope.vendors.furiosa.simulated.spec import CardModel, Family, FuriosaSpec

IDLE, THERMAL_SLOWDOWN = 0x1, 0x2  # bits of throttle_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    pid: int
    name: str
    cores: tuple[int, ...]  # one after the other
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreReading:
    held: bool
    utilization: float  # ratio, over the last second
    busy_seconds: float  # since simulated time zero
    mhz: int
    celsius: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReading:
    slot: int
    model: CardModel
    index: int | None  # in its name; None: the driver does not show the card
    uuid: str
    serial: str
    address: str
    numa_node: int
    lost: bool  # off the bus, but still in the driver's class
    hangs: bool
    alive: bool
    uptime_seconds: float
    errors: Mapping[str, int]  # in the words of atr_error
    cores: tuple[CoreReading, ...]
    peak_celsius: float
    ambient_celsius: float
    watts: float
    memory_used_bytes: int
    throttle_reasons: int
    processes: tuple[ProcessReading, ...]

    @property
    def name(self) -> str:
        return f"npu{self.index}"

    @property
    def listed(self) -> bool:
        """Whether the vendor's tools show it."""
        return self.index is not None and not self.lost


# --- dynamics ------------------------------------------------------------
# How a simulated card behaves: from its processes' loads and its faults to what it shows at an instant.


_HEADROOM_AT_FULL_POWER = 22.0  # degrees below slowdown
_HOT_CLOCK = 0.6  # of the usual one, when the card protects itself
_CORE_SPREAD = 2.5  # degrees by which cores are cooler than the hottest
_STORM_PER_SECOND = {"AXI Post Error": 3.0, "AXI Fetch Error": 0.5, "Device Error": 0.05}
_ERRORS = (
    "AXI Post Error",
    "AXI Fetch Error",
    "AXI Discard Error",
    "AXI Doorbell done",
    "PCIe Post Error",
    "PCIe Fetch Error",
    "PCIe Discard Error",
    "PCIe Doorbell done",
    "Device Error",
)


class CardDynamics:
    def __init__(self, spec: FuriosaSpec, site: SimulatedHost, slot: int) -> None:
        self._slot, self._seed = slot, site.seed
        self._spec = spec.devices[slot]
        self._model = model = self._spec.model
        self._placements = tuple(p for p in site.placements if p.device == slot)
        count = len(spec.devices)
        self._address = site.pci_address(slot, count)
        self.uuid = identity.uuid(site.seed, "furiosa", slot).upper()
        self.numa_node = pci.numa_node(slot, count)
        self._core_loads = tuple(
            DeviceLoad((p, 1.0) for p in self._placements if core in self._cores(p))
            for core in range(model.cores)
        )
        load = DeviceLoad((p, len(self._cores(p)) / model.cores) for p in self._placements)
        self._power = PowerDraw(model.idle_watts, model.full_watts - model.idle_watts, load)

    @property
    def family(self) -> Family:
        return self._model.family

    @property
    def cores(self) -> int:
        return self._model.cores

    def reading(self, at: float, faults: Sequence[Fault], index: int | None) -> CardReading:
        """`faults` are all that this card ever had up to now; `index` is the number in its name."""
        model = self._model
        active = {fault.kind for fault in faults if fault.active(at)}
        hot = FaultKind.HOT in active
        lost = FaultKind.LOST in active
        peak = model.slowdown_celsius + 3.5 if hot else self._temperature(at)
        running = [p for p in self._placements if p.curve.runs_at(at)]
        cores = tuple(self._core(core, running, at, peak=peak, hot=hot) for core in range(model.cores))
        busy = any(core.utilization > 0 for core in cores)
        return CardReading(
            slot=self._slot,
            model=model,
            index=index,
            uuid=self.uuid,
            serial=f"{model.serial_prefix}{identity.whole(0, 999_999, self._seed, 'sn', self._slot):06d}",
            address=self._address,
            numa_node=self.numa_node,
            lost=lost,
            hangs=FaultKind.HANG in active,
            alive=not lost and FaultKind.RESET_REQUIRED not in active,
            uptime_seconds=uptime_at_start(self._seed) + at,
            errors=self._errors(at, faults),
            cores=cores,
            peak_celsius=peak,
            ambient_celsius=round(self._spec.ambient_celsius + self._between(4, 7, "ambient"), 2),
            watts=round(self._power.mean(at), 2),
            memory_used_bytes=sum(p.memory_bytes(at) for p in running),
            throttle_reasons=(THERMAL_SLOWDOWN if hot else 0) | (0 if busy else IDLE),
            processes=tuple(
                ProcessReading(
                    pid=p.process.pid,
                    name=p.process.spec.name,
                    cores=self._cores(p),
                    memory_bytes=p.memory_bytes(at),
                )
                for p in running
            ),
        )

    def _cores(self, placement: Placement) -> tuple[int, ...]:
        """What the process holds: what its description says, or all."""
        held = placement.process.spec.own
        return held if isinstance(held, tuple) and held else tuple(range(self._model.cores))

    def _core(
        self, core: int, running: Sequence[Placement], at: float, *, peak: float, hot: bool
    ) -> CoreReading:
        load = self._core_loads[core]
        cooler = self._between(0, _CORE_SPREAD, "core", core)
        return CoreReading(
            held=any(core in self._cores(p) for p in running),
            utilization=min(1.0, round(load.mean(at), 4)),
            busy_seconds=load.total(at),
            mhz=int(self._model.core_mhz * (_HOT_CLOCK if hot else 1)),
            celsius=round(peak - cooler, 2),
        )

    def _temperature(self, at: float) -> float:
        full = self._model.slowdown_celsius - _HEADROOM_AT_FULL_POWER
        ambient = self._spec.ambient_celsius + self._between(0, 4, "warmth")
        return round(self._power.celsius(at, ambient=ambient, at_full_power=full), 2)

    def _errors(self, at: float, faults: Sequence[Fault]) -> dict[str, int]:
        seconds = sum(lasted(faults, FaultKind.ECC_STORM, at))
        return {name: int(seconds * _STORM_PER_SECOND.get(name, 0)) for name in _ERRORS}

    def _between(self, low: float, high: float, *name: object) -> float:
        return identity.between(low, high, self._seed, "furiosa", self._slot, *name)
