"""The Furiosa section of a node's description, once it has been read and found good."""

from dataclasses import dataclass
from enum import StrEnum

from accelscope.config.document import Section
from accelscope.config.values import BOOLEAN, LINE, Choice, Decimal, WholeNumber
from accelscope.simulate.spec import FREE, MemoryPool, ToolCost, VendorSpec, read_devices, read_tool_cost

# --- models ------------------------------------------------------------
# The cards that can be simulated, as data.


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


class SmiVersion(StrEnum):
    """furiosa-smi, by what changed: liveness, PERT, and JSON with memory."""

    NONE = "none"
    V2024_1 = "2024.1"
    V2024_2 = "2024.2"
    V2025_2 = "2025.2"
    V2026_1 = "2026.1"


class CtlVersion(StrEnum):
    """furiosactl, by what changed: cores instead of device files, and JSON."""

    NONE = "none"
    V0_5 = "0.5"
    V0_9 = "0.9"
    V0_10 = "0.10"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSpec:
    model: CardModel
    ambient_celsius: float = 27.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    driver: str
    firmware: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FuriosaSpec(VendorSpec):
    furiosa_smi: SmiVersion = SmiVersion.NONE
    furiosactl: CtlVersion = CtlVersion.NONE
    warboy: Versions = Versions(driver="1.9.8, 4c1f0aa", firmware="1.7.8, 386a8ab")
    rngd: Versions = Versions(driver="2026.1.2, 7d20b6e", firmware="2026.1.0, 91fe3c2")
    sysfs: bool = True  # False: as in a container that does not show the driver's classes
    tool: ToolCost = FREE
    devices: tuple[CardSpec, ...] = ()

    def versions(self, family: Family) -> Versions:
        return self.warboy if family is Family.WARBOY else self.rngd

    @property
    def device_count(self) -> int:
        return len(self.devices)

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:  # noqa: ARG002 - never cut
        return MemoryPool(device, self.devices[device].model.memory_bytes)


# --- description ------------------------------------------------------------
# The Furiosa section of a description: from YAML to its spec.


def read_section(section: Section) -> FuriosaSpec:
    devices = read_devices(section, _card)
    families = {card.model.family for card in devices}
    usual = FuriosaSpec()
    return FuriosaSpec(
        furiosa_smi=section.take(
            "furiosa_smi",
            Choice(*SmiVersion),
            SmiVersion.V2026_1 if Family.RNGD in families else SmiVersion.NONE,
        ),
        furiosactl=section.take(
            "furiosactl",
            Choice(*CtlVersion),
            CtlVersion.V0_10 if Family.WARBOY in families else CtlVersion.NONE,
        ),
        warboy=_versions(section, "warboy", usual.warboy),
        rngd=_versions(section, "rngd", usual.rngd),
        sysfs=section.take("sysfs", BOOLEAN, default=True),
        tool=read_tool_cost(section),
        devices=devices,
    )


def read_cores(section: Section, spec: FuriosaSpec, devices: tuple[int, ...]) -> tuple[int, ...]:
    """The cores that a process holds on each of its cards; all of them unless it says."""
    most = min((spec.devices[device].model.cores for device in devices), default=0)
    cores = section.take_each("cores", WholeNumber(0, most - 1, "a core"))
    if cores and cores != tuple(range(cores[0], cores[-1] + 1)):
        raise section.error("cores", f"expected cores one after the other, got {list(cores)}")
    return cores


def _card(section: Section) -> CardSpec:
    model = MODELS[section.require("model", Choice(*MODELS))]
    return CardSpec(model=model, ambient_celsius=section.take("ambient_celsius", Decimal(0, 60), 27.0))


def _versions(section: Section, key: str, usual: Versions) -> Versions:
    entry = section.section(key)
    versions = Versions(
        driver=entry.take("driver", LINE, usual.driver), firmware=entry.take("firmware", LINE, usual.firmware)
    )
    entry.finish()
    return versions
