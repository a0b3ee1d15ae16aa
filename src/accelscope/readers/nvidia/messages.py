"""What nvidia-smi says instead of, or between, its rows.

The messages are told by how a line begins, so that no row of values can be taken for one. Each has a reason
that can be counted and that names a different thing to do.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from accelscope.model import Device, Health, HealthState, Vendor, device_id, pci_address
from accelscope.readers.parsed import ParseError

_ADDRESS = r"(?P<pci>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])"
_LINE_LIMIT = 500  # characters of a message that are kept; no message of the tool is longer

# By beginning, the more special first. None: the reason is in the words that follow it.
_PATTERNS: tuple[tuple[re.Pattern[str], str | None], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"no devices (?:were )?found", "no_devices"),
        (
            r"nvidia-smi has failed because it couldn't communicate with the nvidia driver",
            "driver_not_loaded",
        ),
        (r"nvidia-smi couldn't find (?:lib)?(?:nvidia-ml|nvml)", "library_missing"),
        (r"nvidia-smi has failed", "driver_error"),
        (r"failed to initialize nvml:(?P<cause>.*)", None),
        (rf"unable to determine the device handle for gpu\s*{_ADDRESS}\s*:(?P<cause>.*)", None),
        (r"unable to determine the device handle for gpu(?P<cause>.*)", None),
        (r'field "(?P<field>[^"]{1,200})" is not a valid field to query', "unknown_field"),
        (r"not supported on the device", "not_supported"),
        (r"failed to process command line", "not_supported"),
        (r"option .{0,100} is not recognized", "unknown_option"),
        (r"invalid combination of input arguments", "unknown_option"),
        (r"insufficient permissions", "no_permission"),
        (r"gpu is lost", "device_lost"),
        (r"gpu requires reset", "reset_required"),
        (r"unknown error", "driver_error"),
    )
)
# Lines that begin otherwise are not tried against the patterns: there may be a million of them.
_BEGINNING = re.compile(
    r"no devices|nvidia-smi|failed|unable|field|not supported|option|invalid|insufficient|gpu|unknown"
    r"|warning",
    re.IGNORECASE,
)
_TOOL_MISSING = re.compile(r"not found|no such file", re.IGNORECASE)  # said by a shell or a runtime
_WARNINGS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(rf"warning: infoROM is corrupted(?: at gpu\s*{_ADDRESS})?", re.IGNORECASE),
        "inforom_corrupted",
    ),
)
_CAUSES = (
    ("version mismatch", "version_mismatch"),
    ("driver not loaded", "driver_not_loaded"),
    ("library not found", "library_missing"),
    ("permission", "no_permission"),
    ("blocked by the operating system", "no_permission"),
    ("requires reset", "reset_required"),
    ("gpu is lost", "device_lost"),
)


@dataclass(frozen=True, slots=True)
class Message:
    reason: str
    text: str
    pci: str | None = None  # address of the device it is about, in the model's spelling
    field: str | None = None  # the field that this driver does not know
    warning: bool = False  # True: the values around it are good


def message_of(line: str) -> Message | None:
    """The message that a line is, or None."""
    text = line.strip()[:_LINE_LIMIT]
    bare = text[7:] if text[:7].casefold() == "error: " else text
    if "nvidia-smi" in bare and _TOOL_MISSING.search(bare):
        return Message("tool_missing", text)
    if _BEGINNING.match(bare) is None:
        return None
    for pattern, reason in _PATTERNS:
        match = pattern.match(bare)
        if match is not None:
            found = match.groupdict()
            pci = pci_address(found["pci"]) if found.get("pci") else None
            return Message(
                reason or _cause(found["cause"], about_device="device handle" in match[0].casefold()),
                text,
                pci=pci,
                field=found.get("field"),
            )
    for pattern, reason in _WARNINGS:
        match = pattern.match(bare)
        if match is not None:
            return Message(reason, text, pci=pci_address(match["pci"] or ""), warning=True)
    return None


def messages_in(text: str) -> Iterator[Message]:
    for line in text.split("\n"):
        message = message_of(line)
        if message is not None:
            yield message


def error_of(text: str) -> ParseError | None:
    """The first message in the output that says why there are no values."""
    for message in messages_in(text):
        if not message.warning:
            return ParseError(message.reason, message.text)
    return None


def unknown_field(text: str) -> str | None:
    """The field that this driver does not know: one such fails the whole query, so drop it and ask again."""
    return next((message.field for message in messages_in(text) if message.field), None)


def no_reading(text: str, tool: str) -> ParseError:
    """Why an output without a single row is not a reading."""
    error = error_of(text)
    if error is not None:
        return error
    first = next((line.strip() for line in text.split("\n") if line.strip("\ufeff \t\r")), "")
    if not first:
        return ParseError("empty", f"{tool} printed nothing")
    return ParseError("unrecognized", f"not the output of {tool}: {first[:200]}")


def unreachable(message: Message) -> Device | None:
    """The device that a message is about: all that is known is where it is and that it cannot be read."""
    if message.pci is None or message.warning:
        return None
    return Device(
        vendor=Vendor.NVIDIA,
        id=device_id(Vendor.NVIDIA, pci=message.pci),
        pci_address=message.pci,
        health=health_of(message),
    )


def health_of(message: Message) -> Health:
    state = {
        "device_lost": HealthState.LOST,
        "reset_required": HealthState.CRITICAL,
        "inforom_corrupted": HealthState.WARNING,
    }.get(message.reason, HealthState.UNKNOWN)
    return Health(state, reason=message.text)


def _cause(words: str, *, about_device: bool) -> str:
    folded = words.casefold()
    for sign, reason in _CAUSES:
        if sign in folded:
            return reason
    # A device whose handle gives "Unknown Error" fell off the bus; the library as a whole giving it is
    # typical of a container that lost its device nodes.
    return "device_lost" if about_device else "driver_error"
