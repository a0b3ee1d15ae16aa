"""The NVIDIA section of a node description: its specification, the known cards, and reading it from YAML."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from accelscope.config.document import Section
from accelscope.config.values import BOOLEAN, LINE, TEXT, Choice, Decimal, Text, WholeNumber, shown
from accelscope.simulate.spec import (
    FREE,
    DescriptionError,
    MemoryPool,
    ToolCost,
    VendorSpec,
    read_devices,
    read_tool_cost,
)

# MIG profiles and devices
#
# A GPU instance has its own memory and a share of the processors. Its compute instances share that memory. A
# MIG device, as users see it, is one compute instance.

COMPUTE_SLICES = 7  # of every card with MIG
MEMORY_SLICES = 8


@dataclass(frozen=True, slots=True)
class GpuProfile:
    name: str  # 3g.40gb
    slices: int
    memory_slices: int
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    first_id: int  # the driver numbers the instances of each size from its own first id


H100_80GB_PROFILES = (
    GpuProfile("1g.10gb", 1, 1, 9984, 16, 1, 1, 7),
    GpuProfile("1g.20gb", 1, 2, 20096, 26, 1, 1, 7),
    GpuProfile("2g.20gb", 2, 2, 20096, 32, 2, 2, 3),
    GpuProfile("3g.40gb", 3, 4, 40448, 60, 3, 3, 1),
    GpuProfile("4g.40gb", 4, 4, 40448, 64, 4, 4, 1),
    GpuProfile("7g.80gb", 7, 8, 81152, 132, 8, 7, 0),
)
A100_40GB_PROFILES = (
    GpuProfile("1g.5gb", 1, 1, 4864, 14, 1, 0, 7),
    GpuProfile("1g.10gb", 1, 2, 9856, 14, 1, 1, 7),
    GpuProfile("2g.10gb", 2, 2, 9856, 28, 2, 1, 3),
    GpuProfile("3g.20gb", 3, 4, 19968, 42, 3, 2, 1),
    GpuProfile("4g.20gb", 4, 4, 19968, 56, 4, 2, 1),
    GpuProfile("7g.40gb", 7, 8, 40192, 98, 7, 5, 0),
)


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One compute instance; `index` is its number among the MIG devices of its card."""

    index: int
    profile: GpuProfile
    gpu_instance_id: int
    compute_instance_id: int
    compute_slices: int

    @property
    def name(self) -> str:
        if self.compute_slices == self.profile.slices:
            return self.profile.name
        return f"{self.compute_slices}c.{self.profile.name}"

    @property
    def multiprocessors(self) -> int:
        return self.profile.multiprocessors * self.compute_slices // self.profile.slices

    @property
    def share(self) -> float:
        """Its share of the card's processors."""
        return self.compute_slices / COMPUTE_SLICES


_COMPUTE_PROFILE = re.compile(r"(?:(\d)c\.)?(.+)")


def mig_devices(
    profiles: tuple[GpuProfile, ...], layout: Iterable[tuple[str, tuple[str, ...]]], where: str
) -> tuple[MigDevice, ...]:
    """The MIG devices of a layout of (GPU instance profile, its compute instance profiles). Without compute
    instance profiles, one fills the GPU instance. Raises DescriptionError if the card does not support the
    layout."""
    devices: list[MigDevice] = []
    used_ids: set[int] = set()
    slices = memory_slices = 0
    for profile_name, computes in layout:
        profile = next((p for p in profiles if p.name == profile_name), None)
        if profile is None:
            allowed = ", ".join(p.name for p in profiles) or "none, this model has no MIG"
            raise DescriptionError(f"{where}: {shown(profile_name)} is not a profile; allowed: {allowed}")
        slices += profile.slices
        memory_slices += profile.memory_slices
        instance = next(i for i in range(profile.first_id, 16) if i not in used_ids)
        used_ids.add(instance)
        sizes = [_compute_slices(name, profile, where) for name in computes or (profile.name,)]
        if sum(sizes) > profile.slices:
            raise DescriptionError(f"{where}: {profile.name} has {profile.slices} slices, not {sum(sizes)}")
        devices += [
            MigDevice(len(devices) + number, profile, instance, number, size)
            for number, size in enumerate(sizes)
        ]
    if slices > COMPUTE_SLICES or memory_slices > MEMORY_SLICES:
        raise DescriptionError(
            f"{where}: {slices} compute and {memory_slices} memory slices; "
            f"a card has {COMPUTE_SLICES} and {MEMORY_SLICES}"
        )
    return tuple(devices)


