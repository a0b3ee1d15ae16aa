"""Files of the RNGD driver as the vendor's own library reads them (furiosa-smi 2026.4), without a tool."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import program
from tests.vendors.furiosa.furiosa_tree import hwmon, options, rngd, write

from accelscope.model import AbsenceReason, Device, HealthState
from accelscope.vendors.furiosa.reader import FuriosaReader

AT = "0000:44:00.0"
CLASS = "sys/class/rngd_mgmt"
SENSORS = {"temp1": ("PEAK", 59650), "power1": ("RMS_TOTAL", 151000000)}
CORE_BYTES = 6_375_342_080  # an eighth of the 47.5 GiB of a card


def alloc_status(used: int, *, capacity: int = CORE_BYTES, shared: tuple[int, int] = (0, 0)) -> str:
    return (
        f"dram_capacity: {capacity:#x}\ndram_usage: {used:#x}\n"
        f"shared_capacity: {shared[0]:#x}\nshared_usage: {shared[1]:#x}\n"
    )


def metrics(cycles: int, task_cycles: int) -> str:
    return f"CycleCount: {cycles:#x}\nTaskCycleCount: {task_cycles:#x}\n"


def core_files(name: str, texts: Mapping[int, str]) -> dict[str, str]:
    return {f"{CLASS}/rngd!npu0pe{core}/{name}": text for core, text in texts.items()}


class Node:
    """One card whose files a test changes between two readings, a second apart."""

    def __init__(self, root: Path, **changed: str) -> None:
        self._root = root
        self._now = 1000.0
        write(root, rngd(0, AT, **changed) | hwmon(AT, SENSORS))
        self._reader = FuriosaReader(replace(options(root), clock=lambda: self._now))

    def read(self, files: Mapping[str, str] | None = None) -> Device:
        write(self._root, files or {})
        self._now += 1.0
        [key] = self._reader.survey().keys
        return self._reader.read(key).device


def absence(card: Device, field: str) -> AbsenceReason | None:
    return next((each.reason for each in card.absent if each.field == field), None)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("0\n", HealthState.OK),
        ("1\n", HealthState.CRITICAL),
        ("2\n", HealthState.CRITICAL),
        ("255\n", HealthState.CRITICAL),
        ("-1\n", HealthState.CRITICAL),
        ("unknown\n", HealthState.CRITICAL),
        ("\n", HealthState.UNKNOWN),
    ],
)
def test_device_state_0_is_alive_and_anything_else_is_not(
    tmp_path: Path, text: str, state: HealthState
) -> None:
    health = Node(tmp_path, device_state=text).read().health
    assert health.state is state
    if state is HealthState.CRITICAL:
        assert "not alive" in (health.reason or "")


def test_a_card_without_device_state_has_an_unknown_health(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (tmp_path / f"{CLASS}/rngd!npu0mgmt/device_state").unlink()
    assert node.read().health.state is HealthState.UNKNOWN


def test_clocks_are_in_hertz(tmp_path: Path) -> None:
    card = Node(tmp_path, npu_clocks="2000000000\n" * 4 + "600000000\n" * 4).read()
    assert [core.clock_hertz for core in card.cores] == [2e9] * 4 + [6e8] * 4
    assert [(clock.domain, clock.hertz) for clock in card.clocks] == [("npu", 2e9)]


def test_a_small_clock_is_not_taken_for_megahertz(tmp_path: Path) -> None:
    card = Node(tmp_path, npu_clocks="2000\n" * 8).read()
    assert {core.clock_hertz for core in card.cores} == {2000.0}


def test_memory_is_the_sum_over_the_cores_with_their_shared_part(tmp_path: Path) -> None:
    card = Node(tmp_path, pe_occupancy="1\n" * 8).read(
        core_files("alloc_status", {core: alloc_status(core << 20, shared=(64, 16)) for core in range(8)})
    )
    assert card.memory_total_bytes == 8 * (CORE_BYTES + 64)
    assert card.memory_used_bytes == (28 << 20) + 8 * 16


def test_a_card_that_holds_nothing_uses_0_bytes(tmp_path: Path) -> None:
    card = Node(tmp_path).read(core_files("alloc_status", dict.fromkeys(range(8), alloc_status(0))))
    assert (card.memory_total_bytes, card.memory_used_bytes) == (8 * CORE_BYTES, 0)
    assert absence(card, "memory_used_bytes") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("4242\n", AbsenceReason.NOT_KNOWN),  # an older driver: a number that is no size
        ("dram_capacity: 0x100\ndram_usage: 0x10\n", AbsenceReason.UNREADABLE),
        ("dram_capacity: lots\n", AbsenceReason.UNREADABLE),
        ("\n", AbsenceReason.NO_SAMPLE),
        (None, AbsenceReason.NOT_KNOWN),
    ],
)
def test_with_one_core_unread_there_is_no_sum(
    tmp_path: Path, text: str | None, reason: AbsenceReason
) -> None:
    files = core_files("alloc_status", dict.fromkeys(range(8), alloc_status(4096)))
    path = f"{CLASS}/rngd!npu0pe5/alloc_status"
    del files[path]
    node = Node(tmp_path, pe_occupancy="1\n" * 8)
    card = node.read(files if text is None else files | {path: text})
    assert (card.memory_total_bytes, card.memory_used_bytes) == (None, None)
    assert absence(card, "memory_total_bytes") is absence(card, "memory_used_bytes") is reason


def test_utilisation_comes_from_the_counters_of_the_cores(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.read(core_files("metrics", dict.fromkeys(range(8), metrics(1 << 40, 1 << 38))))
    after = {core: metrics((1 << 40) + 1000, (1 << 38) + 100 * core) for core in range(8)}
    card = node.read(core_files("metrics", after))
    # Only cores 0 and 1 are occupied. The vendor's library does not read the counters of the others.
    assert [core.utilization_ratio for core in card.cores] == [0.0, 0.1] + [0.0] * 6
    assert card.utilization_ratio == pytest.approx(0.1 / 8)
    assert [core.cycles_total for core in card.cores] == [(1 << 40) + 1000] * 2 + [None] * 6
    assert card.cores[1].task_cycles_total == (1 << 38) + 100


def test_an_idle_card_needs_no_counters(tmp_path: Path) -> None:
    card = Node(tmp_path, pe_occupancy="0\n" * 8).read()
    assert {core.utilization_ratio for core in card.cores} == {0.0}
    assert card.utilization_ratio == 0.0
    assert (card.memory_total_bytes, card.memory_used_bytes) == (8 * CORE_BYTES, 0)
    assert card.absent == ()


def test_counters_that_stand_still_measure_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.read(core_files("metrics", dict.fromkeys(range(8), metrics(5000, 700))))
    card = node.read()
    assert [core.utilization_ratio for core in card.cores] == [None] * 2 + [0.0] * 6
    assert card.utilization_ratio is None
    assert absence(card, "utilization_ratio") is AbsenceReason.NO_SAMPLE


def test_a_core_that_runs_cycles_without_a_task_is_at_0(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.read(core_files("metrics", dict.fromkeys(range(8), metrics(5000, 700))))
    card = node.read(core_files("metrics", dict.fromkeys(range(8), metrics(9000, 700))))
    assert {core.utilization_ratio for core in card.cores} == {0.0}
    assert card.utilization_ratio == 0.0


@pytest.mark.parametrize(
    ("cycles", "task_cycles", "ratio"),
    [
        (1000, 1500, 1.0),  # the two counters are not read at one instant
        (-500, 0, None),  # the card was reset
        (1000, -100, None),
    ],
)
def test_a_share_is_at_most_1_and_a_reset_is_no_share(
    tmp_path: Path, cycles: int, task_cycles: int, ratio: float | None
) -> None:
    node = Node(tmp_path)
    node.read(core_files("metrics", dict.fromkeys(range(8), metrics(10_000, 5_000))))
    card = node.read(
        core_files("metrics", dict.fromkeys(range(8), metrics(10_000 + cycles, 5_000 + task_cycles)))
    )
    assert {core.utilization_ratio for core in card.cores if core.occupied} == {ratio}


def test_the_power_limit_is_power1_max_in_microwatts(tmp_path: Path) -> None:
    card = Node(tmp_path).read({f"sys/bus/pci/devices/{AT}/hwmon/hwmon3/power1_max": "225500000\n"})
    assert card.power_limit_watts == 225.5
    assert card.power_watts == 151.0


def test_the_limit_of_the_sensors_goes_before_that_of_debugfs(tmp_path: Path) -> None:
    debugfs = "sys/kernel/debug/rngd/mgmt0"
    files = {f"{debugfs}/power_limit_mw": "300000\n", f"{debugfs}/power_limit_default_mw": "300000\n"}
    node = Node(tmp_path)
    assert node.read(files).power_limit_watts == 300.0
    card = node.read({f"sys/bus/pci/devices/{AT}/hwmon/hwmon3/power1_max": "225000000\n"})
    assert (card.power_limit_watts, card.power_limit_default_watts) == (225.0, 300.0)


@pytest.mark.parametrize(
    ("text", "active"),
    [
        ("0x00000000\n", set()),
        ("0x00000082\n", {"thermal_slowdown", "gov_clock_cap"}),
        ("0x100\n", {"other_reason"}),
        ("ff\n", {"idle", "thermal_slowdown", "app_power_cap", "app_clock_cap", "hw_clock_cap"}
         | {"hw_bus_limit", "hw_power_cap", "gov_clock_cap"}),
        ("0x200\n", {"unknown"}),
    ],
)  # fmt: skip
def test_bits_of_throttle_reason(tmp_path: Path, text: str, active: set[str]) -> None:
    card = Node(tmp_path, throttle_reason=text).read()
    assert {throttle.reason for throttle in card.throttles if throttle.active} == active


def test_the_drivers_own_list_of_throttle_reasons_decides(tmp_path: Path) -> None:
    listed = "0x00000001 THROTTLE_IDLE\n0x00000080 THROTTLE_OTHER_REASON\n"  # as until 2026.1
    card = Node(tmp_path, throttle_reason="0x80\n", throttle_reason_list=listed).read()
    assert {throttle.reason for throttle in card.throttles if throttle.active} == {"other_reason"}


@pytest.mark.parametrize(
    ("text", "governor"), [("performance\n", "performance"), ("powersave\n", "powersave")]
)
def test_the_governor(tmp_path: Path, text: str, governor: str) -> None:
    assert Node(tmp_path, npu_governor=text).read().governor == governor


def test_a_driver_without_a_governor(tmp_path: Path) -> None:
    assert Node(tmp_path).read().governor is None


def test_all_of_it_comes_without_a_tool(tmp_path: Path) -> None:
    node = Node(tmp_path, npu_governor="performance\n")
    limit = {f"sys/bus/pci/devices/{AT}/hwmon/hwmon3/power1_max": "300000000\n"}
    memory = core_files("alloc_status", dict.fromkeys(range(8), alloc_status(1 << 30)))
    node.read(limit | memory | core_files("metrics", dict.fromkeys(range(8), metrics(1000, 0))))
    card = node.read(core_files("metrics", dict.fromkeys(range(8), metrics(2000, 850))))
    assert (card.health.state, card.governor, card.power_limit_watts) == (
        HealthState.OK,
        "performance",
        300.0,
    )
    assert (card.memory_total_bytes, card.memory_used_bytes) == (8 * CORE_BYTES, 2 << 30)
    assert card.utilization_ratio == pytest.approx(2 * 0.85 / 8)
    assert card.absent == ()


TOOL = """#!/bin/sh
echo $1 >> {runs}
case $1 in
status) echo '[{{"arch": "rngd", "device": "npu0", "liveness": "alive"}}]' ;;
info) echo '[{{"arch": "rngd", "dev_name": "npu0", "pci_bdf": "{at}"}}]' ;;
esac
"""


def test_the_tools_status_is_run_only_while_the_driver_lacks_a_value_of_it(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    node = Node(tmp_path)
    program(tmp_path / "bin/furiosa-smi", TOOL.format(runs=runs, at=AT))

    def read(cycles: int, *, device_state: int = 0) -> tuple[list[str], str | None, float | None]:
        runs.write_text("")
        state = {f"{CLASS}/rngd!npu0mgmt/device_state": f"{device_state}\n"}
        counters = core_files("metrics", dict.fromkeys(range(8), metrics(cycles, cycles // 2)))
        card = node.read(state | counters)
        return list(dict.fromkeys(runs.read_text().split())), card.health.vendor_word, card.utilization_ratio

    memory = core_files("alloc_status", dict.fromkeys(range(8), alloc_status(1 << 30)))
    write(tmp_path, memory)
    assert read(1000)[:2] == (["info", "status", "ps"], "alive")
    assert read(2000) == (["status", "ps"], "alive", 0.125)  # the first reading had nothing to compare with
    assert read(3000) == (["ps"], "alive", 0.125)
    assert read(3000) == (["ps"], "alive", None)  # the counters stand still
    assert read(4000) == (["status", "ps"], "alive", 0.125)
    assert read(5000) == (["ps"], "alive", 0.125)
    assert read(6000, device_state=1) == (["ps"], None, 0.125)
    assert read(7000, device_state=1)[0] == ["status", "ps"]
    (tmp_path / CLASS / "rngd!npu0pe0/alloc_status").write_text("4242\n")  # as in an older driver
    assert read(8000)[0] == ["status", "ps"]
    assert read(9000)[0] == ["status", "ps"]
