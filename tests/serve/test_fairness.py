"""What one peer may take of what all share."""

import pytest

from accelscope.serve.allowance import Allowance, PeerAllowances
from accelscope.serve.fair_queue import FairQueue


def test_an_allowance_is_used_up_and_fills_again() -> None:
    allowance = Allowance(per_second=2.0, burst=3)
    assert [allowance.take(10.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert allowance.take(10.25) == 0.25
    assert allowance.take(10.5) == 0
    assert allowance.take(10.5) == 0.5
    assert [allowance.take(1000.0) for _ in range(4)] == [0, 0, 0, 0.5]  # never more than at once


def test_a_clock_that_goes_back_gives_nothing() -> None:
    allowance = Allowance(per_second=1.0, burst=1)
    assert (allowance.take(10.0), allowance.take(5.0)) == (0, 1.0)


def test_each_peer_has_its_own_and_not_too_many_are_remembered() -> None:
    peers = PeerAllowances(per_second=1.0, burst=1, peers_limit=2)
    assert [peers.take(peer, 0.0) for peer in ("a", "a", "b", "b", "a")] == [0, 1.0, 0, 1.0, 1.0]
    assert peers.take("c", 0.0) == 0  # b was not heard of for longest
    assert [peers.take(peer, 0.0) for peer in ("a", "b")] == [1.0, 0]


def filled(*brought: str, limit: int = 6, peer_limit: int = 4) -> tuple[FairQueue[str], list[str]]:
    """`a1` is the first of peer a; and what found no place."""
    queue = FairQueue[str](limit, peer_limit)
    lost = [queue.append(each[0], each) for each in brought]
    return queue, [each for each in lost if each is not None]


@pytest.mark.parametrize(
    ("brought", "taken", "lost"),
    [
        ("a1 a2 a3 b1 b2 c1", "a1 b1 c1 a2 b2 a3", ""),
        ("a1 a2 a3 a4 a5 b1", "a1 b1 a2 a3 a4", "a5"),
        ("a1 a2 a3 a4 b1 b2 b3", "a1 b1 a2 b2 a3 a4", "b3"),
        ("a1 a2 a3 a4 b1 b2 c1", "a1 b1 c1 a2 b2 a3", "a4"),
        ("a1 a2 b1 b2 c1 c2 d1 e1", "a1 b1 c1 d1 e1 c2", "a2 b2"),
        ("a1 b1 c1 d1 e1 f1 g1", "a1 b1 c1 d1 e1 f1", "g1"),
    ],
)
def test_peers_take_turns_and_who_has_most_makes_room(brought: str, taken: str, lost: str) -> None:
    queue, without_place = filled(*brought.split())
    assert without_place == lost.split()
    order = []
    while queue:
        first = queue.first()
        order.append(queue.pop())
        assert order[-1] == first
    assert order == taken.split()


def test_room_is_a_peers_own_matter() -> None:
    queue, _ = filled("a1", "a2", "a3", "a4")
    assert (queue.has_room("a"), queue.has_room("b")) == (False, True)
    queue.pop()
    assert queue.has_room("a")
