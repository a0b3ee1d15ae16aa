"""The contract between agent and readers.

A reader answers two questions, and the agent asks them, each with a deadline: `survey()` for what belongs to
no single device (is the driver there, which devices does it show), then `read(key)` for each device. The
agent, not the reader, times the calls, abandons those that hang, counts errors and keeps what was read.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from accelscope.model import Reading, Rejection, Vendor
from accelscope.vendors import declarations
from accelscope.vendors.declaration import VendorSetting


class ReaderError(Exception):
    """A reader could not answer. `reason` is a short word that can be counted; the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class DriverAbsent(ReaderError):
    """Nothing of this vendor is on the node: no driver, no tool, no device. Not a fault."""

    def __init__(self, text: str) -> None:
        super().__init__("driver_absent", text)


class DeviceLost(ReaderError):
    """The driver says that this device is gone, or must be reset."""

    def __init__(self, text: str, *, reason: str = "lost") -> None:
        super().__init__(reason, text)


@dataclass(frozen=True, slots=True)
class Survey:
    """What the driver shows as a whole. `keys` name devices within this reader, in the driver's order;
    they are stable ids (Device.id) wherever the driver gives one."""

    source: str
    keys: tuple[str, ...]
    driver_version: str | None = None
    rejected: tuple[Rejection, ...] = ()
    warnings: tuple[str, ...] = ()  # short reasons to be counted; the pass goes on
    complete: bool = True  # False: not all of the answer could be read; who is missing may still be there
    expected: int = 0  # devices that the driver or the bus says there are, whether or not they are named


class Reader(Protocol):
    @property
    def vendor(self) -> Vendor: ...

    def survey(self) -> Survey:
        """Find the driver and its devices. Raises DriverAbsent or ReaderError."""

    def read(self, key: str) -> Reading:
        """Read one device that the last survey named. Raises ReaderError."""

    def close(self) -> None:
        """Let go of the driver. Must not block."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The node's own folders. Settings, so that tests and the simulator can point a reader at others."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    paths: Paths = Paths()
    settings: Mapping[str, str] = field(default_factory=dict)  # values of the vendors' own, by name
    tool_timeout_seconds: float = 10.0
    tool_interval_seconds: float = 60.0  # between two runs of a tool that takes seconds
    first_answer_seconds: float = 0.0  # that a survey waits for such a tool's first one: for who looks once
    environment: Mapping[str, str] | None = None  # for tools; None: the agent's own
    clock: Callable[[], float] = time.time  # for what is stamped with a time
    monotonic: Callable[[], float] = time.monotonic  # for what is measured between two readings

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
    """Imports its source only on a node with a driver of its vendor: that saves half a mebibyte elsewhere."""

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
        assert self._source is not None  # a survey named the key
        return self._source.read(key)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    @abstractmethod
    def _look_for_driver(self) -> None:
        """Raises DriverAbsent where nothing of the vendor is on the node."""

    @abstractmethod
    def _load_source(self) -> ReaderSource: ...
