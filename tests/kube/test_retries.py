"""Pauses between attempts: soon at first, a minute at last."""

import pytest

from accelscope.kube.endpoint import KubeError, Reason
from accelscope.kube.listwatch import Backoff


def waited(retries: Backoff, *reasons: Reason) -> list[float]:
    return [retries.failed(KubeError(reason, "no")) for reason in reasons]


@pytest.mark.parametrize(("chance", "ratio"), [(0.0, 1.0), (0.5, 1.5), (0.999, 1.999)])
@pytest.mark.parametrize("reason", [Reason.UNREACHABLE, Reason.FORBIDDEN, Reason.NOT_FOUND])
def test_pauses_double_up_to_a_minute(reason: Reason, chance: float, ratio: float) -> None:
    waits = waited(Backoff(lambda: chance), *[reason] * 8)
    assert waits == [ratio * seconds for seconds in (1, 2, 4, 8, 16, 30, 30, 30)]


def test_a_token_that_is_not_taken_is_shown_once_a_minute() -> None:
    assert waited(Backoff(lambda: 0.5), *[Reason.UNAUTHORIZED] * 3) == [52.5, 52.5, 52.5]


def test_a_success_begins_anew() -> None:
    retries = Backoff(lambda: 0.0)
    waited(retries, *[Reason.TIMEOUT] * 3, *[Reason.FORBIDDEN] * 3)
    retries.succeeded()
    assert retries.failures == 0
    assert waited(retries, Reason.TIMEOUT, Reason.FORBIDDEN) == [1, 1]


def test_what_is_not_granted_is_counted_by_itself_and_in_all() -> None:
    retries = Backoff(lambda: 0.0)
    assert waited(retries, *[Reason.UNREACHABLE, Reason.FORBIDDEN] * 3) == [1, 1, 4, 2, 16, 4]
    assert retries.failures == 6


def test_a_failure_that_is_no_answer_of_a_server() -> None:
    retries = Backoff(lambda: 0.0)
    assert [retries.failed() for _ in range(3)] == [1, 2, 4]


@pytest.mark.parametrize(("asked", "waits"), [(None, 1), (0.5, 1), (37, 37), (86_400, 600)])
def test_a_server_may_ask_for_longer(asked: float | None, waits: float) -> None:
    error = KubeError(Reason.THROTTLED, "slow down", retry_after=asked)
    assert Backoff(lambda: 0.0).failed(error) == waits
