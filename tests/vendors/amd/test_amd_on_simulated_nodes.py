"""The AMD reader on simulated nodes, with and without faults."""

from typing import TYPE_CHECKING

import pytest

from accelscope.agent.runner import Result
from accelscope.attribution.device_ids import DeviceIndex, ResolvedDevice, resolve
from accelscope.model import AbsenceReason, Device, HealthState, ProcessType
from accelscope.parsing import sources
from accelscope.simulate import FaultKind
from accelscope.vendors.amd.simulated.driver import AmdDriver
from accelscope.vendors.amd.simulated.gpu import GpuReading
from accelscope.vendors.common.tool import Tool, find_program

if TYPE_CHECKING:
    from tests.vendors.common.watched import Watch, Watched

WITH_TOOLS = ("amd-mi300x8", "amd-mi250", "amd-mi300-cpx")
NODES = (*WITH_TOOLS, "amd-radeon")
TWO_RADEONS = """
node: two
amd:
  rocm_version: "6.2.0"
  devices:
    - {model: rx-7900-xtx, count: 2}
processes:
  - {name: game, device: 0, memory: 2GiB, type: G, load: {level: 0.5}}
"""
CUT_IN_SEVERAL_WAYS = """
node: cut
amd:
  devices:
    - {model: mi300x, compute_partition: QPX}
    - {model: mi300x}
    - {model: mi300x, compute_partition: CPX}
processes:
  - {name: first, device: 0, instance: 0, memory: 2GiB, cgroup: pod}
  - {name: last, device: 0, instance: 3, memory: 2GiB, cgroup: pod}
  - {name: whole, device: 1, memory: 2GiB, cgroup: pod}
  - {name: second, device: 2, instance: 1, memory: 2GiB, cgroup: pod}
  - {name: eighth, device: 2, instance: 7, memory: 2GiB, cgroup: pod}
"""


def shown(watched: "Watched") -> dict[str, GpuReading]:
    """The readings of the simulation, by PCI address."""
    assert watched.node is not None
    return {reading.gpu.address: reading for reading in watched.node.readings(AmdDriver)}


def reasons(device: Device) -> dict[str, AbsenceReason]:
    return {absence.field: absence.reason for absence in device.absent}


def errors(result: Result) -> set[str]:
    return {counted.reason for counted in result.state.errors}


def device(result: Result, index: int) -> Device:
    [found] = [d for d in result.devices if d.index == index]
    return found


@pytest.mark.parametrize("name", NODES)
def test_every_gpu_has_the_values_of_the_simulation(watch: "Watch", name: str) -> None:
    watched = watch(name)
    result = watched.read()
    truth = shown(watched)
    assert {d.pci_address for d in result.devices} == truth.keys()
    assert result.state.up
    assert result.state.rejected == ()
    for found in result.devices:
        gpu = truth[found.pci_address or ""]
        assert found.health.state is HealthState.OK
        if gpu.suspended:
            assert found.health.vendor_word == "suspended"
            assert found.utilization_ratio is None
            continue
        assert found.utilization_ratio == gpu.busy_percent / 100
        assert found.memory_used_bytes == gpu.vram_used_bytes
        sensors = {sensor.name: sensor.celsius * 1000 for sensor in found.sensors}
        assert sensors.get("junction", gpu.junction_millicelsius) == gpu.junction_millicelsius
        assert found.power_watts in (None, gpu.power_microwatts / 1e6)


@pytest.mark.parametrize("name", NODES)
def test_every_process_is_listed_with_its_memory(watch: "Watch", name: str) -> None:
    watched = watch(name)
    result = watched.read()
    expected = {
        (process.pid, address, process.vram_bytes)
        for address, gpu in shown(watched).items()
        for process in gpu.processes
    }
    addresses = {d.id: d.pci_address for d in result.devices}
    assert {(p.pid, addresses[p.device or ""], p.memory_bytes) for p in result.processes} == expected


