"""How busy a process is over time.

A curve is a function of time with a known integral. So counters made from it (energy, bytes moved) are exact
for any instant, in any order of asking, and can only grow.
"""

import math
from dataclasses import dataclass
from enum import StrEnum


class Shape(StrEnum):
    STEADY = "steady"  # around its level, with a slight ripple
    WAVE = "wave"  # up and down between a tenth of its level and its level
    BURSTY = "bursty"  # its level or nothing
    IDLE = "idle"  # holds memory, runs nothing


_RIPPLE = 0.05  # of a steady load, either way
_WAVE_FLOOR = 0.1
_BURST_DUTY = 0.4  # share of a period that a burst lasts
DEFAULT_PERIOD_SECONDS = {Shape.STEADY: 37.0, Shape.WAVE: 120.0, Shape.BURSTY: 45.0, Shape.IDLE: 60.0}


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """Ratio 0-1 over seconds; zero outside [begin, until)."""

    shape: Shape
    level: float
    period: float
    phase: float  # 0-1 of a period
    begin: float = -math.inf
    until: float = math.inf

    @property
    def peak(self) -> float:
        if self.shape is Shape.IDLE:
            return 0.0
        return self.level * (1 + _RIPPLE) if self.shape is Shape.STEADY else self.level

    def scaled(self, factor: float) -> "LoadCurve":
        return LoadCurve(self.shape, self.level * factor, self.period, self.phase, self.begin, self.until)

    def runs_at(self, at: float) -> bool:
        return self.begin <= at < self.until

    def at(self, at: float) -> float:
        if not self.runs_at(at):
            return 0.0
        turn = at / self.period + self.phase
        match self.shape:
            case Shape.STEADY:
                return self.level * (1 + _RIPPLE * math.sin(math.tau * turn))
            case Shape.WAVE:
                return self.level * (_WAVE_FLOOR + (1 - _WAVE_FLOOR) * (1 + math.sin(math.tau * turn)) / 2)
            case Shape.BURSTY:
                return self.level if turn % 1 < _BURST_DUTY else 0.0
            case Shape.IDLE:
                return 0.0

    def integral(self, at: float) -> float:
        """Ratio-seconds up to `at`, from an origin that is the same for every `at`."""
        at = min(max(at, self.begin), self.until)
        turn = at / self.period + self.phase
        swing = -math.cos(math.tau * turn) * self.period / math.tau
        match self.shape:
            case Shape.STEADY:
                return self.level * (at + _RIPPLE * swing)
            case Shape.WAVE:
                return self.level * (_WAVE_FLOOR * at + (1 - _WAVE_FLOOR) * (at + swing) / 2)
            case Shape.BURSTY:
                bursts = math.floor(turn) * _BURST_DUTY + min(turn % 1, _BURST_DUTY)
                return self.level * bursts * self.period
            case Shape.IDLE:
                return 0.0

    def mean(self, at: float, window: float = 1.0) -> float:
        """What a driver's sampling shows: the mean over the last `window` seconds."""
        return (self.integral(at) - self.integral(at - window)) / window


Pauses = tuple[tuple[float, float], ...]  # from, until: simulated seconds


@dataclass(frozen=True, slots=True)
class PausedCurve(LoadCurve):
    """A load that is zero during the pauses."""

    pauses: Pauses = ()

    def at(self, at: float) -> float:
        paused = any(begin <= at < until for begin, until in self.pauses)
        return 0.0 if paused else LoadCurve.at(self, at)

    def integral(self, at: float) -> float:
        missed = sum(
            LoadCurve.integral(self, min(max(at, begin), until)) - LoadCurve.integral(self, begin)
            for begin, until in self.pauses
        )
        return LoadCurve.integral(self, at) - missed
