"""How often somebody may ask."""

from accelscope.allowance import Allowances, Rate


def test_an_allowance_is_used_up_and_fills_again() -> None:
    allowances = Allowances(Rate(per_second=2.0, burst=3))
    assert [allowances.take("", 10.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert allowances.take("", 10.25) == 0.25
    assert allowances.wait("", 10.25) == 0.25
    assert allowances.take("", 10.5) == 0
    assert allowances.take("", 10.5) == 0.5
    assert [allowances.take("", 1000.0) for _ in range(4)] == [0, 0, 0, 0.5]  # never more than at once


def test_a_clock_that_goes_back_gives_nothing() -> None:
    allowances = Allowances(Rate(per_second=1.0, burst=1))
    assert [allowances.take("", now) for now in (10.0, 5.0, 10.0)] == [0, 1.0, 1.0]


def test_each_has_its_own_and_not_too_many_are_remembered() -> None:
    allowances = Allowances(Rate(per_second=1.0, burst=1), keys_limit=2)
    assert [allowances.take(key, 0.0) for key in ("a", "a", "b", "b", "a")] == [0, 1.0, 0, 1.0, 1.0]
    assert allowances.take("c", 0.0) == 0  # b did not ask for longest; a did, though it was refused
    assert [allowances.take(key, 0.0) for key in ("a", "b")] == [1.0, 0]
