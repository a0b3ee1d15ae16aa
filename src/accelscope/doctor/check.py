"""A check as data."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from accelscope.agent.settings import AgentSettings
from accelscope.doctor.finding import Finding
from accelscope.doctor.subject import Subject

_USUAL_SECONDS = 5.0
_FILES_HANG = (
    "A file or folder does not answer, as on a network file system that is gone or in a driver that hangs: "
    "see `dmesg -T | tail` for what."
)


def usual_seconds(_: AgentSettings) -> float:
    return _USUAL_SECONDS


@dataclass(frozen=True, slots=True)
class Check:
    """`look` may find several things; what it has found when its time is up still counts."""

    name: str
    look: Callable[[Subject], Iterable[Finding]]
    seconds: Callable[[AgentSettings], float] = usual_seconds
    if_it_hangs: str = _FILES_HANG  # advice
    unless_hung: str | None = None  # name of a check of the same area: where that hung, this would too


@dataclass(frozen=True, slots=True)
class Area:
    name: str
    checks: tuple[Check, ...]
