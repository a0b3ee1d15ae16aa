"""How a sink is doing: what carries readings out to somewhere else."""

from dataclasses import dataclass

from accelscope.model.counted import Counted


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """A writer of readings [into the Node object](node-object.md)."""

    sink: str
    """`annotation`, `labels`, `feature-file` or `idle-state`."""
    up: bool
    """What it carries was written when it last tried."""
    reason: str | None = None
    """A short word for why it is not up; `too_large` also for what was left out. Absent: nothing is wrong."""
    error: str | None = None
    """The last error, for people; kept after the sink is well again. Absent: no error yet."""
    last_success: float | None = None
    """When it last wrote. Absent: before the first success."""
    writes: int = 0
    """Writes that succeeded."""
    skips: int = 0
    """Collections that had nothing new to write."""
    errors: tuple[Counted, ...] = ()
    """Writes that failed or had to leave something out, by reason."""
