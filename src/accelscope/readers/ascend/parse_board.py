"""`npu-smi info -t board -i N [-c N]`: who a board is, or with `-c` one chip of it."""

from accelscope.parsing.parsed import Parsed
from accelscope.readers.ascend import cells
from accelscope.readers.ascend.chip_values import Field, parsed_chips
from accelscope.readers.ascend.identity import die_id

TOOL = "npu-smi info -t board"

_FIELDS: tuple[Field, ...] = (
    ("uuid", die_id, ("vdie id", "ddie id", "die id")),
    ("serial", cells.identifier, ("serial number",)),
    ("pci_address", cells.address, ("pcie bus info",)),
    ("model", cells.words, ("chip name", "product name")),
    ("pci_device_id", cells.pci_device_id, ("pci device id",)),
    ("chip_count", cells.count, ("chip count",)),
    ("driver_version", cells.words, ("software version",)),
    ("firmware_version", cells.words, ("firmware version",)),
)


def parse(text: str) -> Parsed:
    return parsed_chips(text, TOOL, _FIELDS)
