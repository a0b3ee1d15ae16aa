"""Comparing the values of a reader with those of a tool."""

from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from accelscope.model import (
    Clock,
    Core,
    Device,
    EccCount,
    Fan,
    Health,
    HealthState,
    Partition,
    Pcie,
    Rail,
    Sensor,
    Throttle,
    Vendor,
)
from accelscope.vendors.common.cross_check import (
    EXACT,
    Comparison,
    KnownDifference,
    Matcher,
    NotCompared,
    compare,
    hint_of,
    tolerance_of,
    values_of,
    within,
)

MIB = 2**20


def device(**values: object) -> Device:
    return Device(vendor=Vendor("nvidia"), id="nvidia:GPU-1", **values)  # type: ignore[arg-type]


def compared(before: Device, after: Device, told: Device) -> dict[str, Comparison]:
    return {each.place: each for each in compare(before, after, told, "tool", NotCompared())}


def test_every_value_of_a_device_has_a_place() -> None:
    found = values_of(
        device(
            power_watts=300.0,
            mig_enabled=True,
            memory_total_bytes=8 * MIB,
            memory_used_bytes=2 * MIB,
            sensors=(Sensor("gpu", 40.0),),
            clocks=(Clock("sm", hertz=1e9, max_hertz=2e9),),
            cores=(Core(3, utilization_ratio=0.5, occupied=True),),
            pcie=Pcie(generation=5),
            ecc=(EccCount("corrected", lifetime=False, count=4, block="dram"),),
            throttles=(Throttle("sw_power_cap", active=False),),
            partitions=(Partition(id="p", gpu_instance_id=3, compute_instance_id=0, multiprocessors=16),),
            health=Health(HealthState.OK),
        )
    )
    assert {place: value for place, value in found.items() if place not in ("id", "vendor", "stale")} == {
        "power_watts": 300.0,
        "mig_enabled": True,
        "memory_total_bytes": 8 * MIB,
        "memory_used_bytes": 2 * MIB,
        "memory_used_ratio": 0.25,
        "sensors.gpu.celsius": 40.0,
        "clocks.sm.hertz": 1e9,
        "clocks.sm.max_hertz": 2e9,
        "cores.3.utilization_ratio": 0.5,
        "cores.3.occupied": True,
        "pcie.generation": 5,
        "ecc.corrected.volatile.dram.count": 4,
        "throttles.sw_power_cap.active": False,
        "partitions.gi3.ci0.multiprocessors": 16,
        "health": "ok",
    }


@pytest.mark.parametrize(
    ("field", "before", "after", "tool", "agrees"),
    [
        # A value that changes is between the two readings, with a tolerance at both ends.
        ("energy_joules", 1e6, 1.5e6, 1.2e6, True),
        ("energy_joules", 1e6, 1.5e6, 1.502e6, True),
        ("energy_joules", 1e6, 1.5e6, 1.6e6, False),
        ("energy_joules", 1e6, 1.5e6, 0.9e6, False),
        ("power_watts", 300.0, 300.0, 310.0, True),
        ("power_watts", 300.0, 300.0, 320.0, False),
        ("power_watts", 10.0, 10.0, 11.9, True),
        ("memory_used_bytes", 100 * MIB + 7, 100 * MIB + 7, 100 * MIB, True),
        ("memory_used_bytes", 100 * MIB, 100 * MIB, 102 * MIB, False),
        ("temperature_celsius", 60.0, 62.0, 65.0, True),
        ("temperature_celsius", 60.0, 62.0, 66.0, False),
        ("utilization_ratio", 0.0, 1.0, 0.4, True),
        ("utilization_ratio", 0.9, 0.9, 0.8, False),
        ("performance_state", 0, 8, 8, True),
        ("performance_state", 0, 0, 8, False),
        ("mig_enabled", True, True, False, False),
        ("uuid", "GPU-ab", "GPU-ab", "gpu-AB", True),
        ("uuid", "GPU-ab", "GPU-ab", "GPU-ac", False),
        ("firmware_version", "2026.1.0, 91fe3c2", "2026.1.0, 91fe3c2", "2026.1.0+91fe3c2", True),
        ("firmware_version", "2026.1.0", "2026.1.0", "2026.1.1", False),
        ("ecc", (EccCount("corrected", lifetime=False, count=4),), (), (), None),
    ],
)
def test_a_value_agrees_within_its_tolerance(
    field: str, before: object, after: object, tool: object, agrees: bool | None
) -> None:
    found = compared(device(**{field: before}), device(**{field: after}), device(**{field: tool}))
    assert (found[field].agrees if field in found else None) is agrees


@pytest.mark.parametrize(("count", "agrees"), [(3, False), (4, True), (5, True), (6, True), (7, False)])
def test_counts_are_exact(count: int, agrees: bool) -> None:
    def counted(number: int) -> Device:
        return device(ecc=(EccCount("corrected", lifetime=False, count=number),))

    [found] = compared(counted(4), counted(6), counted(count)).values()
    assert found.agrees is agrees


def test_measured_values_are_not_compared_exactly() -> None:
    """Also those that are added to the model later: two programs cannot measure in the same instant."""
    parts = {"sensors": Sensor, "clocks": Clock, "rails": Rail, "fans": Fan, "cores": Core, "pcie": Pcie}
    places = [(field.name, field.type) for field in fields(Device)]
    places += [(f"partitions.0.{field.name}", field.type) for field in fields(Partition)]
    for group, part in parts.items():
        places += [(f"{group}.x.{field.name}", field.type) for field in fields(part)]
    measured = [place for place, kind in places if kind in (float, float | None)]
    assert "power_watts" in measured
    assert [place for place in measured if tolerance_of(place) == EXACT] == []


