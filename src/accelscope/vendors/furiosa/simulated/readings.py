"""What a simulated card shows at an instant: the truth that readers are held against."""

from collections.abc import Mapping
from dataclasses import dataclass

from accelscope.vendors.furiosa.simulated.models import CardModel

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