def test_the_power_of_modules_is_published_once(watch: "Watch") -> None:
    watched = watch("amd-mi250")
    result = watched.read()
    total = sum(d.power_watts or 0 for d in result.devices)
    modules = {gpu.gpu.module: gpu.power_microwatts / 1e6 for gpu in shown(watched).values()}
    assert total == sum(modules.values())
    silent = [d for d in result.devices if d.power_watts is None]
    assert len(silent) == 4
    assert all(reasons(d)["power_watts"] is AbsenceReason.SHARED for d in silent)


def test_newer_drivers_report_power_at_the_first_die_only(watch: "Watch") -> None:
    watched = watch("amd:\n  rocm_version: '6.2.0'\n  devices: [{model: mi250x, count: 4}]\n")
    result = watched.with_tool()
    assert [d.power_watts is None for d in result.devices] == [False, True, False, True]
    assert [d.energy_joules is None for d in result.devices] == [False, True, False, True]


def test_values_that_only_the_tool_reports_are_added(watch: "Watch") -> None:
    watched = watch("amd-mi300x8")
    before = device(watched.read(), 0)
    truth = shown(watched)[before.pci_address or ""]
    assert before.energy_joules == pytest.approx(truth.energy_microjoules / 1e6)
    assert before.throttles == ()  # known from the second reading on
    assert before.vbios_version is None
    watched.write(75.0)
    after = device(watched.with_tool(), 0)
    truth = shown(watched)[before.pci_address or ""]
    assert after.energy_joules == pytest.approx(truth.energy_microjoules / 1e6)
    assert (after.vbios_version, after.part_number) == ("022.040.003.042.000001", "102-G30211-0C")
    assert (after.decoder_utilization_ratio, after.jpeg_utilization_ratio) == (0.0, 0.0)
    assert after.pcie is not None
    assert after.pcie.bytes_per_second is not None
    assert {t.reason for t in after.throttles} >= {"ppt", "socket_thermal"}
    assert len(after.links) == 7
    assert all(link.active for link in after.links)
    addresses = {reading.gpu.slot: address for address, reading in shown(watched).items()}
    peers = [addresses[link.peer] for link in truth.xgmi]
    assert [link.remote for link in sorted(after.links, key=lambda link: link.index)] == peers
    assert after.ecc_enabled is True
    assert len(after.cores) == 8
    assert after.id == before.id


@pytest.mark.parametrize(("name", "older"), [("amd-mi250", True), ("amd-mi300x8", False)])
def test_part_numbers_match_the_selectors_of_amds_dashboards(watch: "Watch", name: str, older: bool) -> None:
    """Their panels for MI2xx select these three part numbers, and those for MI3xx all others."""
    of_mi2xx = {"102-D65208-0C", "102-D67305-00", "102-D65209-0C"}
    numbers = {device.part_number for device in watch(name).read().devices}
    assert None not in numbers
    assert numbers <= of_mi2xx if older else numbers.isdisjoint(of_mi2xx)


def test_partitions_have_utilization_and_memory(watch: "Watch") -> None:
    watched = watch("amd-mi300-cpx")
    result = watched.with_tool()
    for found in result.devices:
        gpu = shown(watched)[found.pci_address or ""]
        assert (found.compute_partition, found.memory_partition) == ("CPX", "NPS4")
        assert [p.utilization_ratio for p in found.partitions] == [
            part.busy_percent / 100 for part in gpu.parts
        ]
        assert [p.device_name for p in found.partitions] == [
            None,
            *(device.name for device in gpu.gpu.platform_devices),
        ]
        assert [p.memory_used_bytes for p in found.partitions] == [part.vram_used_bytes for part in gpu.parts]
        assert sum(p.memory_total_bytes or 0 for p in found.partitions) == found.memory_total_bytes
        own = {p.pid: p.partition for p in result.processes if p.device == found.id}
        assert own == {
            process.pid: f"{found.id}/{part.part.number}" for part in gpu.parts for process in part.processes
        }


