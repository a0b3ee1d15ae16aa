"""Ascend chips that a description can name: what they are called, what they have, and how npu-smi shows them.

Figures are round ones of the order that such chips have; nothing is measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Layout(Enum):
    """Which table `npu-smi info` prints."""

    DDR = "memory is DDR, no HBM"
    HBM = "one chip an NPU, with HBM"
    TWO_CHIPS = "two chips an NPU, with their numbers in /dev"
    NO_CHIPS = "the NPU is the chip"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipModel:
    name: str  # as npu-smi prints it
    layout: Layout
    memory_mib: int  # HBM where there is some, else DDR
    ddr_mib: int = 0  # beside HBM
    chips_per_board: int = 1
    idle_watts: float
    full_watts: float
    chip_measures_power: bool = True  # False: only the board's controller does
    has_vector_cores: bool = True
    has_cube_usage: bool = True  # the tool tells vector, cube and overall utilisation apart
    lists_processes: bool = True  # in the table
    aicores: int
    aicore_mhz: int
    idle_mhz: int
    on_pci: bool = True
    pci_device_code: int = 0xD802


MODELS: Mapping[str, ChipModel] = {
    "310": ChipModel(
        name="310",
        layout=Layout.DDR,
        memory_mib=8192,
        chips_per_board=4,
        idle_watts=12.8,
        full_watts=16.0,
        has_vector_cores=False,
        has_cube_usage=False,
        aicores=2,
        aicore_mhz=680,
        idle_mhz=680,
        pci_device_code=0xD100,
    ),
    "310b4": ChipModel(
        name="310B4",
        layout=Layout.DDR,
        memory_mib=3513,
        idle_watts=7.0,
        full_watts=12.0,
        has_vector_cores=False,
        has_cube_usage=False,
        lists_processes=False,
        aicores=1,
        aicore_mhz=500,
        idle_mhz=500,
        on_pci=False,
    ),
    "310p3": ChipModel(
        name="310P3",
        layout=Layout.DDR,
        memory_mib=21527,
        idle_watts=16.5,
        full_watts=68.0,
        chip_measures_power=False,
        has_cube_usage=False,
        aicores=8,
        aicore_mhz=1080,
        idle_mhz=960,
        pci_device_code=0xD500,
    ),
    "310p3-duo": ChipModel(
        name="310P3",
        layout=Layout.DDR,
        memory_mib=43693,
        chips_per_board=2,
        idle_watts=22.0,
        full_watts=72.0,
        chip_measures_power=False,
        has_cube_usage=False,
        aicores=8,
        aicore_mhz=1080,
        idle_mhz=960,
        pci_device_code=0xD500,
    ),
    "910a": ChipModel(
        name="910A",
        layout=Layout.HBM,
        memory_mib=32768,
        ddr_mib=15137,
        idle_watts=66.0,
        full_watts=300.0,
        has_vector_cores=False,
        has_cube_usage=False,
        aicores=30,
        aicore_mhz=1000,
        idle_mhz=900,
        pci_device_code=0xD801,
    ),
    "910b3": ChipModel(
        name="910B3",
        layout=Layout.HBM,
        memory_mib=65536,
        idle_watts=92.0,
        full_watts=392.0,
        aicores=20,
        aicore_mhz=1800,
        idle_mhz=800,
    ),
    "910b4": ChipModel(
        name="910B4",
        layout=Layout.HBM,
        memory_mib=32768,
        idle_watts=85.0,
        full_watts=350.0,
        aicores=20,
        aicore_mhz=1650,
        idle_mhz=800,
    ),
    "a3": ChipModel(
        name="Ascend910",
        layout=Layout.TWO_CHIPS,
        memory_mib=65536,
        chips_per_board=2,
        idle_watts=82.0,
        full_watts=360.0,
        aicores=24,
        aicore_mhz=1800,
        idle_mhz=800,
        pci_device_code=0xD803,
    ),
    "950dt": ChipModel(
        name="Ascend950DT",
        layout=Layout.NO_CHIPS,
        memory_mib=98304,
        idle_watts=370.0,
        full_watts=600.0,
        aicores=32,
        aicore_mhz=1650,
        idle_mhz=100,
        on_pci=False,
    ),
}
