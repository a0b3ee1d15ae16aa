"""The Ascend section of a node's description, once it has been read and found good."""

from dataclasses import dataclass

from accelscope.simulate.spec import FREE, MemoryPool, ToolCost, VendorSpec
from accelscope.vendors.ascend.simulated.models import ChipModel, Layout

_RESERVED_MIB = 3400  # what the driver itself holds of HBM
_RESERVED_DDR_MIB = 1200
_WIDE_FROM = 26  # versions from this on print wider tables, with a further column of processes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipSpec:
    model: ChipModel
    ambient_celsius: float = 28.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AscendSpec(VendorSpec):
    """A device is a chip. Chips of a model that has several on a board fill the boards in their order."""

    driver_version: str = "25.0.1"
    tool_version: str | None = None  # None: that of the driver
    in_container: bool = False  # npu-smi cannot look up the names of processes
    noisy: bool = False  # its library prints lines of its own
    npu_ids: tuple[int, ...] = ()  # of the boards; empty: counted from 0
    tool: ToolCost = FREE
    devices: tuple[ChipSpec, ...] = ()

    @property
    def is_wide(self) -> bool:
        return int(self.driver_version.split(".", 1)[0]) >= _WIDE_FROM

    @property
    def device_count(self) -> int:
        return len(self.devices)

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:  # noqa: ARG002 - never cut
        return MemoryPool(device, (self.devices[device].model.memory_mib - self.reserved_mib(device)) << 20)

    def reserved_mib(self, device: int) -> int:
        layout = self.devices[device].model.layout
        return _RESERVED_DDR_MIB if layout is Layout.DDR else _RESERVED_MIB

    @property
    def boards(self) -> tuple[tuple[int, ...], ...]:
        """The chips of each board, by their places in the description."""
        boards: list[list[int]] = []
        for slot, chip in enumerate(self.devices):
            last = boards[-1] if boards else []
            same_model = bool(last) and self.devices[last[0]].model == chip.model
            if same_model and len(last) < chip.model.chips_per_board:
                last.append(slot)
            else:
                boards.append([slot])
        return tuple(map(tuple, boards))
