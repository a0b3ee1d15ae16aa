"""Collections are found in an exporter's CPU clock, so that one more or less in the time of a watch is not
in the figure."""

from typing import cast

import pytest
from bench.children import Child
from bench.idling import beginnings, wait_for_rest

_SAMPLE = 0.02


def _clock(
    seconds: float, first: float, interval: float, burst: float, cpu: float
) -> list[tuple[float, float]]:
    """Samples of a clock: bursts of so many seconds, each of this CPU time, one an interval."""

    def used(at: float) -> float:
        total, start = 0.0, first
        while start < at:
            total += cpu * min(1.0, (at - start) / burst)
            start += interval
        return total

    return [(step * _SAMPLE, used(step * _SAMPLE)) for step in range(round(seconds / _SAMPLE) + 1)]


@pytest.mark.parametrize("first", [0.41, 0.6, 0.8, 0.99])
@pytest.mark.parametrize("burst", [0.004, 0.05, 0.4])
def test_cpu_between_beginnings_is_that_of_a_collection_wherever_the_watch_begins(
    first: float, burst: float
) -> None:
    begun = beginnings(_clock(4.2, first, 1.0, burst, 0.03), 1 / 3)
    assert len(begun) >= 3
    each = (begun[-1] - begun[0]) / (len(begun) - 1)
    assert each == pytest.approx(0.03)


def test_a_collection_that_goes_on_when_the_watch_begins_is_not_counted() -> None:
    begun = beginnings(_clock(2.5, -0.1, 1.0, 0.3, 0.03), 1 / 3)
    assert len(begun) == 2
    assert begun[1] - begun[0] == pytest.approx(0.03)


def test_one_that_never_rests_has_no_beginnings() -> None:
    assert beginnings([(step * _SAMPLE, step * 0.001) for step in range(200)], 1 / 3) == []


def test_one_that_does_nothing_has_no_beginnings() -> None:
    assert beginnings([(step * _SAMPLE, 1.0) for step in range(200)], 1 / 3) == []


class _Worker:
    """Works for some of every 300 ms, and hardly at all between. Asleep is whoever watches it."""

    def __init__(self, begins: float, works: float) -> None:
        self.now = 0.0
        self._begins, self._works = begins, works

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def cpu_seconds(self) -> float:
        whole, rest = divmod(self.now - self._begins, 0.3)
        return whole * self._works + min(rest, self._works) + 0.01 * self.now


@pytest.mark.parametrize("begins", [0.05, 0.02, 0.0, -0.02, -0.1])
def test_a_collection_is_waited_for(monkeypatch: pytest.MonkeyPatch, begins: float) -> None:
    worker = _Worker(begins, works=0.15)
    monkeypatch.setattr("bench.idling.time", worker)
    wait_for_rest(cast("Child", worker), 10.0)
    assert begins + 0.15 < worker.now < begins + 0.3


def test_one_that_never_rests_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = _Worker(0.0, works=0.3)
    monkeypatch.setattr("bench.idling.time", worker)
    wait_for_rest(cast("Child", worker), 2.0)
    assert worker.now == pytest.approx(2.0, abs=0.05)
