"""Health of a device, reasons for absent values, and counts by reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class HealthState(StrEnum):
    """One scale for all vendors. UNKNOWN is not OK: the state could not be determined."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Health:
    """Health of a device. `unknown` is not `ok`: the state could not be determined."""

    state: HealthState
    """State, on one scale for all vendors."""
    reason: str | None = None
    """Human-readable reason for the state."""
    vendor_word: str | None = None
    """The state in the driver's own words: `OK`, `Alarm`."""


UNKNOWN_HEALTH = Health(HealthState.UNKNOWN)


class AbsenceReason(StrEnum):
    """Why a value is missing."""

    NOT_SUPPORTED = "not_supported"  # the device does not support it
    NOT_KNOWN = "not_known"  # this version of the driver or tool does not have the field
    NO_SAMPLE = "no_sample"  # nothing was measured in this period
    SUSPENDED = "suspended"  # the device is suspended, and reading it would wake it up
    NO_PERMISSION = "no_permission"
    LOST = "lost"  # the device fell off the bus
    RESET_REQUIRED = "reset_required"
    TIMEOUT = "timeout"  # the call did not return within its deadline
    DRIVER_ERROR = "driver_error"  # the driver returned an error
    UNREADABLE = "unreadable"  # the driver returned something that is not a value of this field
    SHARED = "shared"  # several devices share the value, and it is counted at another one
    DEPRECATED = "deprecated"  # the driver no longer supports it


@dataclass(frozen=True, slots=True)
class Absence:
    """A missing value. [Concepts](concepts.md#absence) explains the reasons."""

    field: str
    """Name of the field, or of a part of it: `power_watts`, `sensors.memory`."""
    reason: AbsenceReason
    """Why it is missing."""


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """Number of events of one kind since the agent started."""

    reason: str
    """Kind of the event, as a keyword."""
    count: int
    """Number of events."""


def counted(counts: Mapping[str, int]) -> tuple[ReasonCount, ...]:
    """Sorted by reason."""
    return tuple(ReasonCount(reason, count) for reason, count in sorted(counts.items()))
