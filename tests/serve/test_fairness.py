"""What one peer may take of what all share."""

import pytest

from accelscope.agent.token_review import FairQueue


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
