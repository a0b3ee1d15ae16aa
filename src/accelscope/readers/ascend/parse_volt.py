"""`npu-smi info -t volt -i N`: the voltage of a chip."""

from accelscope.model import Rail
from accelscope.parsing.parsed import Parsed
from accelscope.readers.ascend import cells
from accelscope.readers.ascend.chip_values import parsed_chips
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.key_values import Block

TOOL = "npu-smi info -t volt"


def parse(text: str) -> Parsed:
    return parsed_chips(text, TOOL, (), _take_voltage)


def _take_voltage(draft: Draft, block: Block) -> None:
    volts = cells.volts(block.values.get("voltage(v)", ""))
    if volts:
        draft.values["rails"] = (Rail("npu", volts=volts),)
