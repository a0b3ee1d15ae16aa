"""The methods behind the anomaly detection, one by one."""

from collections.abc import Callable

import numpy as np
import pytest

from accelscope.fleet.robust import (
    Numbers,
    cusum,
    huber_fit,
    lines_of,
    medians,
    medians_of_others,
    slopes,
)
from accelscope.fleet.thermal import GAP_MINUTES, MIN_FIT_MINUTES, MeanPower, ThermalModel

NAN = float("nan")


def test_a_median_ignores_absent_values() -> None:
    found, count = medians(np.array([[3.0, NAN, 1.0, 8.0], [NAN] * 4, [4.0, 1.0, NAN, NAN]]))
    assert found[[0, 2]].tolist() == [3.0, 2.5]
    assert np.isnan(found[1])
    assert count.tolist() == [3, 0, 2]


def test_outliers_hardly_move_a_huber_fit() -> None:
    chance = np.random.default_rng(1)
    load = chance.uniform(0, 5, (1, 120))
    values = 30 + 8 * load + chance.normal(0, 0.5, load.shape)
    values[0, :20] += 40
    values[0, 20:30] = NAN
    features = np.stack([np.ones(load.shape), load], axis=2)
    constant, slope = huber_fit(features, values, 2.0, 0.0)[0]
    assert constant == pytest.approx(30, abs=1)
    assert slope == pytest.approx(8, abs=0.3)
    assert np.polyfit(load[0, :20], values[0, :20], 0)[0] > 70  # what was added


def test_a_term_that_does_not_vary_has_no_coefficient() -> None:
    features = np.ones((1, 50, 2))
    features[:, :, 1] = 0.001
    assert huber_fit(features, np.full((1, 50), 60.0), 2.0, 1.0)[0] == pytest.approx([60, 0], abs=0.1)


def test_the_median_of_others_leaves_out_the_value_itself() -> None:
    found, count = medians_of_others(np.array([[1.0, 2.0, 3.0, 90.0], [5.0, NAN, NAN, NAN]]))
    assert found[0].tolist() == [3.0, 3.0, 2.0, 2.0]
    assert count.tolist() == [[3, 3, 3, 3], [0, 1, 1, 1]]


def test_a_cumulative_sum_grows_only_above_its_slack() -> None:
    sums: Numbers = np.zeros(3)
    for value in (4.0, 4.0, NAN, 4.0):
        sums = cusum(sums, np.array([value, value / 2, 10 * value]), 3.0, 20.0)
    assert sums.tolist() == [3.0, 0.0, 51.0]
    assert cusum(sums, np.array([-5.0, 0, 0]), 3.0, 20.0).tolist() == [0.0, 0.0, 48.0]


def test_the_slope_of_a_line_is_found_despite_outliers() -> None:
    values = 5 + 2 * np.arange(12.0)
    values[[2, 7]] = 90, NAN
    assert slopes(values[None, :])[0] == pytest.approx(2)


def test_members_of_a_group_share_lines_of_at_most_sixteen() -> None:
    assert lines_of(np.array([5, 2, 5, 2, 5])).tolist() == [[1, 3, -1], [0, 2, 4]]
    many = lines_of(np.zeros(20, np.int64))
    assert many.shape == (2, 16)
    assert sorted(many[many >= 0].tolist()) == list(range(20))
    assert len(lines_of(np.zeros(0, np.int64))) == 0


def test_mean_power_comes_from_the_energy_counter_and_otherwise_from_samples() -> None:
    power = MeanPower()
    power.grow_to(2)
    slots, sampled = np.array([0, 1]), np.array([500.0, 80.0])

    def take(joules: float, at: float) -> list[float]:
        return list(power.take(slots, np.array([joules, NAN]), np.full(2, at), sampled))

    assert take(1000.0, 0.0) == [500.0, 80.0]
    assert take(7000.0, 60.0) == [100.0, 80.0]
    assert take(10.0, 120.0) == [500.0, 80.0]  # reset


LINES = np.array([[0, 1, 2, 3]])
NOTHING_FROZEN = np.zeros(4, np.bool_)


def heated(minutes: int, load: Callable[[int], float], hotter: Callable[[int], float]) -> Numbers:
    """The excess of four devices after these minutes; `hotter` applies to the first one."""
    model = ThermalModel()
    model.grow_to(4)
    chance = np.random.default_rng(3)
    slots, last = np.arange(4), 300.0
    excess: Numbers = np.full((1, 4), NAN)
    for minute in range(1000, 1000 + minutes):
        power = load(minute - 1000)
        room = 25 + (minute - 1000) / 60  # warms by a degree in an hour
        temperature = room + 0.04 * power + 0.02 * last + np.array([hotter(minute - 1000), 5, -3, 0])
        last = power
        model.begin(minute)
        model.take(slots, np.full(4, power), np.floor(temperature + chance.normal(0, 0.3, 4)))
        due = LINES[model.due(LINES, NOTHING_FROZEN)]
        if len(due):
            model.fit(due, NOTHING_FROZEN)
        excess = model.excess(LINES)
    of_node: Numbers = excess[0]
    return of_node


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(lambda minute: 600.0, id="steady"),
        pytest.param(lambda minute: 400 + 200 * np.sin(minute), id="moving"),
        pytest.param(lambda minute: 600.0 if minute // 5 % 2 else 150.0, id="on and off"),
    ],
)
def test_only_the_overheating_device_has_an_excess(load: Callable[[int], float]) -> None:
    ready = MIN_FIT_MINUTES + GAP_MINUTES + 40
    excess = heated(ready, load, lambda minute: 10.0 if minute > ready - 5 else 0.0)
    assert excess[0] == pytest.approx(10, abs=1.5)
    assert np.abs(excess[1:]).max() < 2


def test_a_power_that_was_not_fitted_is_not_judged() -> None:
    ready = MIN_FIT_MINUTES + GAP_MINUTES + 20
    assert np.isnan(heated(ready, lambda minute: 300.0 if minute < ready - 2 else 600.0, lambda _: 0.0)).all()
    assert np.isnan(heated(MIN_FIT_MINUTES, lambda minute: 300.0, lambda _: 0.0)).all()
