"""The contracts of a vendor's code with the agent and with the fleet."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from accelscope.model import Reading, Rejection, Snapshot, Vendor
from accelscope.parsing import ParseResult
from accelscope.vendors import declarations
from accelscope.vendors.declaration import VendorSetting


class ReaderError(Exception):
    """A reader has no result. `reason` is a keyword for counting; the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class DriverAbsent(ReaderError):
    """The node has no driver, tool or device of this vendor. Not an error."""

    def __init__(self, text: str) -> None:
        super().__init__("driver_absent", text)


class DeviceLost(ReaderError):
    """The driver reports that the device is lost or must be reset."""

    def __init__(self, text: str, *, reason: str = "lost") -> None:
        super().__init__(reason, text)


@dataclass(frozen=True, slots=True)
class Survey:
    """The driver and its devices. `keys` identify devices within this reader, in the driver's order; they are
    stable ids (Device.id) if the driver reports one."""

    source: str
    keys: tuple[str, ...]
    driver_version: str | None = None
    rejected: tuple[Rejection, ...] = ()
    warnings: tuple[str, ...] = ()  # keywords for counting; the collection continues
    complete: bool = True  # False: a part of the list could not be read; a missing device may still exist
    expected: int = 0  # number of devices that the driver or the bus reports, with or without a key


class Reader(Protocol):
    @property
    def vendor(self) -> Vendor: ...

    def survey(self) -> Survey:
        """Find the driver and its devices. Raises DriverAbsent or ReaderError."""

    def read(self, key: str) -> Reading:
        """Read one device of the last survey. Raises ReaderError."""

    def close(self) -> None:
        """Release the driver. Must not block."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The node's folders. They are settings: tests and the simulator use others."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    paths: Paths = Paths()
    settings: Mapping[str, str] = field(default_factory=dict)  # values of the vendors' settings, by name
    tool_timeout_seconds: float = 10.0
    tool_interval_seconds: float = 60.0  # between two runs of a tool that takes seconds
    first_answer_seconds: float = (
        0.0  # that a survey waits for the first result of a slow tool, for commands that read once
    )
    environment: Mapping[str, str] | None = None  # for tools; None: the agent's own
    clock: Callable[[], float] = time.time  # for time stamps
    monotonic: Callable[[], float] = time.monotonic  # for durations

    def value(self, setting: VendorSetting) -> str:
        return setting.of(self.settings)


ReaderFactory = Callable[[ReaderOptions], Reader]


def open_reader(vendor: Vendor, options: ReaderOptions) -> Reader:
    declaration = declarations()[vendor]
    factory: ReaderFactory = declaration.load(declaration.reader)
    return factory(options)


class ReaderSource(Protocol):
    """The part of a reader that is imported when a driver is found."""

    def survey(self) -> Survey: ...

    def read(self, key: str) -> Reading: ...

    def close(self) -> None: ...


class LazyReader(ABC):
    """Imports its source only on a node with a driver of its vendor, which saves half a mebibyte on
    others."""

    vendor: Vendor

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._source: ReaderSource | None = None

    def survey(self) -> Survey:
        self._look_for_driver()
        if self._source is None:
            self._source = self._load_source()
        return self._source.survey()

    def read(self, key: str) -> Reading:
        assert self._source is not None  # the key is from a survey
        return self._source.read(key)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    @abstractmethod
    def _look_for_driver(self) -> None:
        """Raises DriverAbsent if the node has no driver, tool or device of the vendor."""

    @abstractmethod
    def _load_source(self) -> ReaderSource: ...


# --- the fleet ------------------------------------------------------------
# A vendor's tool in a driver pod: commands and parsing, without I/O. The fleet runs the commands.


class CommandOutput(NamedTuple):
    text: str
    exit_code: int


class ToolReading(NamedTuple):
    devices: ParseResult
    processes: ParseResult


class DriverTool(Protocol):
    """The tool of one pod. It may remember which commands the tool does not support."""

    name: str

    def questions(self) -> Generator[Sequence[str], CommandOutput, ToolReading]:
        """Yields commands and is sent their outputs."""
        ...

    def snapshot(
        self,
        node: str,
        reading: ToolReading,
        *,
        taken_at: float,
        interval_seconds: float,
        ids_by_address: dict[str, str],
    ) -> Snapshot:
        """`ids_by_address` is passed from one reading of the node to the next."""
        ...


# Values of another program's JSON object. A value of another type or out of range is None.

_LARGEST = 2**63


def number(entry: Mapping[str, object], name: str, *, least: float = 0) -> float | None:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if least <= value < _LARGEST and math.isfinite(value) else None


def whole(entry: Mapping[str, object], name: str) -> int | None:
    value = number(entry, name)
    return int(value) if value is not None and value == int(value) else None


def text(entry: Mapping[str, object], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) and value else None
