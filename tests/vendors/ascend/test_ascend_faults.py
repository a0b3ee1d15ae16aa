"""The Ascend reader with faults of chips, driver and tool."""

from typing import TYPE_CHECKING

import pytest

from accelscope.agent.runner import Result
from accelscope.model import Device, HealthState
from accelscope.simulate.faults import FaultKind

if TYPE_CHECKING:
    from tests.vendors.common.watched import Watch

NODE = "ascend-910b-x8"
QUICK = {"reader_timeout": "2s"}  # of which a tool has 1.6 s


def errors(result: Result) -> dict[str, int]:
    return {counted.reason: counted.count for counted in result.state.errors}


def codes(device: Device) -> list[tuple[str, str, int, float | None]]:
    return [(e.kind, e.code, e.count, e.last_seen) for e in device.errors]


@pytest.mark.parametrize(
    ("kind", "word", "state", "code"),
    [
        (FaultKind.HOT, "Warning", HealthState.WARNING, "80CD8008"),
        (FaultKind.ECC_STORM, "Alarm", HealthState.CRITICAL, "80E01801"),
        (FaultKind.RESET_REQUIRED, "Critical", HealthState.CRITICAL, "80E18402"),
    ],
)
def test_an_unhealthy_chip_has_state_reason_and_error_code(
    watch: "Watch", kind: FaultKind, word: str, state: HealthState, code: str
) -> None:
    watched = watch(NODE)
    watched.fault(kind, 5)
    unhealthy = watched.devices()[5]
    assert (unhealthy.health.state, unhealthy.health.vendor_word) == (state, word)
    assert unhealthy.health.reason == f"the driver reports {word}"
    result = watched.until(lambda result: bool(result.devices[5].errors))
    detailed = result.devices[5]
    assert codes(detailed) == [("npu", code, 1, 1000.0)]
    assert detailed.health.reason is not None
    assert detailed.health.reason.startswith(f"the driver reports {word}: ")
    assert [d.health.state for d in result.devices].count(HealthState.OK) == 7


def test_errors_are_counted_at_each_appearance_and_keep_their_time(watch: "Watch") -> None:
    watched = watch(NODE)
    watched.fault(FaultKind.ECC_STORM, 2)
    watched.until(lambda result: bool(result.devices[2].errors))
    watched.now = 2000.0
    watched.until(lambda result: result.devices[2].errors[0].last_seen == 2000.0)
    watched.clear()
    watched.now = 3000.0
    healthy = watched.until(lambda result: result.devices[2].health.state is HealthState.OK).devices[2]
    assert codes(healthy) == [("npu", "80E01801", 1, 2000.0)]
    watched.fault(FaultKind.ECC_STORM, 2)
    again = watched.until(lambda result: result.devices[2].errors[0].count == 2).devices[2]
    assert codes(again) == [("npu", "80E01801", 2, 3000.0)]


def test_memory_errors_do_not_decrease(watch: "Watch") -> None:
    watched = watch(NODE, at=0.0)
    watched.fault(FaultKind.ECC_STORM, 1)
    assert watched.node is not None
    watched.node.write(30.0)
    watched.clear()

    def uncorrected(result: Result) -> list[int]:
        return [e.count for e in result.devices[1].ecc if e.severity == "uncorrected" and e.block == "hbm"]

    result = watched.until(lambda result: uncorrected(result) == [4, 4])
    assert {p.severity: p.count for p in result.devices[1].retired_pages} == {
        "corrected": 0,
        "uncorrected": 4,
    }


def test_a_chip_without_a_row_is_lost(watch: "Watch") -> None:
    watched = watch(NODE)
    before = watched.devices()
    watched.fault(FaultKind.LOST, 3)
    result = watched.read()
    assert [d.id for d in result.devices] == [d.id for d in before]
    lost = result.devices[3]
    assert (lost.stale, lost.health.state) == (True, HealthState.LOST)
    assert (lost.board_id, lost.power_watts) == (3, None)
    assert all(not d.stale for d in result.devices if d.id != lost.id)
    assert errors(result) == {"npu_without_row": 1}  # npu-smi still counts it
    watched.clear()
    assert not any(d.stale for d in watched.devices())


