"""Errors of PCIe links (AER), under the names that Linux gives them in the files `aer_dev_correctable`,
`aer_dev_nonfatal` and `aer_dev_fatal` of a device. They are the same for all vendors.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from accelscope.vendors.common.error_codes import ErrorCode, Handling

_SOURCE = "https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats"

_CORRECTED = Handling(
    "info", "hardware", "None needed; if the count grows steadily, reseat the card and check riser and slot"
)
_NON_FATAL = Handling(
    "warning", None, "Restart the application; check the kernel log for the device that sent the request"
)
# Fatal unless firmware or driver set another severity: the link is no longer reliable.
_FATAL = Handling(
    "critical", "hardware", "Drain the node and reboot it; reseat the card if the error returns", "reset"
)

_ERRORS: Mapping[str, tuple[str, Handling]] = MappingProxyType(
    {
        "RxErr": ("signal error at the receiver", _CORRECTED),
        "BadTLP": ("damaged packet, sent again", _CORRECTED),
        "BadDLLP": ("damaged link packet", _CORRECTED),
        "Rollover": ("packet sent again several times", _CORRECTED),
        "Timeout": ("packet sent again after a timeout", _CORRECTED),
        "NonFatalErr": ("non-fatal error, for information", _CORRECTED),
        "CorrIntErr": ("corrected internal error", _CORRECTED),
        "HeaderOF": ("more errors than the device can log", _CORRECTED),
        "DLP": ("protocol error of the data link", _FATAL),
        "SDES": ("link went down unexpectedly", _FATAL),
        "TLP": ("packet marked as damaged (poisoned)", _NON_FATAL),
        "FCP": ("flow control error", _FATAL),
        "CmpltTO": ("no answer in time", _NON_FATAL),
        "CmpltAbrt": ("answer aborted", _NON_FATAL),
        "UnxCmplt": ("unexpected answer", _NON_FATAL),
        "RxOF": ("receive buffer overflow", _FATAL),
        "MalfTLP": ("malformed packet", _FATAL),
        "ECRC": ("checksum error from end to end", _NON_FATAL),
        "UnsupReq": ("unsupported request", _NON_FATAL),
        "ACSViol": ("access control violation", _NON_FATAL),
        "UncorrIntErr": ("uncorrectable internal error", _FATAL),
        "BlockedTLP": ("multicast packet blocked", _NON_FATAL),
        "AtomicOpBlocked": ("atomic operation blocked on the way", _NON_FATAL),
        "TLPBlockedErr": ("packet prefix blocked", _NON_FATAL),
        "PoisonTLPBlocked": ("damaged packet blocked on the way", _NON_FATAL),
    }
)


def error_code(code: str) -> ErrorCode | None:
    if code not in _ERRORS:
        return None
    meaning, handling = _ERRORS[code]
    return handling.of(code, meaning, _SOURCE)


def documented() -> Iterator[ErrorCode]:
    for code, (meaning, handling) in _ERRORS.items():
        yield handling.of(code, meaning, _SOURCE)
