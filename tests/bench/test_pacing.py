"""Scrapes are spread over the same time for every exporter, so that all meet as many collections."""

import pytest
from bench.pacing import FEWEST, moments


class _Clock:
    def __init__(self) -> None:
        self.now = 5.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr("bench.pacing.time", made)
    return made


def _begun(clock: _Clock, takes: float) -> list[float]:
    """When each began, from the first one on, in a second with a pause of 50 ms."""
    began = []
    for _ in moments(1.0, 0.05):
        began.append(clock.now - 5.0)
        clock.now += takes
    return began


@pytest.mark.parametrize("takes", [0.0, 0.001, 0.02, 0.049])
def test_whoever_is_quick_enough_is_asked_at_the_same_moments(clock: _Clock, takes: float) -> None:
    assert _begun(clock, takes) == pytest.approx([number * 0.05 for number in range(20)])


def test_who_takes_longer_than_a_pause_is_asked_at_once_until_the_time_is_over(clock: _Clock) -> None:
    assert _begun(clock, 0.1) == pytest.approx([number * 0.1 for number in range(11)])


def test_a_slow_moment_is_made_up_for(clock: _Clock) -> None:
    began = []
    for number in moments(1.0, 0.05):
        began.append(clock.now - 5.0)
        clock.now += 0.3 if number == 2 else 0.01
    assert len(began) == 20
    assert began[-1] == pytest.approx(0.95)


def test_even_the_slowest_is_asked_a_few_times(clock: _Clock) -> None:
    assert len(_begun(clock, 60.0)) == FEWEST
