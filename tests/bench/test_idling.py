"""Collections are found in an exporter's CPU clock, so that one more or less in the time of a watch is not
in the figure."""

import pytest
from bench.idling import beginnings

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
