"""Furiosa's errors: the counters of the driver's file `atr_error`. Furiosa publishes only their names. They
are those of a PCIe controller's address translation that Linux also drives (drivers/pci/controller/plda),
which says what posts, fetches and discards are.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from accelscope.vendors.common.error_codes import ErrorCode, Handling

_NAMES = "https://github.com/furiosa-ai/device-api"

_ERROR = Handling(
    "warning",
    None,
    "Restart the application; if the count grows again, report it to Furiosa with the kernel log",
)
_DOORBELL = Handling("info", None, "None: it counts completed doorbells, which are not errors")

_CODES: Mapping[str, tuple[str, Handling]] = MappingProxyType(
    {
        "axi_post_error": ("failed write on the card's internal bus", _ERROR),
        "axi_fetch_error": ("failed read on the card's internal bus", _ERROR),
        "axi_discard_error": ("discarded transfer on the card's internal bus", _ERROR),
        "axi_doorbell_done": ("doorbell on the card's internal bus", _DOORBELL),
        "pcie_post_error": ("failed write over PCIe", _ERROR),
        "pcie_fetch_error": ("failed read over PCIe", _ERROR),
        "pcie_discard_error": ("discarded transfer over PCIe", _ERROR),
        "pcie_doorbell_done": ("doorbell over PCIe", _DOORBELL),
        "device_error": ("error of the card; no meaning is published", _ERROR),
    }
)


def error_code(code: str) -> ErrorCode | None:
    if code in _CODES:
        meaning, handling = _CODES[code]
        return handling.of(code, meaning, _NAMES)
    # Another line of the file.
    return _ERROR.of(code, "not in the catalogue", _NAMES) if code.endswith("_error") else None


def documented() -> Iterator[ErrorCode]:
    for code, (meaning, handling) in _CODES.items():
        yield handling.of(code, meaning, _NAMES)
