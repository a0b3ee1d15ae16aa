"""Values in all vendors' outputs: numbers, ranges, program names, unrecognised outputs, growing counters."""

import json
import re
from collections.abc import Callable, Hashable, Mapping

from accelscope.parsing import ParseError

# Numbers as tools print them, with or without a unit. Digits are bounded: a megabyte of digits is not a
# number.

_NUMBER = re.compile(r"([+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([^\s0-9]\S{0,7})?", re.ASCII)
_LONGEST_NUMBER = 80  # characters of a cell with a value


def digits_and_unit(text: str) -> tuple[str, str] | None:
    """The unit in small letters, empty where there is none. None: not a number."""
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= _LONGEST_NUMBER else None
    return None if match is None else (match[1], (match[2] or "").casefold())


def scaled(text: str, units: Mapping[str, float]) -> float | None:
    """The number in the base unit; `units` has the factor of each unit. None: not a number with such a
    unit."""
    parts = digits_and_unit(text)
    if parts is None or parts[1] not in units:
        return None
    # Rounded, so that 912.5 mV is 0.9125 V and not 0.9125000000000001.
    return round(float(parts[0]) * units[parts[1]], 9)


def between(value: float | None, low: float, high: float) -> float | None:
    """None outside the bounds: a wrapped or uninitialised register, not a measurement."""
    return value if value is not None and low <= value <= high else None


_WORD = re.compile(r"\s*([!-~]{1,128})\s*")


def words(text: str) -> str | None:
    """Free text, such as a name or a version. None if characters were lost in decoding."""
    return None if "\ufffd" in text else text.strip()[:256] or None


def identifier(text: str) -> str | None:
    """One word of printable ASCII, such as a uuid or a serial number. A damaged one is rejected, because it
    could be that of another device."""
    match = _WORD.fullmatch(text)
    return match and match[1]


# JSON that may be truncated, or have other text around it.

_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"\s*")
_BLANKS_AND_COMMAS = re.compile(r"[\s,]*")


def decode_json(text: str, start: int) -> tuple[object, int] | None:
    """The value that begins at `start`, and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):  # truncated, not JSON, a number of thousands of digits, too deep
        return None
    return value, end


def after_blanks(text: str, position: int, *, commas: bool = False) -> int:
    match = (_BLANKS_AND_COMMAS if commas else _BLANKS).match(text, position)
    return match.end() if match else position


# The name of a process from the text that a tool prints.
#
# Tools print the kernel's short name or the path of the program; some versions print the whole command line.
# Arguments may contain secrets, so a name that cannot be separated from its arguments is cut too short rather
# than too long.

_KERNEL_NAME = 15  # characters of a program's name that the kernel stores; such a name may contain spaces
_LONGEST_NAME = 4096
_WINDOWS_PROGRAM = re.compile(r"\.exe(?=[\s\"']|$)", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
_OPTIONS = re.compile(r"\s+[-/]")
_ENVIRONMENT = re.compile(r"(?:[A-Za-z_]\w{0,99}=\S*(?:\s+|$))+")  # `TOKEN=secret python3`


def program_name(text: str, absence: Callable[[str], object]) -> str | None:
    """`absence` returns a reason for the vendor's markers of a missing name: a tool in a container cannot
    look the process up."""
    name = text.strip()[:_LONGEST_NAME]
    if absence(name) is not None or "\ufffd" in name:
        return None
    if name.startswith(("/", "./", "../")):
        return name.split(None, 1)[0].rpartition("/")[2] or None
    if len(name) > _KERNEL_NAME:
        return name.split(None, 1)[0]
    return name.partition(" -")[0].strip() or None


def program_in_title(title: str) -> str | None:
    """Base name of the program in the title of a process, which is a path or a whole command line. On Windows
    a name may contain spaces and ends in `.exe`; elsewhere it ends at the first space. Some tools cut the
    title after 15 or 16 characters; an incomplete `.exe` is not recognised, since it may be part of an
    argument."""
    text = title.strip().strip("\"'")[:_LONGEST_NAME]
    if before := _ENVIRONMENT.match(text):
        text = text[before.end() :]
    if not text.strip():
        return None
    if "/" not in text or _DRIVE.match(text):
        end = _WINDOWS_PROGRAM.search(text)
        if end is not None and ("\\" in text or _OPTIONS.search(text, 0, end.start()) is None):
            return _base_name(text[: end.end()])
        if "\\" in text:
            options = _OPTIONS.search(text)
            return _base_name(text[: options.start()] if options else text)
    return _base_name(text.split(None, 1)[0])


def _base_name(path: str) -> str | None:
    return re.split(r"[/\\]", path)[-1].strip() or None


# The error for an output with neither values nor a known message.

_LINE_LIMIT = 200


def first_line(text: str) -> str:
    """The first line that is not blank; empty if there is none."""
    return next((line.strip() for line in text.split("\n") if line.strip("\ufeff \t\r")), "")[:_LINE_LIMIT]


def unrecognized_output(text: str, tool: str) -> ParseError:
    first = first_line(text)
    if not first:
        return ParseError("empty", f"{tool} printed nothing")
    return ParseError("unrecognized", f"not the output of {tool}: {first}")


# Time of the last increase of a counter, for drivers that report only the count.


class CounterTimes:
    """Counters of one device. For events before the first reading the time is unknown."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}
        self._grew_at: dict[Hashable, float | None] = {}

    def last(self, counter: Hashable, count: int, now: float | None) -> float | None:
        """Store the count and return the time of the last increase, if it was observed."""
        # A lower count than before: the driver was reloaded, and these events came after that.
        if count != self._counts.setdefault(counter, count) and count > 0:
            self._grew_at[counter] = now
        self._counts[counter] = count
        return self._grew_at.get(counter)
