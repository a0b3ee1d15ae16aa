"""Parsing of saved tool outputs: the result of a parser, the list of formats, and rejected lines."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from accelscope.model import Device, Process, Rejection
from accelscope.vendors import declarations

# --- json escapes ------------------------------------------------------------
# Unpaired surrogates: JSON allows `\ud800` alone, and UTF-8 cannot encode the decoded character.


# An escaped backslash, a surrogate pair, or an unpaired surrogate; matched from left to right.
_ESCAPE = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.ASCII,
)
_REPLACEMENT = r"\ufffd"


def without_halves(text: str) -> str:
    """The same JSON with U+FFFD for each unpaired surrogate. One such name would make the whole page fail."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda match: _REPLACEMENT if match[1] else match[0], text)


# --- parsed ------------------------------------------------------------
# The result of a parser: what `accelscope parse` prints.


@dataclass(frozen=True, slots=True)
class ParseError:
    """The output is an error message instead of a reading. `reason` is a keyword for counting."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """The pod and container of a process, as far as its cgroup or its mounts identify them."""

    pod_uid: str | None = None
    container_id: str | None = None
    container_name: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """Devices that the kubelet allocated to a container. The kubelet chose `device_ids`; the other fields are
    the device plugin's response. If the plugin shares devices (HAMi), only the response names the device."""

    pod_uid: str
    container_name: str
    resource_name: str
    device_ids: tuple[str, ...] = ()
    visible_devices: tuple[str, ...] = ()  # from the variable of the vendor's runtime
    device_files: tuple[str, ...] = ()  # on the node
    cdi_devices: tuple[str, ...] = ()  # vendor.com/class=name


@dataclass(frozen=True, slots=True)
class ParseResult:
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    containers: tuple[ContainerRef, ...] | None = None  # None: this format does not contain them
    allocations: tuple[DeviceGrant, ...] | None = None
    ratio: float | None = None
    versions: tuple[tuple[str, str], ...] = ()  # what of -> version
    error: ParseError | None = None
    rejected: tuple[Rejection, ...] = ()


# --- output format ------------------------------------------------------------
# A kind of saved output that `accelscope parse` can read.


Parse = Callable[[str, Sequence[str] | None], ParseResult]


@dataclass(frozen=True, slots=True)
class OutputFormat:
    name: str
    summary: str
    parse: Parse  # takes the text and, if `takes_fields`, the names of its columns
    default_fields: tuple[str, ...] = ()  # columns of an output without a header, if the user names none
    output: str = ""  # contents other than devices and processes: containers, allocations, ratio or versions
    # `accelscope capture` reduces command lines to the program's name. An output with a "name" may list
    # processes, so each name is reduced unless the vendor declares that they are names of devices.
    names_devices: bool = False
    hide_command_lines: Callable[[str], str] | None = None  # of a form that capture/mask.py does not mask

    @property
    def takes_fields(self) -> bool:
        return bool(self.default_fields)


# --- registry ------------------------------------------------------------
# The saved outputs that `accelscope parse` can read, by name.


def sources() -> Mapping[str, OutputFormat]:
    """All formats: the vendors' in their order, then those of attribution. Their parsers are imported here,
    not earlier, because the agent needs few of them."""
    listed: list[OutputFormat] = []
    for vendor in declarations().values():
        listed += vendor.load(vendor.sources)
    listed += import_module("accelscope.attribution.checkpoint").SOURCES
    return {source.name: source for source in listed}


# --- rejections ------------------------------------------------------------
# Lines that a parser could not parse: the first ones are kept, the others counted.


_KEPT = 100
_LINE_LIMIT = 500


class Rejections:
    """Bounded: an output may have a million lines that are not of this format."""

    def __init__(self) -> None:
        self._kept: list[Rejection] = []
        self._more = 0

    def add(self, line: str, reason: str) -> None:
        if len(self._kept) < _KEPT:
            self._kept.append(Rejection(line.strip()[:_LINE_LIMIT], reason))
        else:
            self._more += 1

    def extend(self, rejected: list[Rejection]) -> None:
        for rejection in rejected:
            self.add(rejection.line, rejection.reason)

    def clear(self) -> None:
        self._kept.clear()
        self._more = 0

    def listed(self) -> tuple[Rejection, ...]:
        if self._more:
            return (*self._kept, Rejection(f"and {self._more} more", "not_listed"))
        return tuple(self._kept)
