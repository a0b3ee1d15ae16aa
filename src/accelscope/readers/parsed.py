"""What a parser makes of one tool's output: the shape that `accelscope parse` prints."""

from dataclasses import dataclass

from accelscope.model import Device, Process, Rejection


@dataclass(frozen=True, slots=True)
class ParseError:
    """The output is not a reading but a message. `reason` is a short word that can be counted."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Parsed:
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    error: ParseError | None = None
    rejected: tuple[Rejection, ...] = ()
