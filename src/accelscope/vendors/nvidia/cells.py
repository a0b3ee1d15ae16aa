"""Parts that all outputs of nvidia-smi share: cells, messages between the rows, and process titles.

A cell is a marker for an absent value, or a value. The functions that read values (`ratio`, `watts` ...)
convert them to the base unit of the model, and return None for any other text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from accelscope.model import (
    AbsenceReason,
    Device,
    Health,
    HealthState,
    ProcessType,
    Vendor,
    device_id,
    pci_address,
)
from accelscope.model.device import UNKNOWN_HEALTH
from accelscope.parsing import ParseError
from accelscope.vendors.common.values import (
    between,
    digits_and_unit,
    identifier,
    program_in_title,
    scaled,
    unrecognized_output,
)

Value = float | int | bool | str
CellReader = Callable[[str], Value | None]

# NVML's error texts, which cells contain with or without brackets. `N/A` means that the device lacks the
# value; most others mean that reading it failed.
_MARKERS: Mapping[str, AbsenceReason] = {
    "": AbsenceReason.NO_SAMPLE,
    "-": AbsenceReason.NO_SAMPLE,
    "no data": AbsenceReason.NO_SAMPLE,
    "not found": AbsenceReason.NO_SAMPLE,
    "n/a": AbsenceReason.NOT_SUPPORTED,
    "not supported": AbsenceReason.NOT_SUPPORTED,
    "not available": AbsenceReason.NOT_SUPPORTED,
    "function not found": AbsenceReason.NOT_KNOWN,
    "argument version mismatch": AbsenceReason.NOT_KNOWN,
    "requested functionality has been deprecated": AbsenceReason.DEPRECATED,
    "insufficient permissions": AbsenceReason.NO_PERMISSION,
    "no permission": AbsenceReason.NO_PERMISSION,
    "the operating system has blocked the request": AbsenceReason.NO_PERMISSION,
    "gpu is lost": AbsenceReason.LOST,
    "gpu requires reset": AbsenceReason.RESET_REQUIRED,
    "timeout": AbsenceReason.TIMEOUT,
    "err!": AbsenceReason.DRIVER_ERROR,
    "error": AbsenceReason.DRIVER_ERROR,
    "unknown error": AbsenceReason.DRIVER_ERROR,
    "driver not loaded": AbsenceReason.DRIVER_ERROR,
    "corrupted inforom": AbsenceReason.DRIVER_ERROR,
    "inforom is corrupted": AbsenceReason.DRIVER_ERROR,
    "invalid argument": AbsenceReason.DRIVER_ERROR,
    "insufficient resources": AbsenceReason.DRIVER_ERROR,
    "uninitialized": AbsenceReason.DRIVER_ERROR,
}

# KB and MB of memory are binary multiples in NVIDIA's tools (pmon's fb in MB equals MiB elsewhere).
_BYTES = {
    "b": 1,
    **dict.fromkeys(("k", "kb", "kib"), 2**10),
    **dict.fromkeys(("", "m", "mb", "mib"), 2**20),
    **dict.fromkeys(("g", "gb", "gib"), 2**30),
    **dict.fromkeys(("t", "tb", "tib"), 2**40),
}
_WATTS = {"": 1.0, "w": 1.0, "mw": 1e-3, "kw": 1e3}
_HERTZ = {"": 1e6, "mhz": 1e6, "khz": 1e3, "ghz": 1e9, "hz": 1.0}
_CELSIUS = {"": 1.0, "c": 1.0, "°c": 1.0}
_VOLTS = {"": 1e-3, "mv": 1e-3, "v": 1.0}
# KB/s and MB/s are decimal: drivers that measure whole megabytes print multiples of 1,000 KB/s.
_BYTES_PER_SECOND = {"": 1e3, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9, "b/s": 1.0}
_PERCENT = {"": 1.0, "%": 1.0}
_PLAIN = {"": 1}
_LANES = {"": 1, "x": 1}

# A number beyond these is a wrapped or uninitialised register, not a measurement.
_MAX_RATIO = 10.0
_MAX_WATTS = 1e5
_MAX_HERTZ = 1e12
_MIN_CELSIUS, _MAX_CELSIUS = -273.15, 1000.0
_MAX_INTEGER = 2**63 - 1


def absence(text: str) -> AbsenceReason | None:
    """The reason that a marker stands for, or None if the text is not a marker."""
    if len(text) > 80:
        return None
    bare = text.strip()
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1].strip()
    folded = bare.rstrip(".").casefold()
    if folded.startswith("deprecated"):  # driver 610: `Deprecated, see "KMD version" instead`
        return AbsenceReason.DEPRECATED
    return _MARKERS.get(folded)


def is_number(text: str) -> bool:
    """Whether the text is a number, with or without a unit."""
    return digits_and_unit(text) is not None


def uuid(text: str) -> str | None:
    """A uuid with NVIDIA's prefix. The rest may be masked in a shared output."""
    word = identifier(text)
    return word if word and word.startswith(("GPU-", "MIG-")) else None


