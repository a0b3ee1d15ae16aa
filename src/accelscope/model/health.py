"""Health of a device, and why a value is absent."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class HealthState(StrEnum):
    """One scale for every vendor. UNKNOWN is not OK: it says that nobody could tell."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Health:
    """How a device is. `unknown` is not `ok`: the state could not be determined."""

    state: HealthState
    """The state on the scale of all vendors."""
    reason: str | None = None
    """What led to the state, for people."""
    vendor_word: str | None = None
    """The driver's own word, with its case: `OK`, `Alarm`."""


UNKNOWN_HEALTH = Health(HealthState.UNKNOWN)


class AbsenceReason(StrEnum):
    """Why a value is missing. Each can be counted, and each means a different thing to do."""

    NOT_SUPPORTED = "not_supported"  # the driver says that this device does not have it
    NOT_KNOWN = "not_known"  # this driver or tool version does not know the field
    NO_SAMPLE = "no_sample"  # it exists, but nothing was measured in this period
    SUSPENDED = "suspended"  # asleep to save power: reading it would wake it
    NO_PERMISSION = "no_permission"
    LOST = "lost"  # the device fell off the bus
    RESET_REQUIRED = "reset_required"
    TIMEOUT = "timeout"  # the call did not come back within its deadline
    DRIVER_ERROR = "driver_error"  # the driver answered with an error of its own
    UNREADABLE = "unreadable"  # there was an answer that is not a value of this field
    SHARED = "shared"  # the value belongs to a group of devices and is counted at another one
    DEPRECATED = "deprecated"  # the driver no longer gives it


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a value is missing. [Concepts](concepts.md#absence) says what each reason means."""

    field: str
    """Name of the field, or of a part of it: `power_watts`, `sensors.memory`."""
    reason: AbsenceReason
    """Why it is missing."""


# --- counted ------------------------------------------------------------
# Things that are counted by their reason.


@dataclass(frozen=True, slots=True)
class Counted:
    """How often something happened since the agent started."""

    reason: str
    """A short word for what happened."""
    count: int
    """How often."""


def counted(counts: Mapping[str, int]) -> tuple[Counted, ...]:
    """In the order of the reasons."""
    return tuple(Counted(reason, count) for reason, count in sorted(counts.items()))
