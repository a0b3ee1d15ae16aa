"""Who a simulated GPU is: everything about it that does not move."""

from dataclasses import dataclass
from functools import cached_property

from accelscope.simulate import identity, pci
from accelscope.vendors.nvidia.simulated.cards import Card
from accelscope.vendors.nvidia.simulated.mig import COMPUTE_SLICES, MigDevice
from accelscope.vendors.nvidia.simulated.spec import NvidiaDeviceSpec, NvidiaSpec

_SWITCHES = 4  # NVSwitches of a board whose GPUs all reach each other


@dataclass(frozen=True)
class Gpu:
    """`slot` is its place in the description: unlike the index it stays when another GPU vanishes."""

    seed: int
    slot: int
    count: int  # GPUs of the node
    linked: bool  # whether there is another GPU at the far end of its links
    spec: NvidiaDeviceSpec

    @property
    def card(self) -> Card:
        return self.spec.card

    @cached_property
    def uuid(self) -> str:
        return "GPU-" + identity.uuid(self.seed, "nvidia", "uuid", self.slot)

    @cached_property
    def serial(self) -> str | None:
        number = identity.whole(132 * 10**10, 166 * 10**10, self.seed, "nvidia", "serial", self.slot)
        return str(number) if self.card.serial else None

    @property
    def bus(self) -> int:
        return pci.bus_number(self.slot, self.count)

    @property
    def bus_id(self) -> str:
        """As NVML prints it: eight-digit domain, capitals."""
        return f"00000000:{self.bus:02X}:00.0"

    @property
    def numa_node(self) -> int:
        return pci.numa_node(self.slot, self.count)

    @property
    def partitioned(self) -> bool:
        return self.spec.mig is not None

    @property
    def mig(self) -> tuple[MigDevice, ...]:
        return self.spec.mig or ()

    @property
    def max_mig_devices(self) -> int:
        return COMPUTE_SLICES if self.card.mig_profiles else 0

    @property
    def links(self) -> int:
        return self.card.nvlink.links if self.card.nvlink else 0

    def link_active(self, link: int) -> bool:
        return self.linked and link not in self.spec.links_down

    def link_remote(self, link: int) -> str:
        """Bus id of the NVSwitch at the far end."""
        return f"00000000:{0x05 + link % _SWITCHES:02X}:00.0"

    def mig_uuid(self, part: MigDevice) -> str:
        path = (self.slot, part.gpu_instance_id, part.compute_instance_id)
        return "MIG-" + identity.uuid(self.seed, "nvidia", "mig", *path)


def gpus_of(spec: NvidiaSpec, seed: int) -> tuple[Gpu, ...]:
    devices = spec.devices
    with_links = sum(device.card.nvlink is not None for device in devices)
    return tuple(
        Gpu(
            seed=seed,
            slot=slot,
            count=len(devices),
            linked=device.card.nvlink is not None and with_links > 1,
            spec=device,
        )
        for slot, device in enumerate(devices)
    )
