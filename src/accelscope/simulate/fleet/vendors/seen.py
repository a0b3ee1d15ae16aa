"""What every vendor's devices have in common when an agent looks at them."""

from dataclasses import dataclass, field, replace

from accelscope.model import Device, Health, HealthState, Process, identity_of
from accelscope.simulate.fleet.names import Names

LOST = Health(HealthState.LOST, "lost: the driver says that the device is lost")
NOT_SHOWN = Health(HealthState.LOST, "not_shown: the driver no longer shows this device")
HANGS = Health(HealthState.UNKNOWN, "timeout: the driver did not answer within 2 s")
RESET_REQUIRED = Health(HealthState.UNKNOWN, "reset_required: the driver says that the device must be reset")


@dataclass(frozen=True, slots=True)
class Look:
    """When an agent looks: simulated time, and the same by the wall clock."""

    at: float
    now: float
    names: Names

    def wall_clock(self, at: float) -> float:
        """Of something that happened before."""
        return self.now - (self.at - at)


@dataclass(frozen=True, slots=True)
class Offer:
    """A device, or a part of it, that the vendor's plugin gives to containers."""

    name: str  # as the kubelet has it
    device: str
    partition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One vendor on one node."""

    source: str  # of which the reader says that it reads
    driver_version: str | None
    devices: list[Device] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)  # without owners
    offers: dict[str, Offer] = field(default_factory=dict)  # by what the node model's plugin calls them


def unanswered(device: Device, health: Health, read_at: float | None = None) -> Device:
    """A device that could not be read: its identity only, because old values would pass for new; and when it
    last was."""
    return replace(identity_of(device), read_at=read_at, errors=device.errors, stale=True, health=health)
