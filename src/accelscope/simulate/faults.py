"""What can be wrong with a simulated node, and what was wrong up to now.

A node has faults from its description (with times) and faults that are set while it runs (from when they are
first seen until they are gone). Counters that a fault drives, such as ECC errors, must not fall back when it
ends, so every fault that ever was is remembered with its times: that is the log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class FaultKind(StrEnum):
    # one device
    LOST = "lost"
    VANISHED = "vanished"
    HANG = "hang"
    RESET_REQUIRED = "reset_required"
    HOT = "hot"
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
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    FaultKind.LOST: "the device fell off the bus: calls on it answer GPU is lost",
    FaultKind.VANISHED: "the device is not enumerated any more; those after it move up",
    FaultKind.HANG: "calls on the device block until the fault ends",
    FaultKind.RESET_REQUIRED: "calls on the device answer GPU requires reset",
    FaultKind.HOT: "the device is at its slowdown temperature and throttles",
    FaultKind.ECC_STORM: "memory errors pile up, rows wait to be remapped, XIDs follow",
    FaultKind.XID: "the driver reports one XID (--code, default 31)",
    FaultKind.LIBRARY_HANG: "every call of the library blocks, opening it included",
    FaultKind.LIBRARY_MISSING: "the library's file is gone",
    FaultKind.DRIVER_NOT_LOADED: "the kernel module is not loaded",
    FaultKind.VERSION_MISMATCH: "library and kernel module are of different versions",
    FaultKind.TOOL_HANG: "the tool does not return",
    FaultKind.TOOL_GARBAGE: "the tool prints something that is not its format",
    FaultKind.TOOL_TRUNCATED: "the tool's output ends in the middle",
    FaultKind.TOOL_NON_UTF8: "the tool's output holds bytes that are not UTF-8",
    FaultKind.TOOL_KILLED: "the tool is killed while it prints",
    FaultKind.TOOL_MISSING: "the tool's file is gone",
    FaultKind.TOOL_ERROR: "the tool answers with an error (--error)",
}
_OF_DEVICE = frozenset(
    {
        FaultKind.LOST,
        FaultKind.VANISHED,
        FaultKind.HANG,
        FaultKind.RESET_REQUIRED,
        FaultKind.HOT,
        FaultKind.ECC_STORM,
        FaultKind.XID,
    }
)
DEFAULT_XID = 31  # a fault of the application's own memory access, the most common one


class ToolError(StrEnum):
    """Errors that nvidia-smi prints by itself; the texts and exit codes are with the tool."""

    NO_DEVICES = "no_devices"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    VERSION_MISMATCH = "version_mismatch"
    UNKNOWN_ERROR = "unknown_error"
    NO_PERMISSION = "no_permission"
    LIBRARY_MISSING = "library_missing"
    NOT_SUPPORTED = "not_supported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`begin` and `until` are seconds of simulated time; without `until` it lasts."""

    kind: FaultKind
    device: int | None = None
    code: int | None = None  # of an xid
    error: ToolError | None = None  # of a tool_error
    begin: float = 0.0
    until: float | None = None

    def active(self, at: float) -> bool:
        return self.begin <= at and (self.until is None or at < self.until)

    def seconds(self, at: float) -> float:
        """How long it has lasted up to `at`."""
        end = at if self.until is None else min(at, self.until)
        return max(0.0, end - self.begin)

    def same_as(self, other: "Fault") -> bool:
        """The same thing, whenever it was."""
        return replace(self, begin=0.0, until=None) == replace(other, begin=0.0, until=None)


class FaultLog:
    """All faults of a node, past and present."""

    def __init__(self, described: Iterable[Fault] = (), past: Iterable[Fault] = ()) -> None:
        self._described = tuple(described)
        self._set: list[Fault] = list(past)

    def observe(self, current: Iterable[Fault], at: float) -> None:
        """Take note of the faults that are set now: new ones begin, those that are gone end."""
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
        """Those that were set while the node ran: what must be kept to go on from here."""
        return tuple(self._set)

    def of_device(self, device: int) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.device == device)

    def active(self, at: float) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.active(at))


def fault_document(fault: Fault) -> dict[str, Any]:
    """A fault as YAML or JSON has it; what is unset is left out."""
    document: dict[str, Any] = {"kind": str(fault.kind)}
    if fault.device is not None:
        document["device"] = fault.device
    if fault.code is not None:
        document["code"] = fault.code
    if fault.error is not None:
        document["error"] = str(fault.error)
    if fault.begin:
        document["from"] = fault.begin
    if fault.until is not None:
        document["until"] = fault.until
    return document
