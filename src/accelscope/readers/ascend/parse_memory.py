"""`npu-smi info -t memory -i N`: clock and temperature of a chip's memory."""

from accelscope.model import Clock, Sensor
from accelscope.parsing.parsed import Parsed
from accelscope.readers.ascend import cells
from accelscope.readers.ascend.chip_values import parsed_chips
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.key_values import Block, first_of

TOOL = "npu-smi info -t memory"


def parse(text: str) -> Parsed:
    return parsed_chips(text, TOOL, (), _take_memory)


def _take_memory(draft: Draft, block: Block) -> None:
    """Chips with HBM print a clock of 0 for the DDR memory that they lack."""
    speed = first_of(block.values, "hbm clock speed(mhz)", "ddr clock speed(mhz)", "clock speed(mhz)")
    hertz = cells.hertz(speed or "")
    if hertz:
        draft.values["clocks"] = (Clock("memory", hertz=hertz),)
    celsius = cells.celsius(block.values.get("hbm temperature(c)", ""))
    if celsius is not None:
        draft.sensors.append(Sensor("hbm", celsius))
