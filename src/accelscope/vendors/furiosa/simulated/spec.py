"""The Furiosa section of a node's description, once it has been read and found good."""

from dataclasses import dataclass
from enum import StrEnum

from accelscope.simulate.spec import FREE, MemoryPool, ToolCost, VendorSpec
from accelscope.vendors.furiosa.simulated.models import CardModel, Family


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
