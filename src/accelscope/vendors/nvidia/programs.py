"""Who a process is, from what nvidia-smi says of it: its program's name, and what it does with the device.

The tool prints the title of the process, which is a path, and which browsers, editors and workers overwrite
with their whole command line. Arguments hold secrets, so a name that can not be told from its arguments is
rather cut too short.
"""

import re

from accelscope.model import ProcessType
from accelscope.readers.nvidia.cells import absence

_WINDOWS_PROGRAM = re.compile(r"\.exe(?=[\s\"']|$)", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
_OPTIONS = re.compile(r"\s+[-/]")
_ENVIRONMENT = re.compile(r"(?:[A-Za-z_]\w{0,99}=\S*(?:\s+|$))+")  # `TOKEN=secret python3`


def program_name(title: str) -> str | None:
    """Base name of the program. On Windows names hold blanks and end in `.exe`; elsewhere a name ends at the
    first blank. pmon cuts the title after 15 or 16 characters: what that leaves of `.exe` may be the end of
    an argument, so it makes no such name."""
    text = title.strip().strip("\"'")[:4096]
    if absence(text) is not None:
        return None
    if before := _ENVIRONMENT.match(text):
        text = text[before.end() :]
        if not text:
            return None
    if "/" not in text or _DRIVE.match(text):
        end = _WINDOWS_PROGRAM.search(text)
        if end is not None and ("\\" in text or _OPTIONS.search(text, 0, end.start()) is None):
            return _base(text[: end.end()])
        if "\\" in text:
            return _base(_without_options(text))
    return _base(text.split(None, 1)[0])


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


def _without_options(text: str) -> str:
    start = _OPTIONS.search(text)
    return text[: start.start()] if start else text


def _base(path: str) -> str | None:
    return re.split(r"[/\\]", path)[-1].strip() or None
