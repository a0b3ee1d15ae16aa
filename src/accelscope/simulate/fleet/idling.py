"""Workloads that stop working without ending: their processes hold what they hold, and do nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from accelscope.simulate.load import LoadCurve
from accelscope.simulate.workload import Placement

Pauses = tuple[tuple[float, float], ...]  # from, until: simulated seconds


@dataclass(frozen=True, slots=True)
class PausedCurve(LoadCurve):
    pauses: Pauses = ()

    def at(self, at: float) -> float:
        paused = any(begin <= at < until for begin, until in self.pauses)
        return 0.0 if paused else LoadCurve.at(self, at)

    def integral(self, at: float) -> float:
        """Without what would have been added in the pauses."""
        missed = sum(
            LoadCurve.integral(self, min(max(at, begin), until)) - LoadCurve.integral(self, begin)
            for begin, until in self.pauses
        )
        return LoadCurve.integral(self, at) - missed


def idled(placement: Placement, idle: Mapping[str, Sequence[tuple[float, float]]]) -> Placement:
    """The same, idle in the times that its process's name is given with."""
    name = placement.process.spec.name
    # What was before simulated time is in no counter.
    pauses = tuple((max(0.0, begin), until) for begin, until in idle.get(name, ()))
    if not pauses:
        return placement
    curve = placement.curve
    known = {field.name: getattr(curve, field.name) for field in fields(curve)}
    return replace(placement, curve=PausedCurve(**known, pauses=pauses))
