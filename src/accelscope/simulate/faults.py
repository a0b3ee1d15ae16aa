"""Faults of a simulated node.

A node has faults from its description, with times, and faults that are set while it runs, which last from
when they are first read until they are removed. Counters that a fault increases, such as ECC errors, must not
decrease when it ends, so the log contains all past faults with their times.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class FaultKind(StrEnum):
    """The kinds of all vendors; `PossibleFaults` lists those of one vendor."""

    # one device
    LOST = "lost"
    VANISHED = "vanished"
    HANG = "hang"
    RESET_REQUIRED = "reset_required"
    HOT = "hot"
    THROTTLED = "throttled"
    ECC_STORM = "ecc_storm"
    XID = "xid"
    # the vendor's library and driver
    LIBRARY_HANG = "library_hang"
    LIBRARY_MISSING = "library_missing"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    VERSION_MISMATCH = "version_mismatch"
    # the vendor's tool
    TOOL_HANG = "tool_hang"
    TOOL_GARBAGE = "tool_garbage"
    TOOL_TRUNCATED = "tool_truncated"
    TOOL_NON_UTF8 = "tool_non_utf8"
    TOOL_KILLED = "tool_killed"
    TOOL_MISSING = "tool_missing"
    TOOL_ERROR = "tool_error"

    @property
    def of_device(self) -> bool:
        return self in _OF_DEVICE

    @property
    def of_tool(self) -> bool:
        return self in TOOL_FAULTS

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    FaultKind.LOST: "the device fell off the bus and the driver reports it as lost",
    FaultKind.VANISHED: "the device is no longer enumerated; those after it move up",
    FaultKind.HANG: "calls on the device, or reads of its files, block until the fault ends",
    FaultKind.RESET_REQUIRED: "the driver reports that the device must be reset",
    FaultKind.HOT: "the device is at its slowdown temperature and throttles",
    FaultKind.THROTTLED: "the device throttles for one reason (--cause), without being hot",
    FaultKind.ECC_STORM: "memory errors keep occurring, and the driver remaps rows or retires pages",
    FaultKind.XID: "the driver reports one XID (--code, default 31)",
    FaultKind.LIBRARY_HANG: "every call of the library blocks, opening it included",
    FaultKind.LIBRARY_MISSING: "the library's file is gone",
    FaultKind.DRIVER_NOT_LOADED: "the kernel module is not loaded",
    FaultKind.VERSION_MISMATCH: "library and kernel module are of different versions",
    FaultKind.TOOL_HANG: "the tool does not return",
    FaultKind.TOOL_GARBAGE: "the tool prints something in another format",
    FaultKind.TOOL_TRUNCATED: "the tool's output ends in the middle",
    FaultKind.TOOL_NON_UTF8: "the tool's output contains bytes that are not UTF-8",
    FaultKind.TOOL_KILLED: "the tool is killed while it prints",
    FaultKind.TOOL_MISSING: "the tool's file is gone",
    FaultKind.TOOL_ERROR: "the tool reports an error (--error)",
}
_OF_DEVICE = frozenset(
    {
        FaultKind.LOST,
        FaultKind.VANISHED,
        FaultKind.HANG,
        FaultKind.RESET_REQUIRED,
        FaultKind.HOT,
        FaultKind.THROTTLED,
        FaultKind.ECC_STORM,
        FaultKind.XID,
    }
)
TOOL_FAULTS = frozenset(kind for kind in FaultKind if kind.startswith("tool_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleFaults:
    """The faults that a vendor's simulated driver supports."""

    kinds: frozenset[FaultKind]
    codes: Mapping[FaultKind, range] = field(default_factory=dict)  # of the kinds that have a code
    errors: tuple[str, ...] = ()  # names of the errors for tool_error
    causes: tuple[str, ...] = ()  # for throttled
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`begin` and `until` are seconds of simulated time; without `until` the fault does not end."""

    kind: FaultKind
    vendor: str | None = None  # None: the only vendor of the node
    device: int | None = None  # index among the devices of the vendor
    code: int | None = None  # e.g. of an XID
    tool: str | None = None  # for faults of a tool; None: every tool of the vendor
    error: str | None = None  # for tool_error
    cause: str | None = None  # for throttled
    begin: float = 0.0
    until: float | None = None

    def active(self, at: float) -> bool:
        return self.begin <= at and (self.until is None or at < self.until)

    def seconds(self, at: float) -> float:
        """The duration up to `at`."""
        end = at if self.until is None else min(at, self.until)
        return max(0.0, end - self.begin)

    def same_as(self, other: "Fault") -> bool:
        """Whether both are equal, apart from their times."""
        return replace(self, begin=0.0, until=None) == replace(other, begin=0.0, until=None)


def lasted(faults: Iterable[Fault], kind: FaultKind, at: float) -> tuple[float, ...]:
    """The duration up to `at` of each fault of that kind that has begun, from which counters are computed."""
    return tuple(fault.seconds(at) for fault in faults if fault.kind is kind and fault.begin <= at)


class FaultLog:
    """All past and current faults of a node."""

    def __init__(self, described: Iterable[Fault] = (), past: Iterable[Fault] = ()) -> None:
        self._described = tuple(described)
        self._set: list[Fault] = list(past)

    def observe(self, current: Iterable[Fault], at: float) -> None:
        """`current` are the faults that are set now: new ones begin, missing ones end."""
        current = tuple(current)
        self._set = [
            replace(fault, until=at)
            if fault.until is None and not any(fault.same_as(other) for other in current)
            else fault
            for fault in self._set
        ]
        for fault in current:
            if not any(known.until is None and known.same_as(fault) for known in self._set):
                self._set.append(replace(fault, begin=at, until=None))

    @property
    def faults(self) -> tuple[Fault, ...]:
        return (*self._described, *self._set)

    @property
    def noted(self) -> tuple[Fault, ...]:
        """The faults that were set while the node ran, which a restart needs."""
        return tuple(self._set)

    def of_vendor(self, vendor: str) -> "FaultLog":
        def own(faults: Iterable[Fault]) -> Iterable[Fault]:
            return (fault for fault in faults if fault.vendor in (None, vendor))

        return FaultLog(own(self._described), own(self._set))

    def of_device(self, device: int) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.device == device)

    def active(self, at: float) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.active(at))


def fault_document(fault: Fault) -> dict[str, Any]:
    """The fault as it is written in YAML or JSON, without unset fields."""
    document: dict[str, Any] = {"kind": str(fault.kind)}
    for key in ("vendor", "device", "code", "tool", "error", "cause"):
        if (value := getattr(fault, key)) is not None:
            document[key] = value
    if fault.begin:
        document["from"] = fault.begin
    if fault.until is not None:
        document["until"] = fault.until
    return document
