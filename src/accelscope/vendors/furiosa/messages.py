"""What furiosa-smi and furiosactl say instead of a table or a document.

Told by how a line begins or by words that no row has. Each has a reason that can be counted and that names a
different thing to do.
"""

import re

from accelscope.parsing.parsed import ParseError
from accelscope.vendors.common.values import strange_output

_LINES = 200  # a message stands at the beginning
_LINE_LIMIT = 500

_REASONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"error while loading shared libraries|cannot open shared object", "library_missing"),
        (r"(?:furiosa-smi|furiosactl)\b.{0,200}(?:not found|no such file)", "tool_missing"),
        (r"executable file not found", "tool_missing"),
        (
            r"unexpected argument|wasn't expected|unrecognized (?:sub)?command|invalid (?:sub)?command"
            r"|unrecognized option|invalid value .{0,100} for|^usage:\s*\S",
            "unknown_option",
        ),
        (r"permission denied|operation not permitted|must be root|requires? root", "no_permission"),
        (r"incompatible driver|driver version mismatch|version mismatch", "version_mismatch"),
        (
            r"(?:driver|module).{0,60}not (?:loaded|installed|found)|no (?:such )?driver",
            "driver_not_loaded",
        ),
        (r"no (?:such )?(?:furiosa )?(?:devices?|npus?)\b|(?:device|npu)s? not found", "no_devices"),
        (r"device (?:is )?busy|resource busy", "device_busy"),
        (r"timed out|\btimeout\b", "timeout"),
        (r"^(?:error|failed|fatal|panicked|thread '.{0,100}' panicked)\b", "driver_error"),
        (r"\b(?:io|internal|unknown|context|uninitialized|unexpected value) error\b", "driver_error"),
    )
)


def reason_of(line: str) -> str | None:
    """The reason that a line is a message for, or None if it is none."""
    bare = line.strip("\ufeff \t\r\n")[:_LINE_LIMIT]
    if not bare or bare[0] in "|+":
        return None
    return next((reason for pattern, reason in _REASONS if pattern.search(bare)), None)


def error_of(text: str) -> ParseError | None:
    """The message in an output, if there is one; the more special of several lines."""
    found: ParseError | None = None
    for line in text[: _LINES * _LINE_LIMIT].split("\n")[:_LINES]:
        reason = reason_of(line)
        if reason is not None and (found is None or found.reason == "driver_error" != reason):
            found = ParseError(reason, line.strip()[:_LINE_LIMIT])
    return found


def no_reading(text: str, tool: str) -> ParseError:
    """Why an output without a table or a document is not a reading."""
    return error_of(text) or strange_output(text, tool)
