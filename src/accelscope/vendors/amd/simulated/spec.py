"""The AMD section of a node's description: models of cards, the specification, and reading it from YAML."""

from dataclasses import dataclass, replace
from enum import StrEnum

from accelscope.config.document import Section
from accelscope.config.values import BOOLEAN, LINE, Choice, Decimal, Text
from accelscope.simulate.spec import FREE, MemoryPool, ToolCost, VendorSpec, read_devices, read_tool_cost

_GIB = 1 << 30
_MIB = 1 << 20

# Blocks of a chip with error counters, as in the names of files in ras/.
INSTINCT_BLOCKS = ("umc", "sdma", "gfx", "mmhub", "pcie_bif", "hdp", "xgmi_wafl")


class Family(StrEnum):
    INSTINCT = "instinct"
    RADEON = "radeon"
    APU = "apu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    idle_watts: float
    default_watts: float
    min_watts: float
    max_watts: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """The shape of a compute die, as the compute driver shows it."""

    name: str = "ip discovery"  # that the driver gives the chip
    engines: int  # shader engines
    arrays: int = 1  # shader arrays of each engine
    units: int  # places for compute units in each array; some are switched off
    simds: int = 4  # of each unit
    waves: int = 8  # of each SIMD
    wave_size: int = 64
    copy_engines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    model: str  # name in descriptions
    family: Family
    market_name: str
    code: int  # PCI device id of the chip
    pci_class: int
    architecture: str
    target_version: int  # the architecture as the compute driver writes it: 90402
    compute_units: int
    compute: Compute
    revision: int = 0
    subsystem: tuple[int, int] | None = None  # vendor and device of the board; None: those of the chip
    xccs: int = 1  # compute dies; with several, the GPU can be partitioned
    dies: int = 1  # GPUs of one module, which share its power
    vram_bytes: int
    vram_type: str
    vram_bits: int
    power: Power
    average_power: bool  # whether the driver reports average or current power
    edge_sensor: bool = True
    junction_sensor: bool = True
    crit_celsius: int = 100
    emergency_celsius: int = 105
    sclk_mhz: tuple[int, ...] = ()
    mclk_mhz: tuple[int, ...] = ()
    gfx_millivolts: int | None = None
    fan_rpm: int | None = None  # at full speed; None without a fan
    pcie_generation: int = 4
    vbios: str = "113-SIMULATED-001"  # part number of the VBIOS
    part_number: str | None = None  # of the board; None if it stores none
    ras_blocks: tuple[str, ...] = ()

    @property
    def linked(self) -> bool:
        """Whether it has XGMI links."""
        return self.family is Family.INSTINCT and self.dies * self.xccs > 1


CARDS = {
    card.model: card
    for card in (
        Card(
            model="mi300x",
            family=Family.INSTINCT,
            market_name="AMD Instinct MI300X",
            code=0x74A1,
            pci_class=0x1200,
            architecture="gfx942",
            target_version=90402,
            compute_units=304,
            compute=Compute(engines=4, units=10, copy_engines=16),
            xccs=8,
            vram_bytes=196592 * _MIB,
            vram_type="HBM3",
            vram_bits=8192,
            power=Power(idle_watts=138, default_watts=750, min_watts=0, max_watts=750),
            average_power=False,
            edge_sensor=False,
            sclk_mhz=(500, 2100),
            mclk_mhz=(900, 1100, 1300),
            pcie_generation=5,
            vbios="113-M3000100-102",
            part_number="102-G30211-0C",
            ras_blocks=INSTINCT_BLOCKS,
        ),
        Card(
            model="mi250x",
            family=Family.INSTINCT,
            market_name="AMD Instinct MI250X",
            code=0x7408,
            pci_class=0x0380,
            architecture="gfx90a",
            target_version=90010,
            compute_units=110,
            compute=Compute(name="aldebaran", engines=8, units=14, copy_engines=5),
            dies=2,
            vram_bytes=65520 * _MIB,
            vram_type="HBM2",
            vram_bits=4096,
            power=Power(idle_watts=90, default_watts=560, min_watts=0, max_watts=560),
            average_power=True,
            sclk_mhz=(500, 800, 1700),
            mclk_mhz=(400, 700, 1200, 1600),
            gfx_millivolts=818,
            vbios="113-D65209-073",
            part_number="102-D65209-0C",
            ras_blocks=INSTINCT_BLOCKS,
        ),
        Card(
            model="rx-7900-xtx",
            family=Family.RADEON,
            market_name="AMD Radeon RX 7900 XTX",
            code=0x744C,
            pci_class=0x0300,
            architecture="gfx1100",
            target_version=110000,
            compute_units=96,
            compute=Compute(engines=6, arrays=2, units=8, simds=2, waves=16, wave_size=32, copy_engines=2),
            revision=0xC8,
            subsystem=(0x1DA2, 0xE471),
            vram_bytes=24 * _GIB,
            vram_type="GDDR6",
            vram_bits=384,
            power=Power(idle_watts=16, default_watts=303, min_watts=272, max_watts=348),
            average_power=True,
            crit_celsius=100,
            sclk_mhz=(500, 2526, 2615),
            mclk_mhz=(96, 456, 772, 1249),
            gfx_millivolts=760,
            fan_rpm=3300,
            vbios="113-EXT86076-100",
        ),
        Card(
            model="radeon-780m",
            family=Family.APU,
            market_name="AMD Radeon 780M Graphics",
            code=0x15BF,
            pci_class=0x0300,
            architecture="gfx1103",
            target_version=110003,
            compute_units=12,
            compute=Compute(engines=1, arrays=2, units=6, simds=2, waves=16, wave_size=32, copy_engines=1),
            revision=0xC1,
            vram_bytes=4 * _GIB,
            vram_type="DDR5",
            vram_bits=128,
            power=Power(idle_watts=4, default_watts=45, min_watts=0, max_watts=54),
            average_power=False,
            junction_sensor=False,
            sclk_mhz=(800, 1100, 2700),
            mclk_mhz=(1000, 2800),
            gfx_millivolts=1199,
            vbios="113-PHXGENERIC-001",
        ),
    )
}


