"""The Ascend reader on simulated nodes: its values are those of the simulation."""

import re
from typing import TYPE_CHECKING

import pytest

from accelscope.agent.runner import Result
from accelscope.model import AbsenceReason, Clock, Device, HealthState, Rail
from accelscope.vendors.ascend.simulated.chip import ChipReading
from accelscope.vendors.ascend.simulated.driver import AscendDriver
from accelscope.vendors.ascend.simulated.spec import Layout

if TYPE_CHECKING:
    from tests.vendors.common.watched import Watch, Watched

MIB = 2**20
NODES = {"ascend-910b-x8": 8, "ascend-a3": 16, "ascend-310p": 3, "ascend-950": 8}
NO_PROCESS_TABLE = """\
node: edge
ascend:
  driver_version: "23.0.rc3"
  devices: [{model: 310b4}]
processes:
  - {name: detector, memory: 300MiB, load: {level: 0.4}}
"""


def truth(watched: "Watched") -> tuple[ChipReading, ...]:
    assert watched.node is not None
    return watched.node.readings(AscendDriver)


def has_details(result: Result) -> bool:
    return bool(result.devices) and all(len(d.clocks) == 2 and d.ecc for d in result.devices)


def absent(device: Device) -> dict[str, AbsenceReason]:
    return {absence.field: absence.reason for absence in device.absent}


@pytest.mark.parametrize("name", NODES)
def test_every_chip_has_the_values_of_the_simulation(watch: "Watch", name: str) -> None:
    watched = watch(name)
    result = watched.read()
    assert result.state.up
    assert result.state.source == "npu-smi"
    assert result.state.errors == ()
    assert result.state.rejected == ()
    assert len(result.devices) == NODES[name]
    for device, shown in zip(result.devices, truth(watched), strict=True):
        chip = shown.chip
        assert device.uuid == chip.die.replace(" ", "-")
        assert device.id == f"ascend:{device.uuid}"
        assert (device.board_id, device.index) == (chip.board, shown.logic_id)
        assert device.chip_id == (None if chip.model.layout is Layout.NO_CHIPS else chip.number)
        assert device.model == chip.model.name
        assert device.pci_address == (chip.address if chip.model.on_pci else None)
        assert device.utilization_ratio == shown.aicore / 100
        assert device.temperature_celsius == shown.celsius
        assert device.memory_used_bytes == shown.memory_used_mib * MIB
        assert device.memory_total_bytes == chip.model.memory_mib * MIB
        assert device.health.state is HealthState.OK
        assert device.health.vendor_word == "OK"
        assert device.read_at == 1000.0


@pytest.mark.parametrize("name", NODES)
def test_processes_have_host_pids_and_chips(watch: "Watch", name: str) -> None:
    watched = watch(name)
    result = watched.read()
    ids = [device.id for device in result.devices]
    found = {(p.device, p.pid, p.memory_bytes) for p in result.processes}
    assert found == {
        (device, process.pid, process.memory_mib * MIB)
        for device, shown in zip(ids, truth(watched), strict=True)
        for process in shown.processes
    }
    assert all(p.name and p.device_index == ids.index(p.device or "") for p in result.processes)


@pytest.mark.parametrize("name", NODES)
def test_details_of_other_commands_are_added(watch: "Watch", name: str) -> None:
    watched = watch(name)
    result = watched.until(has_details)
    for device, shown in zip(result.devices, truth(watched), strict=True):
        rated = shown.chip.model.aicore_mhz * 1e6
        assert Clock("aicore", hertz=shown.aicore_mhz * 1e6, max_hertz=rated) in device.clocks
        assert [clock.domain for clock in device.clocks] == ["memory", "aicore"]
        assert device.rails == (Rail("npu", volts=shown.volts),)
        sensors = {sensor.name: sensor.celsius for sensor in device.sensors}
        has_hbm = shown.chip.model.layout is not Layout.DDR
        assert sensors == {"npu": shown.celsius} | ({"hbm": shown.celsius + 4} if has_hbm else {})
        assert device.memory_utilization_ratio == shown.bandwidth / 100
        assert device.vector_utilization_ratio == shown.vector / 100
        assert device.tensor_active_ratio == (shown.cube / 100 if shown.chip.model.has_cube_usage else None)
        assert device.serial == shown.chip.serial
        assert device.firmware_version == "7.5.0.5.220"
        totals = {(e.severity, e.lifetime): e.count for e in device.ecc if e.block is None}
        assert totals[("corrected", True)] == shown.ecc.total_single
        assert totals[("uncorrected", False)] == 0
    assert result.state.errors == ()
    assert watched.read().state.errors == ()


