"""Who a process is, from what nvidia-smi says of it: its program's name, and what it does with the device.

The tool prints the title of the process, which is a path, and which browsers, editors and workers overwrite
with their whole command line. Arguments hold secrets, so a name that can not be told from its arguments is
rather cut too short.
"""

from accelscope.model import ProcessType
from accelscope.vendors.common.values import program_in_title
from accelscope.vendors.nvidia.cells import absence


def program_name(title: str) -> str | None:
    return None if absence(title.strip().strip("\"'")[:4096]) is not None else program_in_title(title)


def process_type(letters: str) -> tuple[ProcessType | None, bool | None] | None:
    """`C`, `G`, `C+G`, and `M`, `M+C` for clients of the Multi-Process Service, as type and `mps`.

    None: not such letters. Without an M nothing is said of MPS: older drivers do not print it.
    """
    if absence(letters) is not None:
        return None, None
    parts = {part.strip().upper() for part in letters[:16].split("+")}
    if not parts <= {"C", "G", "M"}:
        return None
    if "G" in parts:
        kind = ProcessType.BOTH if len(parts) > 1 else ProcessType.GRAPHICS
    else:
        kind = ProcessType.COMPUTE  # MPS serves compute clients only
    return kind, True if "M" in parts else None
