"""What npu-smi says instead of, or between, its values.

Each message has a reason that can be counted and that names a different thing to do. Lines that are merely
noise have none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from accelscope.parsing.parsed import ParseError
from accelscope.vendors.common.values import first_line, strange_output

_LINE_LIMIT = 500  # no message of the tool is longer

# Errors of DCMI, the library below the tool, by its codes.
_CODES = {
    -8002: "no_permission",
    -8005: "driver_error",  # "internal error": no access to the device files, or an upgraded driver, or else
    -8006: "driver_timeout",
    -8008: "no_devices",
    -8012: "not_ready",
    -8013: "not_supported",
    -8017: "upgrading",
    -8020: "driver_in_use",
    -8255: "not_supported",
}
_CODE = re.compile(r"\bret(?: is |=)(-?[0-9]{1,6})", re.ASCII)

# By beginning, the more special first. None: the reason is in the code that follows.
_PATTERNS: tuple[tuple[re.Pattern[str], str | None], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"dcmi model initialized failed, because the device is used", "driver_in_use"),
        (r"dcmi mod(?:ule|el) initiali[sz]ed? failed", None),
        (r"npu get board type failed", "driver_error"),
        (r"failed to execute npu-smi", None),
        (r"failed to query", "query_failed"),
        (r"failed to get", "query_failed"),
        (r"th(?:is|e) (?:device|chip|npu|card|command) (?:does not|doesn't|is not) support", "not_supported"),
        (r"th(?:is|e) command cannot be executed on a vm or container", "not_supported"),
        (r"there is no npu (?:card|chip)", "no_devices"),
        (r"command or option is not found", "unknown_option"),
        (r"error parameter of", "unknown_option"),
        (r"the parameter is invalid", "unknown_option"),
        (r".{0,40}(?:not permitted|permission denied)", "no_permission"),
        (r".{0,80}must (?:be|have) .{0,40}root", "no_permission"),
        (r".{0,200}error while loading shared libraries", "library_missing"),
        (r".{0,80}npu-smi.{0,20}(?:command not found|: not found|no such file)", "tool_missing"),
    )
)
# A line that has none of these is no message: there may be a million lines.
_SIGNS = re.compile(r"fail|support|no npu|not f|param|permi|root|execut|librar|no such", re.IGNORECASE)
_NOISE = re.compile(r"drvmnggetconsoleloglevel|get pid name failed", re.IGNORECASE)
_INCOMPLETE_DRIVER = re.compile(
    r"\[warning\]\s*the driver package may not be completely installed", re.IGNORECASE
)
# Another program of this name monitors the NPUs in AMD's Ryzen processors.
_OTHER_TOOL = re.compile(r"xdna|ryzen|\bamd\b", re.IGNORECASE)
_OTHER_TOOL_SAYS_SO_WITHIN = 4000


@dataclass(frozen=True, slots=True)
class Message:
    reason: str
    text: str


def message_of(line: str) -> Message | None:
    """The message that a line is, or None."""
    if _SIGNS.search(line, 0, _LINE_LIMIT) is None:
        return None
    text = line.strip("\ufeff \t\r\n")[:_LINE_LIMIT]
    if is_noise(text):
        return None
    for pattern, reason in _PATTERNS:
        if pattern.match(text):
            return Message(reason or _reason_of_code(text), text)
    return None


def is_noise(line: str) -> bool:
    """Lines that npu-smi or its library print beside good values."""
    return _NOISE.match(line.strip("\ufeff \t\r")) is not None


def messages_in(text: str) -> Iterator[Message]:
    for line in text.split("\n"):
        message = message_of(line)
        if message is not None:
            yield message


def driver_is_incomplete(text: str) -> bool:
    """The tool says so after its table, when the driver's installation did not end well."""
    return _INCOMPLETE_DRIVER.search(text[-4000:]) is not None


def no_reading(text: str, tool: str) -> ParseError:
    """Why an output without a single value is not a reading."""
    message = next(messages_in(text), None)
    if message is not None:
        return ParseError(message.reason, message.text)
    if _OTHER_TOOL.search(text[:_OTHER_TOOL_SAYS_SO_WITHIN]):
        said = first_line(text)
        return ParseError("other_tool", f"this npu-smi is not Ascend's but one for AMD NPUs: {said}")
    return strange_output(text, tool)


def _reason_of_code(text: str) -> str:
    code = _CODE.search(text)
    return _CODES.get(int(code[1]), "driver_error") if code else "driver_error"
