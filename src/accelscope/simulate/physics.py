"""What a load does to a device: power, energy, heat.

Power follows the load linearly, so energy is the load's exact integral: it never runs backwards and agrees
with the power shown beside it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from accelscope.simulate.workload import Placement

_HEAT_STEP_SECONDS = 5.0
_HEAT_STEPS = 12
_HEAT_TIME_CONSTANT = 20.0
_HEAT_WEIGHTS = [math.exp(-step * _HEAT_STEP_SECONDS / _HEAT_TIME_CONSTANT) for step in range(_HEAT_STEPS)]


class DeviceLoad:
    """Sum of the loads on a device or a part of it. With each placement goes the share of that device or part
    that it runs on."""

    def __init__(self, placements: Iterable[tuple[Placement, float]]) -> None:
        self._shares = tuple(placements)

    def integral(self, at: float) -> float:
        return sum(share * placement.curve.integral(at) for placement, share in self._shares)

    def total(self, at: float) -> float:
        """Load-seconds since simulated time zero: what counters follow."""
        return self.integral(at) - self.integral(0.0)

    def mean(self, at: float, window: float = 1.0) -> float:
        """What a driver's sampling shows: the mean over the last `window` seconds."""
        return (self.integral(at) - self.integral(at - window)) / window

    def now(self, at: float) -> float:
        return sum(share * placement.curve.at(at) for placement, share in self._shares)

    def lagging(self, at: float) -> float:
        """What warms a device: the load of the last minute, recent moments counting most."""
        return sum(
            weight * self.mean(at - step * _HEAT_STEP_SECONDS, _HEAT_STEP_SECONDS)
            for step, weight in enumerate(_HEAT_WEIGHTS)
        ) / sum(_HEAT_WEIGHTS)


@dataclass(frozen=True, slots=True)
class PowerDraw:
    idle_watts: float
    span_watts: float  # what full load adds
    load: DeviceLoad

    def mean(self, at: float) -> float:
        return self.idle_watts + self.span_watts * self.load.mean(at)

    def now(self, at: float) -> float:
        return self.idle_watts + self.span_watts * self.load.now(at)

    def joules(self, at: float) -> float:
        """Since simulated time zero."""
        return self.idle_watts * at + self.span_watts * self.load.total(at)

    def celsius(self, at: float, *, ambient: float, at_full_power: float) -> float:
        """The device warms up and cools down slowly, in proportion to its power."""
        power = self.idle_watts + self.span_watts * self.load.lagging(at)
        return ambient + (at_full_power - ambient) * power / (self.idle_watts + self.span_watts)