def test_ids_do_not_change_when_more_becomes_known(watch: "Watch") -> None:
    watched = watch("ascend-310p")
    first = watched.devices()
    later = watched.until(has_details).devices
    assert [(d.id, d.index) for d in first] == [(d.id, d.index) for d in later]


def test_the_power_of_an_npu_with_two_chips_is_published_once(watch: "Watch") -> None:
    watched = watch("ascend-a3")
    devices = watched.until(has_details).devices
    per_npu = {shown.chip.board: shown.watts for shown in truth(watched)}
    assert sum(d.power_watts or 0 for d in devices) == pytest.approx(sum(per_npu.values()))
    for device in devices:
        if device.chip_id == 0:
            assert device.power_watts == per_npu[device.board_id or 0]
        else:
            assert device.power_watts is None
            assert absent(device)["power_watts"] is AbsenceReason.SHARED


def test_power_from_the_controller_is_published_at_the_first_chip(watch: "Watch") -> None:
    watched = watch("ascend-310p")
    before = watched.devices()
    assert {absent(d)["power_watts"] for d in before} == {AbsenceReason.NOT_SUPPORTED}
    first, second, single = watched.until(has_details).devices
    shown = truth(watched)
    assert first.power_watts == pytest.approx(shown[0].watts + shown[1].watts, abs=0.1)
    assert second.power_watts is None
    assert absent(second)["power_watts"] is AbsenceReason.SHARED
    assert single.power_watts == pytest.approx(shown[2].watts, abs=0.1)


def test_processes_are_queried_if_the_table_has_none(watch: "Watch") -> None:
    watched = watch(NO_PROCESS_TABLE)
    result = watched.until(lambda result: bool(result.processes))
    [device] = result.devices
    [process] = result.processes
    assert (process.name, process.device, process.memory_bytes) == ("detector", device.id, 300 * MIB)


def test_in_a_container_processes_have_no_names(watch: "Watch") -> None:
    text = NO_PROCESS_TABLE.replace("310b4", "910b3").replace(
        "driver_version:", "in_container: true\n  driver_version:"
    )
    [process] = watch(text).read().processes
    assert process.name is None
    assert process.memory_bytes == 300 * MIB


def test_pcie_link_and_numa_node_come_from_the_kernel(watch: "Watch") -> None:
    first, *_, last = watch("ascend-910b-x8").devices()
    assert first.pcie is not None
    assert (first.pcie.generation, first.pcie.width, first.pcie.max_width) == (4, 16, 16)
    assert (first.numa_node, last.numa_node) == (0, 1)
    other = watch("ascend-950").devices()[0]
    assert (other.pcie, other.numa_node) == (None, None)


def test_physical_ids_determine_the_device_files(watch: "Watch") -> None:
    devices = watch("ascend-a3").devices()
    assert [d.device_name for d in devices] == [f"davinci{n}" for n in range(16)]
    assert [d.physical_id for d in devices] == list(range(16))


def test_values_change_with_time(watch: "Watch") -> None:
    watched = watch("ascend-910b-x8")
    before = watched.devices()[0]
    assert watched.node is not None
    watched.node.write(95.0)
    after = watched.devices()[0]
    assert before.id == after.id
    assert before.utilization_ratio != after.utilization_ratio


def test_vdie_ids_are_joined_with_hyphens(watch: "Watch") -> None:
    for device in watch("ascend-950").devices():
        assert re.fullmatch(r"ascend:[0-9A-F]{8}(-[0-9A-F]{8}){4}", device.id)
