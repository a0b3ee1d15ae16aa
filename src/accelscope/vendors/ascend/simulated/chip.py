"""A simulated chip: its constant properties, and its readings at an instant."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from accelscope.simulate.faults import Fault, FaultKind, lasted
from accelscope.simulate.spec import between, hex_id, numa_node, whole
from accelscope.simulate.vendor import SimulatedHost
from accelscope.simulate.workload import DeviceLoad, Placement, PowerDraw
from accelscope.vendors.ascend.simulated.spec import AscendSpec, ChipModel, ChipSpec

_DIE_GROUPS = 5


@dataclass(frozen=True)
class Chip:
    """`slot` is the position in the description and the number in /dev. It does not change when another chip
    vanishes."""

    seed: int
    slot: int
    count: int  # chips of the node
    board: int  # NPU id
    number: int  # in the NPU
    board_chips: int
    address: str  # as the kernel writes it
    reserved_mib: int
    spec: ChipSpec

    @property
    def model(self) -> ChipModel:
        return self.spec.model

    @cached_property
    def die(self) -> str:
        digits = hex_id(self.seed, "ascend", "die", self.slot).upper()
        return " ".join(digits[8 * group : 8 * group + 8] for group in range(_DIE_GROUPS))

    @cached_property
    def serial(self) -> str:
        """The serial number of the board."""
        number = whole(10**9, 10**10 - 1, self.seed, "ascend", "serial", self.board)
        return f"033ABC{number}"

    @property
    def bus_id(self) -> str:
        return self.address.upper() if self.model.on_pci else "NA"

    @property
    def numa_node(self) -> int:
        return numa_node(self.slot, self.count)

    @property
    def leads_board(self) -> bool:
        return self.number == 0


def chips_of(spec: AscendSpec, site: SimulatedHost) -> tuple[Chip, ...]:
    count = len(spec.devices)
    chips = []
    for place, slots in enumerate(spec.boards):
        for number, slot in enumerate(slots):
            chips.append(
                Chip(
                    seed=site.seed,
                    slot=slot,
                    count=count,
                    board=spec.npu_ids[place] if spec.npu_ids else place,
                    number=number,
                    board_chips=len(slots),
                    address=site.pci_address(slot, count),
                    reserved_mib=spec.reserved_mib(slot),
                    spec=spec.devices[slot],
                )
            )
    return tuple(chips)


# Readings at an instant, in the units of npu-smi.


@dataclass(frozen=True, slots=True)
class ChipError:
    code: int
    information: str


@dataclass(frozen=True, slots=True)
class ChipProcess:
    pid: int
    name: str
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EccCounts:
    single: int = 0  # since the driver was loaded
    double: int = 0
    total_single: int = 0  # over the life of the board
    total_double: int = 0
    isolated_single: int = 0  # pages
    isolated_double: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipReading:
    """Percentages are whole numbers, as npu-smi prints them."""

    chip: Chip
    listed: bool = True  # by the driver
    has_row: bool = True  # in the table; False for a lost chip, which the driver still lists
    hangs: bool = False
    logic_id: int | None  # position among the listed chips
    health: str
    errors: tuple[ChipError, ...]
    watts: float
    volts: float
    celsius: int
    aicore: int
    vector: int
    cube: int
    bandwidth: int
    memory_used_mib: int
    ddr_used_mib: int
    aicore_mhz: int
    ecc: EccCounts
    processes: tuple[ChipProcess, ...]

    @property
    def memory_percent(self) -> int:
        return self.memory_used_mib * 100 // self.chip.model.memory_mib


# From the load of processes and from faults to readings.

_CELSIUS_AT_FULL_POWER = 72.0
_HOT_CELSIUS = 105.0
_IDLE_VOLTS = 0.78
_VOLTS_OF_LOAD = 0.14
_BUSY_PERCENT = 3  # from this utilization on, the clock is at its rated speed
_SINGLE_BIT_PER_SECOND = 2.0
_DOUBLE_BIT_PER_SECOND = 0.1
_COMM_LENGTH = 15  # of a process name in the kernel

# Health and error that the driver reports for each fault.
_FAULT_HEALTH = {
    FaultKind.RESET_REQUIRED: ("Critical", ChipError(0x80E18402, "the chip does not answer, reset it")),
    FaultKind.ECC_STORM: ("Alarm", ChipError(0x80E01801, "node type=HBM, event state=multi-bit ECC error")),
    FaultKind.HOT: ("Warning", ChipError(0x80CD8008, "node type=SoC, event state=over temperature")),
}


class ChipDynamics:
    def __init__(self, chip: Chip, placements: Iterable[Placement]) -> None:
        self.chip = chip
        self._placements = tuple(p for p in placements if p.device == chip.slot)
        self._load = DeviceLoad((placement, 1.0) for placement in self._placements)
        model = chip.model
        self._power = PowerDraw(model.idle_watts, model.full_watts - model.idle_watts, self._load)

    def reading(self, at: float, faults: tuple[Fault, ...], logic_id: int | None) -> ChipReading:
        chip, model = self.chip, self.chip.model
        active = {fault.kind for fault in faults if fault.active(at)}
        problems = [problem for kind, problem in _FAULT_HEALTH.items() if kind in active]
        load = self._load.mean(at)
        processes = tuple(self._processes(at))
        aicore = round(100 * load)
        celsius = self._power.celsius(
            at, ambient=chip.spec.ambient_celsius, at_full_power=_CELSIUS_AT_FULL_POWER
        )
        return ChipReading(
            chip=chip,
            listed=FaultKind.VANISHED not in active,
            has_row=not active & {FaultKind.VANISHED, FaultKind.LOST},
            hangs=FaultKind.HANG in active,
            logic_id=logic_id,
            health=problems[0][0] if problems else "OK",
            errors=tuple(error for _, error in problems),
            watts=round(self._power.mean(at), 1),
            volts=round(_IDLE_VOLTS + _VOLTS_OF_LOAD * load, 2),
            celsius=round(max(celsius, _HOT_CELSIUS) if FaultKind.HOT in active else celsius),
            aicore=aicore,
            vector=round(100 * load * self._share("vector")) if model.has_vector_cores else 0,
            cube=round(100 * load * self._share("cube")),
            bandwidth=round(100 * self._traffic(at)),
            memory_used_mib=min(
                chip.reserved_mib + sum(process.memory_mib for process in processes), model.memory_mib
            ),
            ddr_used_mib=model.ddr_mib // 8,
            aicore_mhz=model.aicore_mhz if aicore >= _BUSY_PERCENT else model.idle_mhz,
            ecc=self._ecc(at, faults),
            processes=processes,
        )

    def _processes(self, at: float) -> Iterable[ChipProcess]:
        for placement in self._placements:
            if placement.curve.runs_at(at):
                process = placement.process
                yield ChipProcess(
                    process.pid, process.spec.name[:_COMM_LENGTH], placement.memory_bytes(at) >> 20
                )

    def _traffic(self, at: float) -> float:
        return sum(p.memory_intensity * p.curve.mean(at) for p in self._placements)

    def _share(self, unit: str) -> float:
        """The utilization of a unit, as a fraction of the load of the chip."""
        return between(0.3, 0.9, self.chip.seed, "ascend", unit, self.chip.slot)

    def _ecc(self, at: float, faults: tuple[Fault, ...]) -> EccCounts:
        storms = lasted(faults, FaultKind.ECC_STORM, at)
        single = sum(int(seconds * _SINGLE_BIT_PER_SECOND) for seconds in storms)
        double = sum(1 + int(seconds * _DOUBLE_BIT_PER_SECOND) for seconds in storms)
        before = whole(0, 3, self.chip.seed, "ascend", "ecc", self.chip.slot)
        return EccCounts(
            single=single,
            double=double,
            total_single=before + single,
            total_double=double,
            isolated_single=single // 100,
            isolated_double=double,
        )
