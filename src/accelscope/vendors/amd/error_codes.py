"""AMD's error codes: RAS counters of the kernel driver, a hardware block and a kind of error each, and those
of the PCIe link in `amd-smi metric`.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from accelscope.vendors.common.error_codes import ErrorCode, Handling

_RAS = "https://docs.kernel.org/gpu/amdgpu/ras.html"
_PCIE = (
    "https://rocm.docs.amd.com/projects/amdsmi/en/latest/doxygen/docBin/html/"
    "structamdsmi__pcie__info__t_1_1pcie__metric__.html"
)

_BLOCKS: Mapping[str, str] = MappingProxyType(
    {
        "umc": "memory",
        "sdma": "DMA engine",
        "gfx": "compute and graphics engine",
        "mmhub": "memory hub",
        "athub": "address translation hub",
        "pcie_bif": "PCIe interface",
        "hdp": "host data path",
        "xgmi_wafl": "link to other GPUs (XGMI)",
        "df": "data fabric",
        "smn": "system management network",
        "sem": "semaphore block",
        "mp0": "security processor",
        "mp1": "power management processor",
        "fuse": "fuses",
        "mca": "machine check block",
        "vcn": "video engine",
        "jpeg": "JPEG engine",
        "ih": "interrupt handler",
        "mpio": "I/O processor",
    }
)
_KINDS: Mapping[str, tuple[str, Handling]] = MappingProxyType(
    {
        "ue": (
            "uncorrectable error",
            Handling(
                "critical",
                "hardware",
                "Drain the GPU; if the driver did not reset it, run `amd-smi reset --gpureset`",
                "reset",
            ),
        ),
        "de": (
            "deferred error, in data not yet used",
            Handling("warning", "hardware", "Reset the GPU at the next maintenance"),
        ),
        "ce": (
            "corrected error",
            Handling("info", "hardware", "None needed; watch the GPU for uncorrectable errors"),
        ),
    }
)
_LINK = Handling(
    "info", "hardware", "None needed; if the count grows steadily, reseat the card and check riser and slot"
)
_LINK_ERRORS: Mapping[str, str] = MappingProxyType(
    {
        "recovery": "PCIe link went into recovery",
        "replay_rollover": "PCIe replay counter overflowed",
        "nak_sent": "PCIe packet rejected by the GPU",
        "nak_received": "PCIe packet rejected by the other end",
    }
)


def error_code(code: str) -> ErrorCode | None:
    if code in _LINK_ERRORS:
        return _LINK.of(code, _LINK_ERRORS[code], _PCIE)
    block, _, kind = code.partition(".")
    if kind not in _KINDS:
        return None
    # Drivers add blocks: an unknown one has errors of the same kinds.
    meaning, handling = _KINDS[kind]
    return handling.of(code, f"{_BLOCKS.get(block, f'block {block}')}: {meaning}", _RAS)


def documented() -> Iterator[ErrorCode]:
    for kind, (meaning, handling) in _KINDS.items():
        for block, name in _BLOCKS.items():
            yield handling.of(f"{block}.{kind}", f"{name}: {meaning}", _RAS)
    for code, meaning in _LINK_ERRORS.items():
        yield _LINK.of(code, meaning, _PCIE)
