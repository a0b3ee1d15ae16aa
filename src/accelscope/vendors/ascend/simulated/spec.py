"""The Ascend section of a node's description: models of chips, the specification, and reading it from
YAML."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from accelscope.config.document import Section
from accelscope.config.values import BOOLEAN, Choice, Decimal, Text, WholeNumber
from accelscope.simulate.spec import FREE, MemoryPool, ToolCost, VendorSpec, read_devices, read_tool_cost

# The numbers in the models are plausible, but not measured.


class Layout(Enum):
    """The layout of the table of `npu-smi info`."""

    DDR = "memory is DDR, no HBM"
    HBM = "one chip per NPU, with HBM"
    TWO_CHIPS = "two chips per NPU, with their numbers in /dev"
    NO_CHIPS = "the NPU is the chip"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipModel:
    name: str  # as npu-smi prints it
    layout: Layout
    memory_mib: int  # HBM, or DDR for chips without HBM
    ddr_mib: int = 0  # in addition to HBM
    chips_per_board: int = 1
    idle_watts: float
    full_watts: float
    chip_measures_power: bool = True  # otherwise only the board's controller does
    has_vector_cores: bool = True
    has_cube_usage: bool = True  # the tool prints vector, cube and overall utilisation
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


_RESERVED_MIB = 3400  # HBM of the driver
_RESERVED_DDR_MIB = 1200
_WIDE_FROM = 26  # version; wide tables have a further column of processes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipSpec:
    model: ChipModel
    ambient_celsius: float = 28.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AscendSpec(VendorSpec):
    """A device is a chip. If a model has several chips per board, they fill the boards in order."""

    driver_version: str = "25.0.1"
    tool_version: str | None = None  # None for that of the driver
    in_container: bool = False  # npu-smi cannot read the names of processes
    noisy: bool = False  # the library prints additional lines
    npu_ids: tuple[int, ...] = ()  # of the boards; empty to count from 0
    tool: ToolCost = FREE
    devices: tuple[ChipSpec, ...] = ()

    @property
    def is_wide(self) -> bool:
        return int(self.driver_version.split(".", 1)[0]) >= _WIDE_FROM

    @property
    def device_count(self) -> int:
        return len(self.devices)

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:  # noqa: ARG002 - no partitions
        return MemoryPool(device, (self.devices[device].model.memory_mib - self.reserved_mib(device)) << 20)

    def reserved_mib(self, device: int) -> int:
        layout = self.devices[device].model.layout
        return _RESERVED_DDR_MIB if layout is Layout.DDR else _RESERVED_MIB

    @property
    def boards(self) -> tuple[tuple[int, ...], ...]:
        """The chips of each board, by their positions in the description."""
        boards: list[list[int]] = []
        for slot, chip in enumerate(self.devices):
            last = boards[-1] if boards else []
            same_model = bool(last) and self.devices[last[0]].model == chip.model
            if same_model and len(last) < chip.model.chips_per_board:
                last.append(slot)
            else:
                boards.append([slot])
        return tuple(map(tuple, boards))


_NPU_ID = WholeNumber(0, 65535)
_VERSION = Text("a version such as '25.0.rc1' or '24.1.0'", r"\d+(\.\w+){1,4}")


def read_section(section: Section) -> AscendSpec:
    default = AscendSpec()
    spec = AscendSpec(
        driver_version=section.take("driver_version", _VERSION, default.driver_version),
        tool_version=section.take("tool_version", _VERSION),
        in_container=section.take("in_container", BOOLEAN, default=False),
        noisy=section.take("noisy", BOOLEAN, default=False),
        npu_ids=_npu_ids(section),
        tool=read_tool_cost(section),
        devices=read_devices(section, _chip),
    )
    if len({chip.model.layout for chip in spec.devices}) > 1:
        raise section.error("devices", "npu-smi supports one kind of board per node; use chips of one layout")
    if spec.npu_ids and len(spec.npu_ids) != len(spec.boards):
        raise section.error(
            "npu_ids", f"expected {len(spec.boards)} ids, one for each NPU; got {len(spec.npu_ids)}"
        )
    return spec


def _npu_ids(section: Section) -> tuple[int, ...]:
    ids = section.take_each("npu_ids", _NPU_ID)
    for i, npu_id in enumerate(ids):
        if npu_id in ids[:i]:
            raise section.error(f"npu_ids[{i}]", f"{npu_id} is the id of another NPU")
    return ids


def _chip(section: Section) -> ChipSpec:
    model = MODELS[section.require("model", Choice(*MODELS))]
    return ChipSpec(model=model, ambient_celsius=section.take("ambient_celsius", Decimal(0, 60), 28.0))