def _compute_slices(name: str, profile: GpuProfile, where: str) -> int:
    match = _COMPUTE_PROFILE.fullmatch(name)
    if match is None or match[2] != profile.name:
        raise DescriptionError(
            f"{where}: {shown(name)} is not a compute instance of {profile.name}; "
            f"allowed: {profile.name}, 1c.{profile.name} ..."
        )
    return int(match[1]) if match[1] else profile.slices


# The cards that can be simulated, with the values that the real boards report


@dataclass(frozen=True, slots=True)
class PowerFigures:
    idle_watts: float
    min_watts: float
    default_watts: float
    max_watts: float


@dataclass(frozen=True, slots=True)
class ClockFigures:
    """In MHz. A card with HBM keeps its memory clock when idle; other cards reduce it."""

    idle_sm: int
    max_sm: int
    idle_memory: int
    max_memory: int
    max_video: int


@dataclass(frozen=True, slots=True)
class TemperatureFigures:
    shutdown: int
    slowdown: int
    gpu_max: int
    memory_max: int | None  # None: the memory has no sensor


@dataclass(frozen=True, slots=True)
class NvLinkFigures:
    links: int
    version: int  # NVML's own numbering: 4 is NVLink 3.0, 6 is NVLink 4.0
    mbps: int  # of one link in one direction, MB/s


_ADA = 8  # nvmlDeviceArchitecture_t


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    model: str
    name: str
    brand: int  # nvmlBrandType_t
    brand_name: str
    architecture: int  # nvmlDeviceArchitecture_t
    architecture_name: str
    compute_capability: tuple[int, int]
    cores: int
    multiprocessors: int
    pci_device_id: int
    pci_subsystem_id: int
    pci_class: int  # base class and sub-class: 0x0302 3D controller, 0x0300 VGA
    part_number: str | None
    vbios: str
    inforom_image: str
    memory_mib: int
    reserved_mib: int
    bar1_mib: int
    memory_bus_width: int
    power: PowerFigures
    clocks: ClockFigures
    temperature: TemperatureFigures
    idle_pstate: int
    busy_pstate: int
    pcie_generation: int
    idle_pcie_generation: int
    pcie_width: int = 16
    ecc: bool = True
    row_remapping: bool = True  # otherwise, with ECC, pages are retired
    remapper_banks: int = 0
    serial: bool = True
    fans: int = 0
    display: bool = False
    nvlink: NvLinkFigures | None = None
    gpm: bool = False
    mig_profiles: tuple[GpuProfile, ...] = ()

    @property
    def has_temperature_margins(self) -> bool:
        """Data-centre cards since Ada report the margin to their limits. GeForce cards do not."""
        return self.architecture >= _ADA and self.serial