_SPARE_BYTES = 512 << 20  # for the driver


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdDeviceSpec:
    """One GPU of the driver; for a module with two dies, one die."""

    card: Card
    power_limit_watts: float  # of the module
    ambient_celsius: float = 28.0
    suspended: bool = False  # to save power
    counts_energy: bool = False  # for Radeon cards: whether the firmware is so old that it counts energy
    compute_partition: str | None = None  # SPX, DPX, QPX, CPX; None if it cannot be partitioned
    memory_partition: str | None = None  # NPS1, NPS4

    @property
    def parts(self) -> int:
        return {"DPX": 2, "QPX": 4, "CPX": self.card.xccs}.get(self.compute_partition or "", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdSpec(VendorSpec):
    rocm_version: str = "7.0.2"
    driver_version: str | None = "6.14.14"  # None for the in-tree driver
    kernel_release: str = "6.8.0-79-generic"
    tools: tuple[str, ...] = ("amd-smi", "rocm-smi")
    amd_smi: ToolCost = FREE
    rocm_smi: ToolCost = FREE
    devices: tuple[AmdDeviceSpec, ...] = ()

    @property
    def rocm(self) -> tuple[int, int]:
        major, minor = self.rocm_version.split(".")[:2]
        return int(major), int(minor)

    @property
    def metrics_revision(self) -> int:
        """Content revision of the gpu_metrics of an MI300X."""
        version, since = self.driver_version, (6, 10)
        if version is None:
            version, since = self.kernel_release, (6, 13)
        numbers = tuple(int(number) for number in version.partition("-")[0].split(".")[:2])
        return 7 if numbers >= since else 5

    @property
    def device_count(self) -> int:
        return len(self.devices)

    def instances(self, device: int) -> int | None:
        parts = self.devices[device].parts
        return parts if parts > 1 else None

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:
        spec = self.devices[device]
        return MemoryPool((device, instance), (spec.card.vram_bytes - _SPARE_BYTES) // spec.parts)


TOOLS = ("amd-smi", "rocm-smi")
_ROCM_VERSION = Text("a version such as '7.0.2'", r"[4-7]\.\d+(\.\d+)?")
_COMPUTE = ("SPX", "DPX", "QPX", "CPX")
_MEMORY = ("NPS1", "NPS2", "NPS4", "NPS8")


def read_section(section: Section) -> AmdSpec:
    default = AmdSpec()
    in_kernel = section.take("in_kernel_driver", BOOLEAN, default=False)
    version = section.take("driver_version", Text("a version such as '6.14.14'", r"\d+(\.\d+){1,2}"))
    return AmdSpec(
        rocm_version=section.take("rocm_version", _ROCM_VERSION, default.rocm_version),
        driver_version=None if in_kernel else version or default.driver_version,
        kernel_release=section.take("kernel_release", LINE, default.kernel_release),
        tools=section.take_each("tools", Choice(*TOOLS)) if section.has("tools") else TOOLS,
        amd_smi=read_tool_cost(section, "amd_smi"),
        rocm_smi=read_tool_cost(section, "rocm_smi"),
        devices=read_devices(section, _device),
    )


def _device(section: Section) -> AmdDeviceSpec:
    card = CARDS[section.require("model", Choice(*CARDS))]
    card = replace(card, market_name=section.take("name", LINE, card.market_name))
    limits = Decimal(card.power.min_watts or 1, card.power.max_watts)
    return AmdDeviceSpec(
        card=card,
        power_limit_watts=section.take("power_limit_watts", limits, card.power.default_watts),
        ambient_celsius=section.take("ambient_celsius", Decimal(0, 60), 28.0),
        suspended=section.take("suspended", BOOLEAN, default=False),
        counts_energy=section.take("counts_energy", BOOLEAN, default=False),
        compute_partition=_partition(section, "compute_partition", card, _COMPUTE),
        memory_partition=_partition(section, "memory_partition", card, _MEMORY),
    )


def _partition(section: Section, key: str, card: Card, known: tuple[str, ...]) -> str | None:
    if card.xccs > 1:
        return section.take(key, Choice(*known), known[0])
    if section.raw(key) is not None:
        raise section.error(key, f"{card.model} cannot be partitioned")
    return None