def test_the_id_of_amds_plugin_resolves_to_the_partition_of_the_process(watch: "Watch") -> None:
    watched = watch(CUT_IN_SEVERAL_WAYS)
    assert watched.node is not None
    result = watched.read()
    places = {p.pid: ResolvedDevice(p.device, p.partition) for p in result.processes}
    on = {process.name: places[process.pid] for gpu in shown(watched).values() for process in gpu.processes}
    index = DeviceIndex(result.devices)
    resolved = {
        container.name: resolve(grant.device_id, grant.resource, index)
        for pod in watched.node.pods
        for container in pod.containers
        for grant in container.grants
    }
    assert len(resolved) == 5
    assert resolved == on


def test_the_utilization_of_processes_is_computed_between_two_readings(watch: "Watch") -> None:
    watched = watch("amd-radeon")
    first = watched.read()
    by_name = {process.name: process.pid for gpu in shown(watched).values() for process in gpu.processes}
    ffmpeg = next(p for p in first.processes if p.pid == by_name["ffmpeg"])
    assert (ffmpeg.type, ffmpeg.utilization_ratio) == (ProcessType.GRAPHICS, None)
    watched.now += 10
    watched.write(70.0)
    second = {p.pid: p for p in watched.read().processes}
    ffmpeg = second[by_name["ffmpeg"]]
    assert ffmpeg.utilization_ratio == pytest.approx(0.05, abs=0.01)
    assert ffmpeg.encoder_utilization_ratio == pytest.approx(0.03, abs=0.01)
    assert second[by_name["blender"]].type is ProcessType.BOTH
    assert second[by_name["ollama"]].type is ProcessType.COMPUTE


def test_a_gpu_that_hangs_does_not_make_the_others_stale(watch: "Watch") -> None:
    watched = watch(TWO_RADEONS, device_seconds=1.0, reader_timeout="1")
    watched.read()
    watched.fault(FaultKind.HANG, device=0)
    result = watched.until(lambda r: [d.stale for d in r.devices] == [True, False])
    assert result.state.abandoned_calls == 1
    assert device(result, 1).temperature_celsius is not None
    watched.until(lambda r: "tool_timeout" in errors(r))
    watched.clear()
    assert [d.stale for d in watched.until(lambda r: not r.devices[0].stale).devices] == [False, False]


def test_a_lost_gpu_recovers(watch: "Watch") -> None:
    watched = watch(TWO_RADEONS)
    watched.read()
    watched.fault(FaultKind.LOST, device=1)
    result = watched.read()
    assert device(result, 1).health.state is HealthState.LOST
    assert device(result, 0).health.state is HealthState.OK
    watched.clear()
    assert device(watched.read(), 1).health.state is HealthState.OK


def test_a_vanished_gpu_is_still_reported(watch: "Watch") -> None:
    watched = watch(TWO_RADEONS)
    ids = {d.id for d in watched.read().devices}
    watched.fault(FaultKind.VANISHED, device=0)
    result = watched.read()
    assert {d.id for d in result.devices} == ids
    assert {d.health.state for d in result.devices} == {HealthState.OK, HealthState.LOST}


def test_a_hot_gpu_has_a_warning(watch: "Watch") -> None:
    watched = watch("amd-mi300x8")
    watched.fault(FaultKind.HOT, device=2)
    watched.read()
    watched.write(75.0)
    result = watched.until(lambda r: device(r, 2).throttles != ())
    assert device(result, 2).health.state is HealthState.CRITICAL
    assert {t.reason for t in device(result, 2).throttles if t.active} == {"socket_thermal"}
    assert device(result, 1).health.state is HealthState.OK


def test_uncorrectable_errors_make_a_gpu_critical(watch: "Watch") -> None:
    watched = watch("amd-mi300x8")
    watched.fault(FaultKind.ECC_STORM, device=5)
    watched.read()
    watched.now = 2000.0
    watched.write(130.0)
    gpu = device(watched.read(), 5)
    assert gpu.health.state is HealthState.CRITICAL
    counts = {(e.kind, e.code): (e.count, e.last_seen) for e in gpu.errors if e.kind == "ras"}
    assert counts == {("ras", "umc.ue"): (2, 2000.0), ("ras", "umc.ce"): (2800, 2000.0)}
    assert [pages.count for pages in gpu.retired_pages] == [1]