def test_a_vanished_chip_changes_indexes_but_not_ids(watch: "Watch") -> None:
    watched = watch(NODE)
    before = {d.id: d for d in watched.devices()}
    watched.fault(FaultKind.VANISHED, 0)
    result = watched.read()
    fresh = {d.id: d for d in result.devices if not d.stale}
    assert len(fresh) == 7
    assert {before[id_].index: d.index for id_, d in fresh.items()} == {n: n - 1 for n in range(1, 8)}
    assert [d.health.state for d in result.devices if d.stale] == [HealthState.LOST]
    assert errors(result) == {}


def test_a_lost_chip_does_not_affect_the_other_chip_of_its_npu(watch: "Watch") -> None:
    watched = watch("ascend-a3")
    watched.read()
    watched.fault(FaultKind.LOST, 1)
    result = watched.read()
    assert [d.index for d in result.devices if d.stale] == [1]
    assert result.devices[0].power_watts is not None


def test_chips_are_stale_and_not_lost_while_npu_smi_hangs(watch: "Watch") -> None:
    watched = watch(NODE, **QUICK)
    watched.until(lambda result: result.state.devices_seen == 8)
    watched.fault(FaultKind.HANG, 6)
    result = watched.read()
    assert not result.state.up
    assert errors(result)["tool_timeout"] >= 1
    assert {d.health.state for d in result.devices} == {HealthState.UNKNOWN}
    watched.clear()
    watched.until(lambda result: result.state.up and result.state.devices_seen == 8)


@pytest.mark.parametrize(
    ("kind", "error", "reason"),
    [
        (FaultKind.TOOL_GARBAGE, None, "unrecognized"),
        (FaultKind.TOOL_KILLED, None, "tool_killed"),
        (FaultKind.TOOL_MISSING, None, "tool_missing"),
        (FaultKind.TOOL_ERROR, "no_access", "driver_error"),
        (FaultKind.TOOL_ERROR, "in_use", "driver_in_use"),
        (FaultKind.TOOL_ERROR, "board_type", "driver_error"),
        (FaultKind.TOOL_ERROR, "other_tool", "other_tool"),
        (FaultKind.LIBRARY_MISSING, None, "library_missing"),
        (FaultKind.DRIVER_NOT_LOADED, None, "driver_error"),
    ],
)
def test_chips_are_stale_and_not_lost_while_npu_smi_fails(
    watch: "Watch", kind: FaultKind, error: str | None, reason: str
) -> None:
    watched = watch(NODE)
    watched.read()
    watched.fault(kind, error=error)
    result = watched.read()
    assert not result.state.up
    assert result.state.found
    assert errors(result) == {reason: 1}
    assert len(result.devices) == 8
    assert {(d.stale, d.health.state) for d in result.devices} == {(True, HealthState.UNKNOWN)}
    watched.clear()
    assert watched.read().state.devices_seen == 8


def test_chips_with_truncated_rows_are_stale_and_not_lost(watch: "Watch") -> None:
    watched = watch("ascend-a3")
    ids = [d.id for d in watched.devices()]
    watched.fault(FaultKind.TOOL_TRUNCATED)
    result = watched.read()
    assert result.state.up
    assert sorted(d.id for d in result.devices) == sorted(ids)
    truncated = [d for d in result.devices if d.stale]
    assert 0 < len(truncated) < 16
    assert {d.health.state for d in truncated} == {HealthState.UNKNOWN}
    assert result.state.devices_expected == 16
    watched.clear()
    assert watched.read().state.devices_seen == 16


def test_invalid_utf8_affects_only_damaged_rows(watch: "Watch") -> None:
    watched = watch(NODE)
    ids = {d.id for d in watched.devices()}
    watched.fault(FaultKind.TOOL_NON_UTF8)
    result = watched.read()
    assert {d.id for d in result.devices} == ids
    assert not any(d.health.state is HealthState.LOST for d in result.devices)
    assert result.state.up


def test_a_driver_without_npus_is_not_an_error(watch: "Watch") -> None:
    watched = watch(NODE)
    watched.fault(FaultKind.TOOL_ERROR, error="no_npus")
    result = watched.read()
    assert result.state.up
    assert result.devices == ()
    assert errors(result) == {}


def test_a_lost_board_does_not_affect_the_details_of_others(watch: "Watch") -> None:
    watched = watch(NODE)
    watched.fault(FaultKind.LOST, 0)
    result = watched.until(lambda result: all(d.clocks for d in result.devices))
    assert len(result.devices) == 7
