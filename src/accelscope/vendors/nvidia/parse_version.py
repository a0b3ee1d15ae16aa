"""`nvidia-smi --version`: the versions of the tool, of NVML, of the driver and of CUDA."""

import re

from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.nvidia import cells, messages

VERSION = "nvidia-smi --version"

_LINE = re.compile(r"\s*([A-Za-z][A-Za-z \-]{1,40}?)\s+version\s*:\s*(\S.{0,200}?)\s*", re.IGNORECASE)
_VERSION = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){1,4}", re.ASCII)
# Of two lines for one version the later driver's goes first: 610 prints `DRIVER version : Deprecated, see …`.
_NAMES = {
    "nvidia-smi": "nvidia_smi",
    "nvml": "nvml",
    "kmd": "driver",
    "driver": "driver",
    "cuda umd": "cuda",
    "cuda": "cuda",
}


def parse_version(text: str) -> Parsed:
    found: dict[str, str] = {}
    rejected = Rejections()
    others = 0
    for line in text.lstrip("\ufeff").split("\n"):
        match = _LINE.fullmatch(line[:300])
        name = match[1].casefold() if match else None
        if match is None or name not in _NAMES:
            if line.strip():
                others += 1
                rejected.add(line, "not_a_version")
        elif _VERSION.fullmatch(match[2]):
            found[name] = match[2]
        elif cells.absence(match[2]) is None:
            rejected.add(line, "unreadable")
    if not found or others > len(found):  # a longer output that names some versions, as `-q` does
        return Parsed(error=messages.no_reading(text, VERSION))
    versions = {place: found[name] for name, place in reversed(_NAMES.items()) if name in found}
    return Parsed(versions=tuple(sorted(versions.items())), rejected=rejected.listed())
