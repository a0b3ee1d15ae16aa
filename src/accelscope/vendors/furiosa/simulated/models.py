"""The cards that can be simulated, as data."""

from dataclasses import dataclass
from enum import StrEnum


class Family(StrEnum):
    WARBOY = "warboy"
    RNGD = "rngd"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardModel:
    family: Family
    device_type: str  # as the driver writes it
    serial_prefix: str
    cores: int
    memory_bytes: int
    core_mhz: int
    idle_watts: float
    full_watts: float
    core_power_share: float  # of the card's power, what its cores draw
    slowdown_celsius: float
    pci_device_code: int
    link_speed: str
    link_width: int
    virtual_functions: int  # of SR-IOV
    fusions: tuple[tuple[int, int], ...]  # first and last core of each device file for several
    channels: int


WARBOY = CardModel(
    family=Family.WARBOY,
    device_type="Warboy",
    serial_prefix="WBYB",
    cores=2,
    memory_bytes=16 << 30,
    core_mhz=2000,
    idle_watts=11.5,
    full_watts=42.0,
    core_power_share=0.08,
    slowdown_celsius=95.0,
    pci_device_code=0x0000,
    link_speed="16.0 GT/s PCIe",
    link_width=8,
    virtual_functions=0,
    fusions=((0, 1),),
    channels=4,
)
RNGD = CardModel(
    family=Family.RNGD,
    device_type="RNGD",
    serial_prefix="RNGD",
    cores=8,
    memory_bytes=51_002_736_640,
    core_mhz=2000,
    idle_watts=38.0,
    full_watts=172.0,
    core_power_share=0.7,
    slowdown_celsius=100.0,
    pci_device_code=0x0001,
    link_speed="32.0 GT/s PCIe",
    link_width=16,
    virtual_functions=8,
    fusions=((0, 1), (2, 3), (4, 5), (6, 7), (0, 3), (4, 7)),
    channels=8,
)
MODELS = {model.family.value: model for model in (WARBOY, RNGD)}
