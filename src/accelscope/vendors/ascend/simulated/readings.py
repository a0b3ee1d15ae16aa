"""What a simulated chip shows at one instant, in the tool's own terms."""

from dataclasses import dataclass

from accelscope.vendors.ascend.simulated.chip import Chip


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
    listed: bool = True  # False: the driver does not know of it at all
    shown: bool = True  # False: the driver counts it, but it has no row
    hangs: bool = False
    logic_id: int | None  # among those that are listed
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
