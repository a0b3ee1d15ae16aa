"""`npu-smi info -t common -i N`: use, clock, temperature and power of the chips of a board."""

from dataclasses import replace

from accelscope.model import Absence, AbsenceReason, Clock, Device
from accelscope.parsing.parsed import Parsed
from accelscope.readers.ascend import cells
from accelscope.readers.ascend.chip_values import Field, parsed_chips
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.key_values import Block, blocks_of

TOOL = "npu-smi info -t common"

_POWER = "npu real-time power(w)"
_FIELDS: tuple[Field, ...] = (
    ("utilization_ratio", cells.ratio, ("aicore usage rate(%)",)),
    # Where the chip has HBM, `memory` is the DDR memory of its own CPUs.
    ("memory_used_ratio", cells.fill, ("hbm usage rate(%)", "memory usage rate(%)")),
    ("temperature_celsius", cells.celsius, ("temperature(c)",)),
)


def parse(text: str) -> Parsed:
    parsed = parsed_chips(text, TOOL, _FIELDS, _take_more)
    measured: set[int | None] = set()
    devices: list[Device] = []
    for device in parsed.devices:
        if device.power_watts is not None and device.board_id in measured:
            shared = Absence("power_watts", AbsenceReason.SHARED)  # it is the NPU's, printed at each chip
            devices.append(replace(device, power_watts=None, absent=(*device.absent, shared)))
            continue
        if device.power_watts is not None:
            measured.add(device.board_id)
        devices.append(device)
    return replace(parsed, devices=tuple(devices))


def board_power_watts(text: str) -> float | None:
    """What the board's controller measures. On cards with 310P chips nobody else does, and it is the power of
    the whole card."""
    for block in blocks_of(text):
        if block.of_controller:
            power = cells.watts(block.values.get(_POWER, ""))
            if power:
                return power
    return None


def _take_more(draft: Draft, block: Block) -> None:
    draft.take_power(block.values.get(_POWER), _POWER)
    now = cells.hertz(block.values.get("aicore curfreq(mhz)", ""))
    rated = cells.hertz(block.values.get("aicore freq(mhz)", ""))
    if now is not None or rated is not None:
        draft.values["clocks"] = (Clock("aicore", hertz=now, max_hertz=rated),)