@pytest.mark.parametrize(
    ("reader", "tool", "agrees"),
    [
        (HealthState.OK, HealthState.OK, True),
        (HealthState.WARNING, HealthState.OK, True),  # a tool that prints `alive` says no more
        (HealthState.CRITICAL, HealthState.OK, False),
        (HealthState.OK, HealthState.CRITICAL, False),
        (HealthState.CRITICAL, HealthState.LOST, True),
        (HealthState.CRITICAL, HealthState.UNKNOWN, None),
    ],
)
def test_health_differs_if_only_one_of_them_calls_the_device_failed(
    reader: HealthState, tool: HealthState, agrees: bool | None
) -> None:
    mine = device(health=Health(reader))
    found = compared(mine, mine, device(health=Health(tool)))
    assert (found["health"].agrees if found else None) is agrees


def test_values_of_one_side_are_counted_and_not_judged() -> None:
    left_out = NotCompared()
    mine = device(power_watts=1.0, pcie=Pcie(transmit_bytes_per_second=1e9))
    told = device(utilization_ratio=0.5, pcie=Pcie(transmit_bytes_per_second=5e9))
    assert list(compare(mine, mine, told, "tool", left_out)) == []
    assert left_out.only_reader == {("nvidia:GPU-1", "power_watts")}
    assert left_out.only_tool == {("nvidia:GPU-1", "utilization_ratio")}
    assert left_out.incomparable == {("nvidia:GPU-1", "pcie.transmit_bytes_per_second")}


@pytest.mark.parametrize(
    ("field", "reader", "tool", "words"),
    [
        ("power_watts", 300.0, 300_000.0, "1,000"),
        ("power_watts", 300.0, 150.0, "a factor of 2"),
        ("power_watts", 300.0, 0.0, "0"),
        ("power_watts", 300.0, 400.0, "run doctor again"),
        ("memory_total_bytes", 80 * 2**30, 80 * 10**9, "gibibytes"),
        ("utilization_ratio", 0.5, 50.0, "percent"),
        ("memory_total_bytes", 80 * 2**30, 79 * 2**30, "different facts"),
        ("uuid", "GPU-a", "GPU-b", "different facts"),
        ("mig_enabled", True, False, "state"),
        ("index", 1, 8, "number them differently"),
    ],
)
def test_a_difference_has_a_hint(field: str, reader: object, tool: object, words: str) -> None:
    mine = device(**{field: reader})
    found = compared(mine, mine, device(**{field: tool}))[field]
    assert words in hint_of(found)


def test_a_known_difference_explains_only_the_values_that_it_is_about() -> None:
    known = KnownDifference(
        fields=("power_*",),
        explanation="an average",
        applies=within(0.3),
        of=lambda gpu: gpu.index == 0,
    )

    def difference(tool: float, index: int = 0, field: str = "power_watts") -> Comparison:
        mine = device(index=index, **{field: 100.0})
        return compared(mine, mine, device(**{field: tool}))[field]

    assert known.explains(difference(120.0))
    assert not known.explains(difference(200.0))
    assert not known.explains(difference(120.0, index=1))
    assert not known.explains(difference(120.0, field="temperature_celsius"))


GPUS = (
    Device(vendor=Vendor("amd"), id="amd:0xa", index=0, uuid="0xa", pci_address="0000:01:00.0"),
    Device(vendor=Vendor("amd"), id="amd:0xb", index=1, uuid="0xb", pci_address="0000:02:00.0", serial="S"),
)
NPUS = (
    Device(vendor=Vendor("furiosa"), id="furiosa:r", index=0, architecture="rngd", uuid="r"),
    Device(vendor=Vendor("furiosa"), id="furiosa:w", index=0, architecture="warboy", uuid="w"),
)


def told(**values: object) -> Device:
    return Device(vendor=Vendor("amd"), id="?", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (told(pci_address="0000:02:00.0"), "amd:0xb"),
        (told(uuid="0xB"), "amd:0xb"),
        (told(uuid="B"), "amd:0xb"),
        (told(pci_address="0000:02:00.3"), "amd:0xb"),  # a partition
        (told(serial="S"), "amd:0xb"),
        (told(index=1), "amd:0xb"),
        (told(pci_address="0000:03:00.0", index=1), None),
        (told(uuid="0xc", index=1), None),
        (told(index=2), None),
    ],
)
def test_a_device_is_found_by_what_identifies_it(entry: Device, expected: str | None) -> None:
    found = Matcher(GPUS).match(entry)
    assert (found.id if found else None) == expected


def test_an_index_refers_to_the_device_that_had_it_in_an_earlier_output() -> None:
    """Tools that list partitions count further than the reader."""
    matcher = Matcher(GPUS)
    for index, address in ((0, "0000:01:00.0"), (1, "0000:01:00.1"), (2, "0000:02:00.0")):
        matcher.match(told(index=index, pci_address=address))
    ids = [found.id for index in range(3) if (found := matcher.match(told(index=index)))]
    assert ids == ["amd:0xa", "amd:0xa", "amd:0xb"]


def test_families_that_count_by_themselves_are_not_mixed_up() -> None:
    matcher = Matcher(NPUS)
    by_family: Callable[[str], Device | None] = lambda family: matcher.match(  # noqa: E731
        told(index=0, architecture=family)
    )
    assert by_family("warboy") is NPUS[1]
    assert by_family("rngd") is NPUS[0]
    assert matcher.match(told(index=0)) is None


def test_a_fact_that_two_devices_share_identifies_neither() -> None:
    twins = [replace(gpu, uuid="0xsame", pci_address=None, index=None) for gpu in GPUS]
    assert Matcher(twins).match(told(uuid="0xsame")) is None
