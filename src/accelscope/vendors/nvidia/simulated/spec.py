"""The NVIDIA section of a node's description, once it has been read and found good."""

from dataclasses import dataclass, replace

from accelscope.simulate.spec import FREE, MemoryPool, ToolCost, VendorSpec
from accelscope.vendors.nvidia.simulated.cards import Card
from accelscope.vendors.nvidia.simulated.mig import MigDevice

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
    process_utilization: bool = True  # False: only nvmlDeviceGetProcessesUtilizationInfo answers
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
