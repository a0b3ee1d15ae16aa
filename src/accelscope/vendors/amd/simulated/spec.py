"""The AMD section of a node's description, once it has been read and found good."""

from dataclasses import dataclass

from accelscope.simulate.spec import FREE, MemoryPool, ToolCost, VendorSpec
from accelscope.vendors.amd.simulated.cards import Card

_SPARE_BYTES = 512 << 20  # for the driver itself


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdDeviceSpec:
    """One GPU as the driver counts them: of a module with two dies, one of them."""

    card: Card
    power_limit_watts: float  # of the module
    ambient_celsius: float = 28.0
    suspended: bool = False  # asleep to save power
    compute_partition: str | None = None  # SPX, DPX, QPX, CPX; None: it cannot be cut
    memory_partition: str | None = None  # NPS1, NPS4

    @property
    def parts(self) -> int:
        return {"DPX": 2, "QPX": 4, "CPX": self.card.xccs}.get(self.compute_partition or "", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdSpec(VendorSpec):
    rocm_version: str = "7.0.2"
    driver_version: str | None = "6.14.14"  # None: the driver that comes with the kernel
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
    def device_count(self) -> int:
        return len(self.devices)

    def instances(self, device: int) -> int | None:
        parts = self.devices[device].parts
        return parts if parts > 1 else None

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:
        spec = self.devices[device]
        return MemoryPool((device, instance), (spec.card.vram_bytes - _SPARE_BYTES) // spec.parts)
