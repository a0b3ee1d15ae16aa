"""How a sink is doing: what carries readings out to somewhere else."""

from dataclasses import dataclass

from accelscope.model.counted import Counted


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    sink: str  # annotation, labels, feature-file, idle-state
    up: bool
    reason: str | None = None  # a short word for why it is not up; too_large: also for what was left out
    error: str | None = None  # the last error, for people; kept after the sink is well again
    last_success: float | None = None  # seconds since the epoch
    writes: int = 0
    skips: int = 0  # collections that had nothing new to write
    errors: tuple[Counted, ...] = ()