def count(text: str) -> int | None:
    return _integer(text, _PLAIN)


def lanes(text: str) -> int | None:
    """Width of a link, `16` or `16x`."""
    return _integer(text, _LANES)


def memory(text: str) -> int | None:
    """Bytes; a bare number is MiB."""
    return _integer(text, _BYTES)


def ratio(text: str) -> float | None:
    percent = scaled(text, _PERCENT)
    return None if percent is None or not 0 <= percent / 100 <= _MAX_RATIO else percent / 100


def watts(text: str) -> float | None:
    return between(scaled(text, _WATTS), 0, _MAX_WATTS)


def hertz(text: str) -> float | None:
    """Hertz; a bare number is MHz."""
    return between(scaled(text, _HERTZ), 0, _MAX_HERTZ)


def celsius(text: str) -> float | None:
    return between(scaled(text, _CELSIUS), _MIN_CELSIUS, _MAX_CELSIUS)


def volts(text: str) -> float | None:
    """Volts; a bare number is mV."""
    return between(scaled(text, _VOLTS), 0, 1e3)


def bytes_per_second(text: str) -> float | None:
    """Bytes per second; a bare number is KB/s."""
    return between(scaled(text, _BYTES_PER_SECOND), 0, 1e15)


def architecture(text: str) -> str | None:
    """The first word in lower case, as NVML has it: `ada` for `Ada Lovelace`."""
    word = text.casefold().split(None, 1)[:1]
    return word[0][:32] if word else None


def performance_state(text: str) -> int | None:
    """P0 (fastest) to P15."""
    bare = text.strip()
    number = count(bare[1:]) if bare[:1] in ("P", "p") else None
    return number if number is not None and number <= 15 else None


def flag(text: str) -> bool | None:
    match text.strip().casefold():
        case "enabled" | "yes" | "on" | "active" | "true":
            return True
        case "disabled" | "no" | "off" | "not active" | "inactive" | "false":
            return False
    return None


def mask(text: str) -> int | None:
    """A set of bits in hexadecimal, `0x00000000000001FF`."""
    bare = text.strip().casefold()
    if re.fullmatch(r"0x[0-9a-f]{1,16}", bare) is None:
        return None
    return int(bare, 16)


def _integer(text: str, units: Mapping[str, int]) -> int | None:
    parts = digits_and_unit(text)
    if parts is None or parts[1] not in units:
        return None
    digits, factor = parts[0], units[parts[1]]
    if "." in digits and factor == 1:
        return None  # a count is an integer
    number = round(float(digits) * factor) if "." in digits else int(digits) * factor
    return number if 0 <= number <= _MAX_INTEGER else None


# Messages that nvidia-smi prints instead of rows or between them. They are recognised by their beginning, so
# that no row of values matches.

_ADDRESS = r"(?P<pci>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])"
_HANDLE = r"unable to (?:determine|detect) the device handle for gpu"
_MESSAGE_LIMIT = 1000
_LINE_LIMIT = 500  # characters of a message that are kept; no message of the tool is longer

# The more specific first. None: the `cause` group contains the reason.
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
        # `GPU 0000:02:00.0:`, `GPU0000:02:00.0:`, `GPU1: 0000:02:00.0:`, `GPU0:`, depending on the driver.
        (rf"{_HANDLE}\s*(?:(?P<index>[0-9]{{1,4}}):\s+)?{_ADDRESS}\s*:(?P<cause>.*)", None),
        (rf"{_HANDLE}\s*(?P<index>[0-9]{{1,3}})?\s*:(?P<cause>.*)", None),
        (r'field "(?P<field>[^"]{1,200})" is not a valid field to query', "unknown_field"),
        (r"not supported on the device", "not_supported"),
        (r"failed to process command line", "not_supported"),
        (r"option .{0,100} is not recognized", "unknown_option"),
        (r"invalid combination of input arguments", "unknown_option"),
        # These texts are also markers: a row of them is not a message.
        (r"insufficient permissions(?!\s*,)", "no_permission"),
        (r"gpu is lost(?!\s*,)", "device_lost"),
        (r"gpu requires reset(?!\s*,)", "reset_required"),
        (r"unknown error(?!\s*,)", "driver_error"),
    )
)
# A quick check before the patterns, because an output may have a million lines.
_BEGINNING = re.compile(
    r"no devices|nvidia-smi|failed|unable|field|not supported|option|invalid|insufficient|gpu|unknown",
    re.IGNORECASE,
)
_CORRUPTED = re.compile(rf"warning: infoROM is corrupted(?: at gpu\s*{_ADDRESS})?", re.IGNORECASE)
# Printed by a shell or a container runtime.
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
    pci: str | None = None  # address of the affected device, as the model writes it
    index: int | None = None  # index of the affected device
    field: str | None = None  # a field that this driver does not have
    warning: bool = False  # True: the values of the output are valid


