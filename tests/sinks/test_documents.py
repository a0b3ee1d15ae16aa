"""What the annotations hold, read as Go's encoding/json reads into a struct."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sinks.go_reader import CHIP, GoError, decode_chips
from tests.sinks.snapshots import START, card, chip, snapshot

from accelscope.model import Device, Health, HealthState, Snapshot, Vendor
from accelscope.sinks.annotation import differ
from accelscope.sinks.documents import Document, devices_document, fit, vendor_document
from accelscope.vendors.ascend import VENDOR as ASCEND


def npu_metrics(taken: Snapshot) -> str:
    """What is written to the Node."""
    return fit(vendor_document(ASCEND, taken)).text


def test_the_strict_reader_of_these_tests_is_strict() -> None:
    for bad in ('"temp":40.0', '"temp":null', '"temp":4e1', '"temp":"40"', '"extra":1', '"health":1'):
        with pytest.raises(GoError):
            decode_chips('{"timestamp":"2026-01-02T03:04:05Z","chips":[{' + bad + "}]}")


def test_a_chip_is_written_as_the_old_collector_wrote_it() -> None:
    assert npu_metrics(snapshot(chip())) == (
        '{"timestamp":"2026-01-02T03:04:05Z","chips":[{"npu":0,"chip":0,"phy_id":0,'
        '"bus_id":"0000:C0:00.0","health":"OK","power":93.5,"temp":40,"aicore":12,'
        '"hbm_used":3381,"hbm_total":65536}]}'
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"temperature_celsius": 40.6}, {"temp": 41}),
        ({"utilization_ratio": 0.126}, {"aicore": 13}),
        ({"power_watts": 93.0}, {"power": 93.0}),
        ({"power_watts": 93.4567}, {"power": 93.5}),
        ({"memory_used_bytes": (1 << 20) + 1}, {"hbm_used": 1}),
        ({"health": Health(HealthState.WARNING, vendor_word="Warning")}, {"health": "Warning"}),
        ({"health": Health(HealthState.CRITICAL, vendor_word="Alarm")}, {"health": "Alarm"}),
        ({"health": Health(HealthState.UNKNOWN)}, {"health": "UNKNOWN"}),
    ],
)
def test_values_are_rounded_and_health_is_the_tools_word(
    fields: dict[str, Any], told: dict[str, Any]
) -> None:
    [entry] = decode_chips(npu_metrics(snapshot(chip(**fields))))
    assert told.items() <= entry.items()


@pytest.mark.parametrize(
    ("physical", "logic", "written"), [(9, 3, 9), (0, 3, 0), (None, 3, 3), (None, 0, 0), (None, None, None)]
)
def test_phy_id_is_the_physical_id_or_else_the_logic_id(
    physical: int | None, logic: int | None, written: int | None
) -> None:
    """`npu-smi` of a 910B or 310P prints no Phy-ID, and readers print `phy_id` as the number of the row."""
    [entry] = decode_chips(npu_metrics(snapshot(chip(7, physical_id=physical, index=logic))))
    assert entry.get("phy_id") == written


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_absent_values_are_omitted(value: float | None) -> None:
    [entry] = decode_chips(npu_metrics(snapshot(chip(power_watts=value, temperature_celsius=value))))
    assert entry.keys() == CHIP.keys() - {"power", "temp"}


def test_an_unreadable_chip_has_no_values_and_a_lost_one_is_omitted() -> None:
    identity = {"board_id", "chip_id", "physical_id", "pci_address"}
    kept = {name: getattr(chip(1), name) for name in identity}
    stale = Device(vendor=Vendor("ascend"), id="ascend:1", stale=True, **kept)
    lost = replace(stale, id="ascend:2", board_id=2, health=Health(HealthState.LOST, "not shown"))
    entries = decode_chips(npu_metrics(snapshot(chip(0), stale, lost)))
    assert [entry["npu"] for entry in entries] == [0, 1]
    assert entries[1] == {"npu": 1, "chip": 0, "phy_id": 1, "bus_id": "0000:C1:00.0", "health": "UNKNOWN"}


def test_only_ascend_chips_are_listed_in_the_order_of_their_numbers() -> None:
    entries = decode_chips(npu_metrics(snapshot(chip(7), card(0), chip(1), chip(1, chip_id=1))))
    assert [(entry["npu"], entry["chip"]) for entry in entries] == [(1, 0), (1, 1), (7, 0)]
    assert decode_chips(npu_metrics(snapshot(card(0)))) == []


def test_devices_of_every_vendor_with_the_models_names_and_units() -> None:
    gone = card(1, model=None, memory_total_bytes=None, health=Health(HealthState.LOST, "gone"))
    document = json.loads(
        fit(devices_document(snapshot(card(0, utilization_ratio=0.5, power_watts=300.04), gone))).text
    )
    assert document == {
        "timestamp": "2026-01-02T03:04:05Z",
        "devices": [
            {
                "id": "nvidia:card-0",
                "vendor": "nvidia",
                "index": 0,
                "model": "NVIDIA H100 80GB HBM3",
                "health": "ok",
                "utilization_ratio": 0.5,
                "memory_total_bytes": 81559 << 20,
                "power_watts": 300.0,
            },
            {"id": "nvidia:card-1", "vendor": "nvidia", "index": 1, "health": "lost"},
        ],
    }


maybe = st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**12), 10**15)
chips = st.builds(
    chip,
    st.integers(0, 4096),
    chip_id=st.none() | st.integers(0, 7),
    pci_address=st.none() | st.text(max_size=20),
    power_watts=maybe,
    temperature_celsius=maybe,
    utilization_ratio=maybe,
    memory_used_bytes=st.none() | st.integers(0, 2**50),
    stale=st.booleans(),
    health=st.builds(
        Health, st.sampled_from(HealthState), st.none(), st.none() | st.text(min_size=1, max_size=32)
    ),
)


@given(st.lists(chips, max_size=6), st.floats(0, 4e9), st.integers(100, 3000))
def test_any_values_give_a_valid_document_within_the_budget(
    told: list[Device], at: float, budget: int
) -> None:
    taken = snapshot(*told, at=at)
    shown = decode_chips(npu_metrics(taken))
    assert len(shown) == sum(device.health.state is not HealthState.LOST for device in told)
    cut = fit(vendor_document(ASCEND, taken), budget)
    assert len(cut.text) <= budget
    assert len(decode_chips(cut.text)) == len(shown) - cut.left_out


def test_values_and_then_devices_are_omitted_from_the_last_one_on() -> None:
    document = vendor_document(ASCEND, snapshot(*(chip(n) for n in range(10))))
    whole = fit(document)
    assert (whole.without_values, whole.left_out) == (0, 0)
    some = fit(document, len(whole.text))  # the annotation's name counts too
    entries = decode_chips(some.text)
    assert 1 <= some.without_values < 10
    assert some.left_out == 0
    assert ["power" in entry for entry in entries] == [True] * (10 - some.without_values) + [
        False
    ] * some.without_values
    few = fit(document, 400)
    assert few.left_out > 0
    assert few.without_values + few.left_out == 10
    assert [entry["npu"] for entry in decode_chips(few.text)] == list(range(few.without_values))


@pytest.mark.parametrize(
    ("before", "after", "worth_it"),
    [
        ({}, {}, False),
        ({"power_watts": 30.0}, {"power_watts": 31.0}, False),
        ({"power_watts": 30.0}, {"power_watts": 31.1}, True),
        ({"power_watts": 300.0}, {"power_watts": 306.0}, False),
        ({"power_watts": 300.0}, {"power_watts": 306.2}, True),
        ({"power_watts": 300.0}, {"power_watts": None}, True),
        ({"temperature_celsius": 40.0}, {"temperature_celsius": 41.0}, False),
        ({"temperature_celsius": 40.0}, {"temperature_celsius": 38.0}, True),
        ({"utilization_ratio": 0.50}, {"utilization_ratio": 0.52}, False),
        ({"utilization_ratio": 0.50}, {"utilization_ratio": 0.53}, True),
        ({"memory_used_bytes": 0}, {"memory_used_bytes": 655 << 20}, False),
        ({"memory_used_bytes": 0}, {"memory_used_bytes": 657 << 20}, True),
        ({}, {"memory_total_bytes": 32768 << 20}, True),
        ({}, {"health": Health(HealthState.WARNING, vendor_word="Warning")}, True),
        ({}, {"physical_id": 5}, True),
    ],
)
@pytest.mark.parametrize("make", [partial(vendor_document, ASCEND), devices_document])
def test_only_changes_beyond_the_dead_band_are_written(
    before: dict[str, Any], after: dict[str, Any], worth_it: bool, make: Any
) -> None:
    def document(fields: dict[str, Any], at: float) -> Document:
        made: Document = make(snapshot(chip(**fields), at=at))
        return made

    if make is devices_document and "physical_id" in after:
        worth_it = False  # that document does not have it
    assert differ(document(after, START + 3), document(before, START)) is worth_it


def test_another_number_of_devices_is_written() -> None:
    one, two = vendor_document(ASCEND, snapshot(chip(0))), vendor_document(ASCEND, snapshot(chip(0), chip(1)))
    assert differ(one, two)
    assert differ(two, one)
