"""Which devices a container should best get, held against trying everything."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.deviceplugin.offers import Offer
from accelscope.deviceplugin.service import preferred
from accelscope.model import Device, Vendor

MAX_OFFERS = 10


def offer(card: int, core: int, numa: int | None) -> Offer:
    device = Device(vendor=Vendor("furiosa"), id=f"card{card}", index=card)
    return Offer(f"card{card}_cores_{core}", device, (core,), numa_node=numa)


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Offer]:
    cards = draw(
        st.lists(st.tuples(st.integers(1, 4), st.sampled_from([None, 0, 1])), min_size=1, max_size=4)
    )
    offers = [offer(card, core, numa) for card, (cores, numa) in enumerate(cards) for core in range(cores)]
    return {each.id: each for each in offers[:MAX_OFFERS]}


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, Offer], list[str], list[str], int]:
    offers = draw(nodes())
    available = draw(st.lists(st.sampled_from(sorted(offers)), min_size=1, unique=True))
    must = draw(st.lists(st.sampled_from(available), unique=True, max_size=2))
    size = draw(st.integers(max(1, len(must)), len(available)))
    return offers, available, must, size


def cost(ids: tuple[str, ...] | list[str], offers: dict[str, Offer]) -> tuple[int, int]:
    return len({offers[i].device.id for i in ids}), len({offers[i].numa_node for i in ids})


@given(requests())
def test_the_chosen_devices_are_the_best_choice(
    request: tuple[dict[str, Offer], list[str], list[str], int],
) -> None:
    offers, available, must, size = request
    chosen = preferred(available, must, size, offers)
    assert len(chosen) == len(set(chosen)) == size
    assert set(must) <= set(chosen) <= set(available)
    possible = (ids for ids in combinations(available, size) if set(must) <= set(ids))
    assert cost(chosen, offers) == min(cost(ids, offers) for ids in possible)


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)), st.integers(-5, 10), nodes())
def test_any_request_gets_an_answer(
    available: list[str], must: list[str], size: int, offers: dict[str, Offer]
) -> None:
    mixed = [*available, *offers]
    chosen = preferred(mixed, must, size, offers)
    assert set(must) <= set(chosen) <= {*mixed, *must}
    assert len(chosen) == len(set(chosen)) <= max(size, len(set(must)))


def node(*cards: tuple[tuple[int, ...], int | None]) -> dict[str, Offer]:
    """Cards by their free cores and NUMA node."""
    offers = [offer(card, core, numa) for card, (cores, numa) in enumerate(cards) for core in cores]
    return {each.id: each for each in offers}


@pytest.mark.parametrize(
    ("cards", "must", "size", "expected"),
    [
        pytest.param([((0, 1), 0), ((1,), 0)], [], 1, ["1:1"], id="the card that is fullest"),
        pytest.param([((0, 1, 2, 3), 0), ((0, 1), 0)], [], 2, ["1:0", "1:1"], id="the card that just fits"),
        pytest.param([((0, 1), 0), ((0, 1), 1)], ["1:0"], 2, ["1:0", "1:1"], id="beside what it has"),
        pytest.param([((0,), 0), ((0,), 1), ((0,), 0)], [], 2, ["0:0", "2:0"], id="one NUMA node"),
        pytest.param([((0, 3, 4, 5, 7), 0)], [], 3, ["0:3", "0:4", "0:5"], id="cores side by side"),
        pytest.param([((1, 2, 3, 4, 5), 0)], [], 2, ["0:2", "0:3"], id="as fusions are cut"),
        pytest.param([((0, 2, 6, 7), 0)], ["0:7"], 2, ["0:6", "0:7"], id="next to what it has"),
    ],
)
def test_preferred_devices(
    cards: list[tuple[tuple[int, ...], int | None]], must: list[str], size: int, expected: list[str]
) -> None:
    def name(short: str) -> str:
        card, core = short.split(":")
        return f"card{card}_cores_{core}"

    offers = node(*cards)
    assert sorted(preferred(list(offers), [name(m) for m in must], size, offers)) == [
        name(e) for e in expected
    ]