CARDS: dict[str, Card] = {
    card.model: card
    for card in (
        Card(
            model="h100-80gb",
            name="NVIDIA H100 80GB HBM3",
            brand=14,
            brand_name="NVIDIA",
            architecture=9,
            architecture_name="Hopper",
            compute_capability=(9, 0),
            cores=16896,
            multiprocessors=132,
            pci_device_id=0x233010DE,
            pci_subsystem_id=0x16C110DE,
            pci_class=0x0302,
            part_number="692-2G520-0200-000",
            vbios="96.00.A5.00.01",
            inforom_image="G520.0200.00.05",
            memory_mib=81559,
            reserved_mib=479,
            bar1_mib=131072,
            memory_bus_width=5120,
            power=PowerFigures(70, 200, 700, 700),
            clocks=ClockFigures(345, 1980, 2619, 2619, 1545),
            temperature=TemperatureFigures(shutdown=92, slowdown=89, gpu_max=87, memory_max=95),
            idle_pstate=0,
            busy_pstate=0,
            pcie_generation=5,
            idle_pcie_generation=5,
            remapper_banks=2560,
            nvlink=NvLinkFigures(links=18, version=6, mbps=26562),
            gpm=True,
            mig_profiles=H100_80GB_PROFILES,
        ),
        Card(
            model="a100-40gb",
            name="NVIDIA A100-SXM4-40GB",
            brand=14,
            brand_name="NVIDIA",
            architecture=7,
            architecture_name="Ampere",
            compute_capability=(8, 0),
            cores=6912,
            multiprocessors=108,
            pci_device_id=0x20B010DE,
            pci_subsystem_id=0x134F10DE,
            pci_class=0x0302,
            part_number="692-2G506-0200-003",
            vbios="92.00.45.00.03",
            inforom_image="G506.0200.00.04",
            memory_mib=40960,
            reserved_mib=569,
            bar1_mib=65536,
            memory_bus_width=5120,
            power=PowerFigures(52, 100, 400, 400),
            clocks=ClockFigures(210, 1410, 1215, 1215, 1290),
            temperature=TemperatureFigures(shutdown=92, slowdown=89, gpu_max=85, memory_max=95),
            idle_pstate=0,
            busy_pstate=0,
            pcie_generation=4,
            idle_pcie_generation=4,
            remapper_banks=640,
            nvlink=NvLinkFigures(links=12, version=5, mbps=25000),
            mig_profiles=A100_40GB_PROFILES,
        ),
        Card(
            model="l4",
            name="NVIDIA L4",
            brand=14,
            brand_name="NVIDIA",
            architecture=8,
            architecture_name="Ada Lovelace",
            compute_capability=(8, 9),
            cores=7424,
            multiprocessors=58,
            pci_device_id=0x27B810DE,
            pci_subsystem_id=0x16CA10DE,
            pci_class=0x0302,
            part_number="900-2G193-0000-001",
            vbios="95.04.29.00.06",
            inforom_image="G193.0200.00.01",
            memory_mib=23034,
            reserved_mib=446,
            bar1_mib=32768,
            memory_bus_width=192,
            power=PowerFigures(12, 40, 72, 72),
            clocks=ClockFigures(210, 2040, 405, 6251, 1770),
            temperature=TemperatureFigures(shutdown=96, slowdown=93, gpu_max=88, memory_max=None),
            idle_pstate=8,
            busy_pstate=0,
            pcie_generation=4,
            idle_pcie_generation=1,
            remapper_banks=96,
        ),
        Card(
            model="rtx-4090",
            name="NVIDIA GeForce RTX 4090",
            brand=5,
            brand_name="GeForce",
            architecture=8,
            architecture_name="Ada Lovelace",
            compute_capability=(8, 9),
            cores=16384,
            multiprocessors=128,
            pci_device_id=0x268410DE,
            pci_subsystem_id=0x889D1043,
            pci_class=0x0300,
            part_number=None,
            vbios="95.02.3C.00.8B",
            inforom_image="G002.0000.00.03",
            memory_mib=24564,
            reserved_mib=438,
            bar1_mib=32768,
            memory_bus_width=384,
            power=PowerFigures(22, 150, 450, 600),
            clocks=ClockFigures(210, 3120, 405, 10501, 2415),
            temperature=TemperatureFigures(shutdown=100, slowdown=97, gpu_max=90, memory_max=None),
            idle_pstate=8,
            busy_pstate=2,
            pcie_generation=4,
            idle_pcie_generation=1,
            ecc=False,
            row_remapping=False,
            serial=False,
            fans=2,
            display=True,
        ),
        Card(
            model="t4",
            name="Tesla T4",
            brand=2,
            brand_name="Tesla",
            architecture=6,
            architecture_name="Turing",
            compute_capability=(7, 5),
            cores=2560,
            multiprocessors=40,
            pci_device_id=0x1EB810DE,
            pci_subsystem_id=0x12A210DE,
            pci_class=0x0302,
            part_number="900-2G183-0000-001",
            vbios="90.04.96.00.02",
            inforom_image="G183.0200.00.02",
            memory_mib=15360,
            reserved_mib=388,
            bar1_mib=256,
            memory_bus_width=256,
            power=PowerFigures(10, 60, 70, 70),
            clocks=ClockFigures(300, 1590, 405, 5001, 1470),
            temperature=TemperatureFigures(shutdown=96, slowdown=93, gpu_max=85, memory_max=None),
            idle_pstate=8,
            busy_pstate=0,
            pcie_generation=3,
            idle_pcie_generation=1,
            row_remapping=False,
        ),
    )
}


