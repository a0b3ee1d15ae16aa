"""Faults of a simulated node.

A node has faults from its description, with times, and faults that are set while it runs, which last from
when they are first read until they are removed. Counters that a fault increases, such as ECC errors, must not
decrease when it ends, so the log contains all past faults with their times.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar


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
    RESET = "reset"
    # the whole node, at one moment
    DRIVER_RELOAD = "driver_reload"
    REBOOT = "reboot"
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
    FaultKind.RESET: "the device is reset: its counters restart, and what a reset ends is over",
    FaultKind.DRIVER_RELOAD: "the driver is loaded again: like a reset of all its devices",
    FaultKind.REBOOT: "the node has rebooted: like a reload of all drivers, with a new boot id",
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
        FaultKind.RESET,
    }
)
# Events at one moment: they lie in the past as soon as they have begun.
RESTARTS = frozenset({FaultKind.RESET, FaultKind.DRIVER_RELOAD, FaultKind.REBOOT})
_ENDED_BY: Mapping[FaultKind, frozenset[FaultKind]] = {
    FaultKind.RESET_REQUIRED: RESTARTS,
    FaultKind.LOST: frozenset({FaultKind.REBOOT}),
}
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
class TimedFault:
    """`begin` and `until` are seconds; without `until` the fault does not end."""

    begin: float = 0.0
    until: float | None = None

    def active(self, at: float) -> bool:
        return self.begin <= at and (self.until is None or at < self.until)

    def same_as(self, other: "TimedFault") -> bool:
        """Whether both are equal, apart from their times."""
        return replace(self, begin=0.0, until=None) == replace(other, begin=0.0, until=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(TimedFault):
    """Times are simulated time."""

    kind: FaultKind
    vendor: str | None = None  # None: the only vendor of the node
    device: int | None = None  # index among the devices of the vendor
    code: int | None = None  # e.g. of an XID
    tool: str | None = None  # for faults of a tool; None: every tool of the vendor
    error: str | None = None  # for tool_error
    cause: str | None = None  # for throttled

    def seconds(self, at: float) -> float:
        """The duration up to `at`."""
        end = at if self.until is None else min(at, self.until)
        return max(0.0, end - self.begin)


def lasted(faults: Iterable[Fault], kind: FaultKind, at: float) -> tuple[float, ...]:
    """The duration up to `at` of each fault of that kind that has begun, from which counters are computed."""
    return tuple(fault.seconds(at) for fault in faults if fault.kind is kind and fault.begin <= at)


def last_restart(faults: Iterable[Fault], at: float) -> float | None:
    """When the counters of a device were last restarted."""
    return max((f.begin for f in faults if f.kind in RESTARTS and f.begin <= at), default=None)


def _ended_by_restarts(fault: Fault, faults: Iterable[Fault]) -> Fault:
    """The fault, with its end at the first later event that ends it."""
    enders = _ENDED_BY.get(fault.kind, frozenset())
    ends = [other.begin for other in faults if other.kind in enders and other.begin >= fault.begin]
    if fault.until is not None:
        ends.append(fault.until)
    return replace(fault, until=min(ends)) if ends else fault


TimedFaultT = TypeVar("TimedFaultT", bound=TimedFault)


class TimedFaultLog(Generic[TimedFaultT]):
    """All past and current faults: those of the description, and those that are set while it runs."""

    def __init__(self, described: Iterable[TimedFaultT] = (), past: Iterable[TimedFaultT] = ()) -> None:
        self._described = tuple(described)
        self._set: list[TimedFaultT] = list(past)

    def observe(self, current: Iterable[TimedFaultT], at: float) -> None:
        """`current` are the faults that are set now: new ones begin, missing ones end."""
        current = tuple(current)
        self._set = [
            replace(fault, until=at)
            if fault.until is None and not any(map(fault.same_as, current))
            else fault
            for fault in self._set
        ]
        for fault in current:
            if not any(known.until is None and known.same_as(fault) for known in self._set):
                self._set.append(replace(fault, begin=at, until=None))

    @property
    def faults(self) -> tuple[TimedFaultT, ...]:
        return (*self._described, *self._set)

    @property
    def noted(self) -> tuple[TimedFaultT, ...]:
        """The faults that were set while it ran, which a restart needs."""
        return tuple(self._set)


class FaultLog(TimedFaultLog[Fault]):
    """The faults of a node."""

    def of_vendor(self, vendor: str) -> "FaultLog":
        def own(faults: Iterable[Fault]) -> Iterable[Fault]:
            return (
                fault for fault in faults if fault.vendor in (None, vendor) or fault.kind is FaultKind.REBOOT
            )

        return FaultLog(own(self._described), own(self._set))

    def of_device(self, device: int) -> tuple[Fault, ...]:
        """Its faults, and the restarts of its driver and node."""
        own = [
            fault
            for fault in self.faults
            if fault.device == device or (fault.device is None and fault.kind in RESTARTS)
        ]
        return tuple(_ended_by_restarts(fault, own) for fault in own)

    def restarts(self, at: float, kinds: Collection[FaultKind]) -> int:
        """The number of events up to a time."""
        return sum(fault.kind in kinds and fault.begin <= at for fault in self.faults)

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