def parse_message(line: str) -> Message | None:
    """The message in a line, or None if the line is not a message."""
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


def parse_messages(text: str) -> Iterator[Message]:
    for line in text.split("\n"):
        message = parse_message(line)
        if message is not None:
            yield message


def first_error(text: str) -> ParseError | None:
    """The first message that is an error."""
    for message in parse_messages(text):
        if not message.warning:
            return ParseError(message.reason, message.text)
    return None


def unknown_field(text: str) -> str | None:
    """The queried field that this driver does not have. It fails the whole query: retry without it."""
    return next((message.field for message in parse_messages(text) if message.field), None)


def missing_reading(text: str, tool: str) -> ParseError:
    """The error of an output without any row."""
    return first_error(text) or unrecognized_output(text, tool)


class MessageSet:
    """The distinct messages of an output, up to a limit that is above the number of GPUs of any node."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: dict[Message, None] = {}
        for message in messages:
            self.add(message)

    def add(self, message: Message) -> None:
        if len(self._messages) < _MESSAGE_LIMIT:
            self._messages[message] = None

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)


def with_messages(devices: Iterable[Device], messages: MessageSet) -> tuple[Device, ...]:
    """Set the health of the devices that the messages are about. A device without a row, such as a GPU that
    fell off the bus, is added with its address alone."""
    result = list(devices)
    by_address: dict[str | None, int] = {d.pci_address: n for n, d in enumerate(result) if d.pci_address}
    by_index: dict[int | None, int] = {
        d.index: n for n, d in enumerate(result) if d.index is not None and not d.pci_address
    }
    for message in messages:
        position = by_address.get(message.pci, by_index.get(message.index))
        if position is not None:
            if result[position].health == UNKNOWN_HEALTH:
                result[position] = replace(result[position], health=message_health(message))
        elif not message.warning and (message.pci or message.index is not None):
            if message.pci:
                by_address[message.pci] = len(result)
            else:
                by_index[message.index] = len(result)
            result.append(_unreachable_device(message))
    return tuple(result)


def _unreachable_device(message: Message) -> Device:
    return Device(
        vendor=Vendor("nvidia"),
        id=device_id(Vendor("nvidia"), pci=message.pci, index=message.index),
        index=message.index,
        pci_address=message.pci,
        health=message_health(message),
    )


def message_health(message: Message) -> Health:
    state = {
        "device_lost": HealthState.LOST,
        "reset_required": HealthState.CRITICAL,
        "inforom_corrupted": HealthState.WARNING,
    }.get(message.reason, HealthState.UNKNOWN)
    return Health(
        state, reason=message.text, cause={"device_lost": "lost"}.get(message.reason, message.reason)
    )


def _cause(words: str, *, about_device: bool) -> str:
    folded = words.casefold()
    for part, reason in _CAUSES:
        if part in folded:
            return reason
    # "Unknown Error" for a device handle means that the device fell off the bus. For the whole library it is
    # typical of a container that lost its device files.
    return "device_lost" if about_device else "driver_error"


def program_name(title: str) -> str | None:
    """The program of a process title, without arguments, which may contain secrets.

    The tool prints the title. It is usually a path, but browsers, editors and workers overwrite it with their
    whole command line. If name and arguments cannot be separated, the name is truncated.
    """
    return None if absence(title.strip().strip("\"'")[:4096]) is not None else program_in_title(title)


def process_type(letters: str) -> tuple[ProcessType | None, bool | None] | None:
    """Type and `mps` of `C`, `G`, `C+G`, and `M`, `M+C` for clients of the Multi-Process Service.

    None for any other letters. Without an M, `mps` is unknown: older drivers do not print it.
    """
    if absence(letters) is not None:
        return None, None
    parts = {part.strip().upper() for part in letters[:16].split("+")}
    if not parts <= {"C", "G", "M"}:
        return None
    if "G" in parts:
        kind = ProcessType.BOTH if len(parts) > 1 else ProcessType.GRAPHICS
    else:
        kind = ProcessType.COMPUTE  # MPS serves compute clients only
    return kind, True if "M" in parts else None