_SPARE_MIB = 64  # for the driver's own contexts


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaDeviceSpec:
    card: Card
    power_limit_watts: float
    ambient_celsius: float = 30.0
    links_down: tuple[int, ...] = ()
    mig: tuple[MigDevice, ...] | None = None  # None: MIG is off


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaSpec(VendorSpec):
    driver_version: str = "590.48.01"
    cuda_version: str = "13.1"
    call_cost_microseconds: int = 0  # CPU time of every library call
    pcie_window_milliseconds: int = 20  # how long the driver measures PCIe traffic while the caller waits
    process_utilization: bool = True  # False: only nvmlDeviceGetProcessesUtilizationInfo is supported
    tool: ToolCost = FREE
    devices: tuple[NvidiaDeviceSpec, ...] = ()

    @property
    def driver_major(self) -> int:
        return int(self.driver_version.split(".", 1)[0])

    @property
    def device_count(self) -> int:
        return len(self.devices)

    def without_costs(self) -> "NvidiaSpec":
        spec = VendorSpec.without_costs(self)
        return replace(spec, call_cost_microseconds=0, pcie_window_milliseconds=0)

    def instances(self, device: int) -> int | None:
        mig = self.devices[device].mig
        return None if mig is None else len(mig)

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:
        """The compute instances of a GPU instance share its memory."""
        spec = self.devices[device]
        if spec.mig is None or instance is None:
            room = spec.card.memory_mib - spec.card.reserved_mib - _SPARE_MIB
            return MemoryPool((device, None), room << 20)
        part = spec.mig[instance]
        return MemoryPool((device, part.gpu_instance_id), (part.profile.memory_mib - _SPARE_MIB) << 20)


_VERSION = Text("a version such as '590.48.01'", r"\d+(\.\d+){1,2}")


def read_section(section: Section) -> NvidiaSpec:
    default = NvidiaSpec()
    return NvidiaSpec(
        driver_version=section.take("driver_version", _VERSION, default.driver_version),
        cuda_version=section.take("cuda_version", _VERSION, default.cuda_version),
        call_cost_microseconds=section.take("call_cost_us", WholeNumber(0, 1_000_000), 0),
        pcie_window_milliseconds=section.take(
            "pcie_window_ms", WholeNumber(0, 10_000), default.pcie_window_milliseconds
        ),
        process_utilization=section.take("process_utilization", BOOLEAN, default=True),
        tool=read_tool_cost(section),
        devices=read_devices(section, _device),
    )


def _device(section: Section) -> NvidiaDeviceSpec:
    card = CARDS[section.require("model", Choice(*CARDS))]
    memory = WholeNumber(card.reserved_mib + 1024, 1 << 20)
    card = replace(
        card,
        name=section.take("name", LINE, card.name),
        memory_mib=section.take("memory_mib", memory, card.memory_mib),
    )
    limits = Decimal(card.power.min_watts, card.power.max_watts)
    links = card.nvlink.links if card.nvlink else 0
    if not links and section.members("links_down"):
        raise section.error("links_down", f"{card.model} has no links")
    return NvidiaDeviceSpec(
        card=card,
        power_limit_watts=section.take("power_limit_watts", limits, card.power.default_watts),
        ambient_celsius=section.take("ambient_celsius", Decimal(0, 60), 30.0),
        links_down=section.take_each("links_down", WholeNumber(0, links - 1, "a link")),
        mig=_mig(section, card.model),
    )


def _mig(section: Section, model: str) -> tuple[MigDevice, ...] | None:
    members = section.members("mig")
    if not members:
        return None
    layout: list[tuple[str, tuple[str, ...]]] = []
    for i, member in enumerate(members):
        document = {"profile": member} if isinstance(member, str) else member
        entry = type(section)(document, section.path(f"mig[{i}]"), file=section.file)
        layout.append((entry.require("profile", TEXT), entry.take_each("compute", TEXT)))
        entry.finish()
    return mig_devices(CARDS[model].mig_profiles, layout, section.path("mig"))
