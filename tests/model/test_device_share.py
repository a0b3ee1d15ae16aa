"""How much of a device each pod holds: parts of one card never add up to more than the card."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.model import (
    Allocation,
    AllocationSource,
    Device,
    Partition,
    PodUsage,
    Vendor,
    device_shares,
    usage_shares,
)

GIB = 2**30
CARD = Device(vendor=Vendor("nvidia"), id="nvidia:a", memory_total_bytes=80 * GIB)


def held(pod: str, **facts: Any) -> Allocation:
    return Allocation(
        namespace="ns",
        pod=pod,
        container="main",
        source=AllocationSource.KUBELET,
        device_id="x",
        device=CARD.id,
        **facts,
    )


def shares(*allocations: Allocation, device: Device = CARD, ratio: float | None = None) -> dict[str, float]:
    holders: dict[str, list[Allocation]] = {}
    for allocation in allocations:
        holders.setdefault(allocation.pod, []).append(allocation)
    return device_shares(device, holders, ratio)


def test_who_holds_a_card_alone_holds_the_whole_card() -> None:
    assert shares(held("a")) == {"a": 1.0}


def test_pods_on_one_card_each_hold_an_equal_part_of_it_by_the_ids_they_hold() -> None:
    assert shares(held("a"), held("b")) == {"a": 0.5, "b": 0.5}
    assert shares(held("a"), held("a"), held("b"), held("c")) == {"a": 0.5, "b": 0.25, "c": 0.25}


def test_a_card_that_a_setting_cuts_into_four_gives_a_quarter_to_each_id() -> None:
    assert shares(held("a"), held("b"), held("b"), ratio=4) == {"a": 0.25, "b": 0.5}


def test_what_a_scheduler_granted_is_the_share() -> None:
    granted = shares(held("a", compute_ratio=0.3, memory_bytes=10 * GIB), held("b", memory_bytes=20 * GIB))
    assert granted == {"a": 0.3, "b": 0.25}


def test_grants_of_more_than_the_card_are_scaled_down_to_it() -> None:
    assert shares(held("a", compute_ratio=0.9), held("b", compute_ratio=0.9)) == {"a": 0.5, "b": 0.5}
    three_of_two = shares(held("a"), held("b"), held("c"), ratio=2)
    assert three_of_two == pytest.approx(dict.fromkeys("abc", 1 / 3))
    assert shares(held("a"), ratio=0.5) == {"a": 1.0}


def test_a_partition_is_its_part_of_the_memory_of_the_card() -> None:
    parts = tuple(Partition(id=name, memory_total_bytes=n * GIB) for name, n in (("big", 40), ("small", 10)))
    card = replace(CARD, partitions=parts)
    on_each = shares(held("a", partition="big"), held("b", partition="small"), device=card)
    assert on_each == {"a": 0.5, "b": 0.125}
    two_on_one = shares(held("a", partition="big"), held("b", partition="big"), device=card)
    assert two_on_one == {"a": 0.25, "b": 0.25}


def test_partitions_that_share_their_memory_are_equal_parts() -> None:
    parts = (Partition(id="0", memory_total_bytes=80 * GIB), *(Partition(id=name) for name in "123"))
    card = replace(CARD, partitions=parts)
    assert shares(held("a", partition="0"), held("b", partition="3"), device=card) == {"a": 0.25, "b": 0.25}


def usage(pod: str, allocated: int = 1, share: float | None = None) -> PodUsage:
    return PodUsage(
        device=CARD.id, namespace="ns", pod=pod, container="c", allocated=allocated, device_share_ratio=share
    )


def test_an_agent_that_tells_no_shares_has_its_cards_divided_equally() -> None:
    assert usage_shares([usage("a"), usage("b"), usage("c", allocated=0)]) == [0.5, 0.5, 0.0]
    assert usage_shares([usage("a", share=0.25), usage("b", share=0.0)]) == [0.25, 0.0]
    assert usage_shares([usage("a", share=5.0), usage("b", share=-1.0)]) == [1.0, 0.0]


grants = st.builds(
    held,
    st.sampled_from("abc"),
    compute_ratio=st.none() | st.floats(0, 1),
    memory_bytes=st.none() | st.integers(0, 200 * GIB),
    partition=st.sampled_from((None, "p0", "p1", "gone")),
)
memory = st.none() | st.integers(0, 80 * GIB)


@given(st.lists(grants), st.none() | st.floats(1e-6, 1e6), memory, memory, memory)
def test_shares_of_a_card_never_add_up_to_more_than_the_card(
    allocations: list[Allocation], ratio: float | None, total: int | None, one: int | None, other: int | None
) -> None:
    card = Device(
        vendor=Vendor("nvidia"),
        id=CARD.id,
        memory_total_bytes=total,
        partitions=(Partition(id="p0", memory_total_bytes=one), Partition(id="p1", memory_total_bytes=other)),
    )
    found = shares(*allocations, device=card, ratio=ratio)
    assert all(share >= 0 for share in found.values())
    assert sum(found.values()) <= 1 + 1e-9