def test_the_reader_recovers_when_the_driver_is_reloaded(watch: "Watch") -> None:
    watched = watch(TWO_RADEONS)
    watched.read()
    watched.fault(FaultKind.DRIVER_NOT_LOADED)
    result = watched.read()
    assert not result.state.up
    assert all(d.stale for d in result.devices)
    watched.clear()
    assert watched.read().state.up


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (FaultKind.TOOL_HANG, "tool_timeout"),
        (FaultKind.TOOL_GARBAGE, "unrecognized"),
        (FaultKind.TOOL_KILLED, "tool_killed"),
    ],
)
def test_a_failing_tool_affects_only_its_own_values(watch: "Watch", kind: FaultKind, reason: str) -> None:
    watched = watch(TWO_RADEONS, reader_timeout="1" if kind is FaultKind.TOOL_HANG else "30")
    watched.fault(kind)
    result = watched.until(lambda r: reason in errors(r))
    assert result.state.source == "sysfs"
    assert [d.stale for d in result.devices] == [False, False]
    assert device(result, 0).utilization_ratio is not None
    watched.clear()
    assert device(watched.with_tool(), 0).model == "AMD Radeon RX 7900 XTX"


@pytest.mark.parametrize("kind", [FaultKind.TOOL_TRUNCATED, FaultKind.TOOL_NON_UTF8])
def test_damaged_tool_output_makes_no_device_stale(watch: "Watch", kind: FaultKind) -> None:
    watched = watch(TWO_RADEONS)
    watched.fault(kind)
    for _ in range(3):
        result = watched.read()
        assert [d.stale for d in result.devices] == [False, False]


def test_a_missing_tool_is_not_an_error(watch: "Watch") -> None:
    watched = watch(TWO_RADEONS)
    watched.fault(FaultKind.TOOL_MISSING)
    result = watched.read()
    assert (result.state.source, result.state.errors) == ("sysfs", ())
    watched.fault(FaultKind.TOOL_MISSING, tool="amd-smi")
    result = watched.until(lambda r: r.state.source == "sysfs+rocm-smi")
    assert device(result, 0).model == "AMD Radeon RX 7900 XTX"


@pytest.mark.parametrize("error", ["driver_not_loaded", "no_permission", "library_missing", "no_devices"])
def test_errors_of_the_tool_are_counted(watch: "Watch", error: str) -> None:
    watched = watch(TWO_RADEONS)
    watched.fault(FaultKind.TOOL_ERROR, error=error)
    watched.until(lambda r: error in errors(r))


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_the_output_of_the_tools_agrees_with_the_files(watch: "Watch", name: str) -> None:
    watched = watch(name)
    truth = [gpu for gpu in shown(watched).values() for _ in gpu.parts]
    first = [number for number, gpu in enumerate(truth) if number == truth.index(gpu)]
    for tool, command, source in (
        ("amd_smi_path", ("monitor",), "amd-smi-monitor"),
        ("amd_smi_path", ("metric", "--json"), "amd-smi-metric"),
        ("rocm_smi_path", ("-a", "--json"), "rocm-smi-json"),
    ):
        program = watched.settings.vendor_settings[tool]
        if find_program(program) is None:
            continue
        printed = Tool(program, timeout_seconds=60).run(command).text
        parsed = sources()[source].parse(printed, None)
        assert parsed.error is None
        assert parsed.rejected == ()
        by_card = source == "rocm-smi-json"
        for number, found in enumerate(parsed.devices):
            gpu = truth[first[number]] if by_card else truth[number]
            if by_card or number in first:
                assert found.utilization_ratio == gpu.busy_percent / 100
                assert found.temperature_celsius is not None
                assert found.power_watts in (None, gpu.power_microwatts / 1e6)
