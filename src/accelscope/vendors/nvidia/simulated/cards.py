"""The cards that can be simulated, as data. Figures are those that the real boards report."""

from dataclasses import dataclass

from accelscope.vendors.nvidia.simulated.mig import A100_40GB_PROFILES, H100_80GB_PROFILES, GpuProfile


@dataclass(frozen=True, slots=True)
class PowerFigures:
    idle_watts: float
    min_watts: float
    default_watts: float
    max_watts: float


@dataclass(frozen=True, slots=True)
class ClockFigures:
    """MHz. A card with HBM keeps its memory clock when idle; others fall to a low one."""

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
        """Data-centre cards since Ada tell how far they are from their limits. GeForce cards do not."""
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
