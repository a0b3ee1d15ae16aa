"""What a reader brings back from one device."""

from dataclasses import dataclass

from accelscope.model.device import Device
from accelscope.model.process import Process


@dataclass(frozen=True, slots=True)
class Rejection:
    """A line or cell that was there but could not be taken as a value. It costs itself only."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    device: Device
    processes: tuple[Process, ...] = ()
    rejected: tuple[Rejection, ...] = ()
