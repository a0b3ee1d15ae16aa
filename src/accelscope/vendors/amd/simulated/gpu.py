"""Who a simulated GPU is: everything about it that does not move."""

from dataclasses import dataclass
from functools import cached_property

from accelscope.simulate import identity
from accelscope.simulate.pci import numa_node
from accelscope.simulate.vendor import Site
from accelscope.vendors.amd.simulated.cards import Card, Family
from accelscope.vendors.amd.simulated.spec import AmdDeviceSpec, AmdSpec

_FIRST_RENDER_NODE = 128
_PLATFORM_DEVICES = 7  # that the driver makes for a GPU that is cut, whether into two or into eight


@dataclass(frozen=True)
class Part:
    """What the compute driver counts as one GPU: a whole one, or a partition of it."""

    number: int
    node: int  # in its topology
    gpu_id: int
    render_minor: int
    compute_units: int
    vram_bytes: int


@dataclass(frozen=True)
class PlatformDevice:
    """Holds the device files of one partition. The first partition has those of the GPU itself, and where
    there are fewer partitions than these, the last ones belong to nothing."""

    name: str
    card: int
    render_minor: int


@dataclass(frozen=True)
class Gpu:
    """`slot` is its place in the description: unlike the index it stays when another GPU vanishes."""

    seed: int
    slot: int
    count: int  # GPUs of the node
    address: str
    spec: AmdDeviceSpec
    first_node: int  # of the compute driver's topology
    first_minor: int
    first_card: int
    first_platform_device: int
    servers_display: bool  # whether card0 is the display of the server itself

    @property
    def card(self) -> Card:
        return self.spec.card

    @property
    def module(self) -> int:
        """Dies come in the order of their modules."""
        return self.slot // self.card.dies

    @property
    def is_primary_die(self) -> bool:
        return self.slot % self.card.dies == 0

    @property
    def drm_card(self) -> str:
        return f"card{self.first_card}"

    @cached_property
    def unique_id(self) -> int | None:
        if self.card.family is Family.APU:
            return None
        return int.from_bytes(identity.digest(self.seed, "amd", "unique", self.slot)[:8], "big") | 1 << 60

    @cached_property
    def serial(self) -> str | None:
        """The module's, from its label."""
        if self.card.family is not Family.INSTINCT:
            return None
        number = identity.whole(10**5, 10**6 - 1, self.seed, "amd", "serial", self.module)
        return f"69240{number:06}"

    @property
    def numa_node(self) -> int:
        """Boards with one processor have none."""
        return numa_node(self.slot, self.count) if self.card.family is Family.INSTINCT else -1

    @cached_property
    def hive(self) -> str | None:
        return f"{identity.digest(self.seed, 'amd', 'hive').hex()[:16]}" if self.card.linked else None

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        count = self.spec.parts
        return tuple(
            Part(
                number=number,
                node=self.first_node + number,
                gpu_id=identity.whole(1000, 65000, self.seed, "amd", "gpu_id", self.slot, number),
                render_minor=self.first_minor + number,
                compute_units=self.card.compute_units // count,
                vram_bytes=self.card.vram_bytes // count,
            )
            for number in range(count)
        )

    @cached_property
    def platform_devices(self) -> tuple[PlatformDevice, ...]:
        """In the order of partitions, from the second on."""
        return tuple(
            PlatformDevice(
                name=f"amdgpu_xcp_{self.first_platform_device + number}",
                card=self.first_card + 1 + number,
                render_minor=self.first_minor + 1 + number,
            )
            for number in range(_platform_devices(self.spec))
        )

    @property
    def location(self) -> int:
        """Bus, device and function as one number."""
        _, bus, rest = self.address.split(":")
        slot, function = rest.split(".")
        return int(bus, 16) << 8 | int(slot, 16) << 3 | int(function)

    @property
    def domain(self) -> int:
        return int(self.address.split(":")[0], 16)


def gpus_of(spec: AmdSpec, site: Site) -> tuple[Gpu, ...]:
    servers_display = any(device.card.family is Family.INSTINCT for device in spec.devices)
    made: list[Gpu] = []
    node, minor, card, platform_device = 1, _FIRST_RENDER_NODE, int(servers_display), 0
    for slot, device in enumerate(spec.devices):
        made.append(
            Gpu(
                seed=site.seed,
                slot=slot,
                count=len(spec.devices),
                address=site.pci_address(slot, len(spec.devices)),
                spec=device,
                first_node=node,
                first_minor=minor,
                first_card=card,
                first_platform_device=platform_device,
                servers_display=servers_display,
            )
        )
        further = _platform_devices(device)
        node += device.parts
        minor += 1 + further
        card += 1 + further
        platform_device += further
    return tuple(made)


def _platform_devices(spec: AmdDeviceSpec) -> int:
    return _PLATFORM_DEVICES if spec.parts > 1 else 0
