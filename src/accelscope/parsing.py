"""What every parser of a saved output shares: the shape of its answer, and what it could not take."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from accelscope.model import Device, Process, Rejection
from accelscope.vendors import declarations

# --- json escapes ------------------------------------------------------------
# Half characters in JSON: `\ud800` alone is allowed there, and no UTF-8 can hold what it decodes to.


# An escaped backslash, a pair that is one character, or a half of one; each is taken from left to right.
_ESCAPE = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.ASCII,
)
_REPLACEMENT = r"\ufffd"


def without_halves(text: str) -> str:
    """The same JSON with U+FFFD for each half: one such name would cost the node its whole page."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda match: _REPLACEMENT if match[1] else match[0], text)


# --- parsed ------------------------------------------------------------
# What a parser makes of one tool's output: the shape that `accelscope parse` prints.


@dataclass(frozen=True, slots=True)
class ParseError:
    """The output is not a reading but a message. `reason` is a short word that can be counted."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """Where a process lives, as far as its cgroup or its mounts tell."""

    pod_uid: str | None = None
    container_id: str | None = None
    container_name: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """Devices that the kubelet gave to a container. `device_ids` are those that the kubelet chose; the others
    are what the plugin answered. Where it shares devices, as HAMi's does, only that names the device."""

    pod_uid: str
    container_name: str
    resource_name: str
    device_ids: tuple[str, ...] = ()
    visible_devices: tuple[str, ...] = ()  # by the variable of the vendor's runtime
    device_files: tuple[str, ...] = ()  # on the node
    cdi_devices: tuple[str, ...] = ()  # vendor.com/class=name


@dataclass(frozen=True, slots=True)
class Parsed:
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    containers: tuple[ContainerRef, ...] | None = None  # None: not what this source tells
    allocations: tuple[DeviceGrant, ...] | None = None
    ratio: float | None = None
    versions: tuple[tuple[str, str], ...] = ()  # what of -> version
    error: ParseError | None = None
    rejected: tuple[Rejection, ...] = ()


# --- source ------------------------------------------------------------
# A kind of saved output that `accelscope parse` can read.


Parse = Callable[[str, Sequence[str] | None], Parsed]


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    summary: str
    parse: Parse  # takes the text and, where the source takes them, the names of its columns
    default_fields: tuple[str, ...] = ()  # columns of an output without a header, if none are named
    tells: str = ""  # what else than devices and processes: containers, allocations, ratio or versions
    # `accelscope capture` cuts command lines down to the program's name. An output with a "name" may list
    # processes, so each is cut unless its vendor declares that the names in it are those of devices.
    names_devices: bool = False
    hide_command_lines: Callable[[str], str] | None = None  # of a form that capture/mask.py lacks

    @property
    def takes_fields(self) -> bool:
        return bool(self.default_fields)


# --- registry ------------------------------------------------------------
# The saved outputs that `accelscope parse` can read, by name.


def sources() -> Mapping[str, Source]:
    """All sources: the vendors' in their order, then those of attribution. The parsers are imported here and
    not before: the agent runs few of them."""
    listed: list[Source] = []
    for vendor in declarations().values():
        listed += vendor.load(vendor.sources)
    listed += import_module("accelscope.attribution.sources").SOURCES
    return {source.name: source for source in listed}


# --- rejections ------------------------------------------------------------
# Lines that a parser could not take: the first ones are kept, the rest counted.


_KEPT = 100
_LINE_LIMIT = 500


class Rejections:
    """Bounded, since an output may be a million lines of something else."""

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
