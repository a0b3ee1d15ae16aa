"""Who a simulated chip is: everything about it that does not move."""

from dataclasses import dataclass
from functools import cached_property

from accelscope.simulate import identity, pci
from accelscope.simulate.vendor import Site
from accelscope.vendors.ascend.simulated.models import ChipModel
from accelscope.vendors.ascend.simulated.spec import AscendSpec, ChipSpec

_DIE_GROUPS = 5


@dataclass(frozen=True)
class Chip:
    """`slot` is its place in the description, and its number in /dev: these stay when another vanishes."""

    seed: int
    slot: int
    count: int  # chips of the node
    board: int  # NPU id
    number: int  # among the chips of the NPU
    board_chips: int
    address: str  # as the kernel writes it
    reserved_mib: int
    spec: ChipSpec

    @property
    def model(self) -> ChipModel:
        return self.spec.model

    @cached_property
    def die(self) -> str:
        digits = identity.hex_id(self.seed, "ascend", "die", self.slot).upper()
        return " ".join(digits[8 * group : 8 * group + 8] for group in range(_DIE_GROUPS))

    @cached_property
    def serial(self) -> str:
        """Of the board."""
        number = identity.whole(10**9, 10**10 - 1, self.seed, "ascend", "serial", self.board)
        return f"033ABC{number}"

    @property
    def bus_id(self) -> str:
        return self.address.upper() if self.model.on_pci else "NA"

    @property
    def numa_node(self) -> int:
        return pci.numa_node(self.slot, self.count)

    @property
    def leads_board(self) -> bool:
        return self.number == 0


def chips_of(spec: AscendSpec, site: Site) -> tuple[Chip, ...]:
    count = len(spec.devices)
    chips = []
    for place, slots in enumerate(spec.boards):
        for number, slot in enumerate(slots):
            chips.append(
                Chip(
                    seed=site.seed,
                    slot=slot,
                    count=count,
                    board=spec.npu_ids[place] if spec.npu_ids else place,
                    number=number,
                    board_chips=len(slots),
                    address=site.pci_address(slot, count),
                    reserved_mib=spec.reserved_mib(slot),
                    spec=spec.devices[slot],
                )
            )
    return tuple(chips)
