"""Which of the available devices a container should best get: pure functions over offers.

Fewest cards first: what is left over can then still go to somebody who needs a whole card, and a container's
parts are near each other. Then fewest NUMA nodes. Then the fullest cards, and cores that stand side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from accelscope.deviceplugin.offers import Offer

_MOST_NUMA_NODES = 8  # beyond, subsets are too many to try: NUMA is then left out


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an id lies, as far as it is known."""

    id: str
    card: str
    numa_node: int | None
    order: tuple[int, int, str]  # within the card: first core, share


def preferred(
    available: Sequence[str], must: Sequence[str], size: int, offers: Mapping[str, Offer]
) -> list[str]:
    """`size` of `available`, with all of `must`; fewer only where fewer are available, more only where `must`
    has more. An id that is not offered (any more) counts as a card of its own."""
    needed = [_place(each, offers) for each in dict.fromkeys(must)]
    required = {place.id for place in needed}
    free: dict[str, list[_Place]] = {}
    for each in dict.fromkeys(available):
        if each not in required:
            place = _place(each, offers)
            free.setdefault(place.card, []).append(place)
    chosen: dict[str, list[_Place]] = {}
    for place in needed:
        chosen.setdefault(place.card, []).append(place)
    missing = min(size - len(needed), sum(map(len, free.values())))
    taken = list(needed)
    # On cards that the container is on anyhow, the one with least left first.
    for card in sorted(chosen, key=lambda card: len(free.get(card, ()))):
        if missing > 0:
            picked = _side_by_side(free.pop(card, []), chosen[card], missing)
            taken += picked
            missing -= len(picked)
    if missing > 0:
        nodes = {place.numa_node for place in needed}
        for card, count in _fewest_cards(free, missing, nodes):
            taken += _side_by_side(free[card], [], count)
    return [place.id for place in taken]


def _place(each: str, offers: Mapping[str, Offer]) -> _Place:
    offer = offers.get(each)
    if offer is None:
        return _Place(each, each, None, (0, 0, each))
    first = offer.cores[0] if offer.cores else 0
    return _Place(each, offer.device.id, offer.numa_node, (first, offer.share, each))


def _fewest_cards(
    free: Mapping[str, Sequence[_Place]], missing: int, nodes: set[int | None]
) -> list[tuple[str, int]]:
    """Cards and how many to take from each; `nodes` are those that the container is on already."""
    on_node = {card: places[0].numa_node for card, places in free.items()}
    others = sorted(set(on_node.values()) - nodes, key=lambda node: (node is None, node or 0))
    best: list[tuple[str, int]] | None = None
    for added in range(len(others) + 1) if len(others) <= _MOST_NUMA_NODES else (len(others),):
        for extra in combinations(others, added):
            within = {
                card: len(free[card]) for card in free if on_node[card] in nodes or on_node[card] in extra
            }
            if sum(within.values()) >= missing:
                plan = _packed(within, missing)
                if best is None or len(plan) < len(best):
                    best = plan
    assert best is not None  # all nodes together have enough
    return best


def _packed(room: Mapping[str, int], missing: int) -> list[tuple[str, int]]:
    """The largest cards until one is enough for the rest; of those that are, the smallest."""
    plan: list[tuple[str, int]] = []
    left = dict(room)
    while missing > 0:
        enough = [card for card, count in left.items() if count >= missing]
        card = min(enough, key=lambda card: left[card]) if enough else max(left, key=lambda card: left[card])
        plan.append((card, min(missing, left.pop(card))))
        missing -= plan[-1][1]
    return plan


def _side_by_side(free: Sequence[_Place], beside: Sequence[_Place], count: int) -> list[_Place]:
    """At most `count` of one card's, near each other and to those that the container has of it already."""
    ordered = sorted(free, key=lambda place: place.order)
    if count >= len(ordered):
        return ordered
    kept = [place.order[0] for place in beside]

    def spread(start: int) -> tuple[int, int, int]:
        window = [place.order[0] for place in ordered[start : start + count]] + kept
        return max(window) - min(window), ordered[start].order[0] % count, start

    start = min(range(len(ordered) - count + 1), key=spread)
    return ordered[start : start + count]
