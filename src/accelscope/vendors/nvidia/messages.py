"""What nvidia-smi says instead of, or between, its rows.

The messages are told by how a line begins, so that no row of values can be taken for one. Each has a reason
that can be counted and that names a different thing to do.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from accelscope.model import Device, Health, HealthState, Vendor, device_id, pci_address
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.parsing.parsed import ParseError
from accelscope.vendors.common.values import strange_output

_ADDRESS = r"(?P<pci>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])"
_HANDLE = r"unable to (?:determine|detect) the device handle for gpu"
_MESSAGE_LIMIT = 1000
_LINE_LIMIT = 500  # characters of a message that are kept; no message of the tool is longer

# By beginning, the more special first. None: the reason is in the words that follow it.
_PATTERNS: tuple[tuple[re.Pattern[str], str | None], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"no devices (?:were )?found", "no_devices"),
        (
            r"nvidia-smi has failed because it couldn.t communicate with the nvidia driver",
            "driver_not_loaded",
        ),
        (r"nvidia-smi couldn.t find (?:lib)?(?:nvidia-ml|nvml)", "library_missing"),
        (r"nvidia-smi has failed", "driver_error"),
        (r"failed to (?:initialize|properly shut down) nvml:(?P<cause>.*)", None),
        # `GPU 0000:02:00.0:`, `GPU0000:02:00.0:`, `GPU1: 0000:02:00.0:`, `GPU0:`, by the driver's age.
        (rf"{_HANDLE}\s*(?:(?P<index>[0-9]{{1,4}}):\s+)?{_ADDRESS}\s*:(?P<cause>.*)", None),
        (rf"{_HANDLE}\s*(?P<index>[0-9]{{1,3}})?\s*:(?P<cause>.*)", None),
        (r'field "(?P<field>[^"]{1,200})" is not a valid field to query', "unknown_field"),
        (r"not supported on the device", "not_supported"),
        (r"failed to process command line", "not_supported"),
        (r"option .{0,100} is not recognized", "unknown_option"),
        (r"invalid combination of input arguments", "unknown_option"),
        # These are cells, too: a row of them is not a message.
        (r"insufficient permissions(?!\s*,)", "no_permission"),
        (r"gpu is lost(?!\s*,)", "device_lost"),
        (r"gpu requires reset(?!\s*,)", "reset_required"),
        (r"unknown error(?!\s*,)", "driver_error"),
    )
)
# Lines that begin otherwise are not tried against the patterns: there may be a million of them.
_BEGINNING = re.compile(
    r"no devices|nvidia-smi|failed|unable|field|not supported|option|invalid|insufficient|gpu|unknown",
    re.IGNORECASE,
)
_CORRUPTED = re.compile(rf"warning: infoROM is corrupted(?: at gpu\s*{_ADDRESS})?", re.IGNORECASE)
# Said by a shell or a container runtime.
_TOOL_MISSING = re.compile(r"not found|no such file|is not recognized", re.IGNORECASE)
_CAUSES = (
    ("version mismatch", "version_mismatch"),
    ("driver not loaded", "driver_not_loaded"),
    ("library not found", "library_missing"),
    ("permission", "no_permission"),
    ("blocked by the operating system", "no_permission"),
    ("requires reset", "reset_required"),
    ("gpu is lost", "device_lost"),
    ("insufficiently powered", "insufficient_power"),
)


@dataclass(frozen=True, slots=True)
class Message:
    reason: str
    text: str
    pci: str | None = None  # address of the device it is about, in the model's spelling
    index: int | None = None  # and its index, where that is what is told
    field: str | None = None  # the field that this driver does not know
    warning: bool = False  # True: the values around it are good


def message_of(line: str) -> Message | None:
    """The message that a line is, or None."""
    text = line.strip("\ufeff \t\r\n")[:_LINE_LIMIT]
    bare = text[7:] if text[:7].casefold() == "error: " else text
    for pattern, reason in _PATTERNS if _BEGINNING.match(bare) else ():
        match = pattern.match(bare)
        if match is not None:
            found = match.groupdict()
            return Message(
                reason or _cause(found["cause"], about_device="device handle" in match[0].casefold()),
                text,
                pci=pci_address(found.get("pci") or ""),
                index=int(found["index"]) if found.get("index") else None,
                field=found.get("field"),
            )
    warning = _CORRUPTED.match(bare)
    if warning is not None:
        return Message("inforom_corrupted", text, pci=pci_address(warning["pci"] or ""), warning=True)
    if "nvidia-smi" in bare and _TOOL_MISSING.search(bare):
        return Message("tool_missing", text)
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
    return error_of(text) or strange_output(text, tool)


class Said:
    """The distinct messages of an output, up to more than there could be GPUs."""

    def __init__(self, found: Iterable[Message] = ()) -> None:
        self._messages: dict[Message, None] = {}
        for message in found:
            self.add(message)

    def add(self, message: Message) -> None:
        if len(self._messages) < _MESSAGE_LIMIT:
            self._messages[message] = None

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)


def with_unreachable(devices: Iterable[Device], said: Said) -> tuple[Device, ...]:
    """Give each message to the device it is about. One that has no row is shown by its address alone: a GPU
    that fell off the bus must not vanish."""
    shown = list(devices)
    by_address: dict[str | None, int] = {d.pci_address: n for n, d in enumerate(shown) if d.pci_address}
    by_index: dict[int | None, int] = {
        d.index: n for n, d in enumerate(shown) if d.index is not None and not d.pci_address
    }
    for message in said:
        place = by_address.get(message.pci, by_index.get(message.index))
        if place is not None:
            if shown[place].health == UNKNOWN_HEALTH:
                shown[place] = replace(shown[place], health=health_of(message))
        elif not message.warning and (message.pci or message.index is not None):
            if message.pci:
                by_address[message.pci] = len(shown)
            else:
                by_index[message.index] = len(shown)
            shown.append(_unreachable(message))
    return tuple(shown)


def _unreachable(message: Message) -> Device:
    return Device(
        vendor=Vendor("nvidia"),
        id=device_id(Vendor("nvidia"), pci=message.pci, index=message.index),
        index=message.index,
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
