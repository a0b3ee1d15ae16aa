"""The form of a vendor's error codes. Each vendor's `error_codes.py` contains its table. It is imported when
the first error is read: the tables are large, and a healthy node needs none of them.

The module offers `error_code(code)`, which the declaration of the vendor names, and `documented()`, the
rows of docs/error-codes.md. A code without its own row follows the vendor's rule for unknown codes.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Severity = Literal["critical", "warning", "info"]
Origin = Literal["hardware", "driver", "application", "environment"]
Clearing = Literal["reset", "driver_reload", "reboot", "replacement"]


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """What one error code means, and what to do about it."""

    code: str
    """As the vendor writes it: `48`, `umc.ue`, `80E01801`."""
    meaning: str
    """A few words: `uncorrectable memory error`."""
    severity: Severity
    """`critical` and `warning` decide the device's health; `info` does not affect it."""
    origin: Origin | None
    """The usual cause. None: the vendor does not state one."""
    action: str
    """What to do first."""
    until: Clearing | None
    """What ends the error. None: it is over when it has happened; a warning then lasts ten minutes."""
    source: str
    """URL of the public document with these facts."""


class Handling(NamedTuple):  # a dataclass takes 11 KiB more
    """What codes with the same consequence have in common."""

    severity: Severity
    origin: Origin | None
    action: str
    until: Clearing | None = None

    def of(self, code: str, meaning: str, source: str) -> ErrorCode:
        return ErrorCode(code, meaning, self.severity, self.origin, self.action, self.until, source)
