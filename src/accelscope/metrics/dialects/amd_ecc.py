"""The sixty ECC families of the `amd` dialect: three severities, and the parts of a GPU."""

from accelscope.metrics.dialects.amd_families import of_device
from accelscope.metrics.dialects.dialect import gauge
from accelscope.metrics.dialects.view import DeviceView
from accelscope.metrics.family import Family

_SEVERITIES = {"correct": "corrected", "uncorrect": "uncorrected", "deferred": "deferred"}
_BLOCKS = (
    "sdma",
    "gfx",
    "mmhub",
    "athub",
    "bif",
    "hdp",
    "xgmi_wafl",
    "df",
    "smn",
    "sem",
    "mp0",
    "mp1",
    "fuse",
    "umc",
    "mca",
    "vcn",
    "jpeg",
    "ih",
    "mpio",
)
_OTHER_NAMES = {"bif": "pcie_bif"}  # what the driver calls a block


def _family(word: str, block: str | None) -> Family:
    severity = _SEVERITIES[word]
    names = {block, _OTHER_NAMES.get(block, block)} if block else {None}

    def value(view: DeviceView) -> int | None:
        fitting = (e for e in of_device(view).ecc if e.severity == severity and not e.lifetime)
        return next((e.count for e in fitting if _block(e.block) in names), None)

    where = f"in {block.upper()}" if block else "of the whole GPU"
    return gauge(f"gpu_ecc_{word}_{block or 'total'}", f"Memory errors {where}: {severity}.", value)


def _block(name: str | None) -> str | None:
    return None if name is None else name.lower()


ECC_FAMILIES: tuple[Family, ...] = tuple(
    _family(word, block) for word in _SEVERITIES for block in (None, *_BLOCKS)
)
