"""AMD's tools as the only source, and as an addition to the driver's files."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import programs
from tests.vendors.amd.amd_tree import lay_out_gpu, reasons, write
from tests.vendors.amd.metrics_tables import table

from accelscope.model import Absence, AbsenceReason, Device, HealthState, Pcie, Vendor
from accelscope.vendors.amd.tools import fill_gaps

if TYPE_CHECKING:
    from tests.vendors.common.watched import Watch

STATIC = [
    {
        "gpu": n,
        "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": f"0x{n + 17:X}"},
        "bus": {"bdf": f"0000:0{n}:00.0"},
        "driver": {"version": "6.14.14"},
    }
    for n in range(2)
]
METRIC = [{"gpu": n, "power": {"socket_power": {"value": 100 + n, "unit": "W"}}} for n in range(2)]
PROCESS = [
    {"gpu": 1, "process_list": [{"process_info": {"pid": 7, "mem_usage": {"value": 5, "unit": "MB"}}}]}
]
ROCM = {
    "card0": {"Unique ID": "0xab", "GPU use (%)": "60", "Temperature (Sensor junction) (C)": "61.0"},
    "system": {"Driver version": "5.7", "PID9": "train, 1, 4096, 0, 50"},
}


def answers(folder: Path, **documents: object) -> str:
    """A script that prints the document of its first argument."""
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    return f'cat "{folder}/$1.json" 2>/dev/null || echo "[]"'


def test_amd_smi_is_the_source_without_driver_files(tmp_path: Path, watch_folder: "Watch") -> None:
    write(tmp_path, {"dev/kfd": ""})
    script = answers(tmp_path, static=STATIC, metric=METRIC, process=PROCESS)
    result = watch_folder(amd_smi=script).with_tool()
    assert result.state.source == "amd-smi"
    assert result.state.driver_version == "6.14.14"
    assert [(d.id, d.power_watts, d.model) for d in result.devices] == [
        ("amd:0x11", 100.0, "AMD Instinct MI300X"),
        ("amd:0x12", 101.0, "AMD Instinct MI300X"),
    ]
    assert result.devices[0].health.state is HealthState.OK
    [process] = result.processes
    assert (process.pid, process.device, process.memory_bytes) == (7, "amd:0x12", 5 * 2**20)


def test_a_failed_optional_run_affects_only_its_own_values(tmp_path: Path, watch_folder: "Watch") -> None:
    write(tmp_path, {"dev/kfd": ""})
    script = answers(tmp_path, static=STATIC, metric=METRIC, process=PROCESS)
    watched = watch_folder(amd_smi=f'[ "$1" = xgmi ] && kill -9 $$\n{script}')
    result = watched.with_tool()
    assert [(d.power_watts, d.links) for d in result.devices] == [(100.0, ()), (101.0, ())]
    assert [process.pid for process in result.processes] == [7]
    assert {counted.reason for counted in result.state.errors} - {"not_ready"} == {"tool_killed"}


def test_values_that_the_tool_lacks_too_stay_absent() -> None:
    absent = (Absence("pcie.replays_total", AbsenceReason.NO_PERMISSION),)
    device = Device(vendor=Vendor("amd"), id="amd:0x1", pcie=Pcie(width=16), absent=absent)
    tool_device = Device(vendor=Vendor("amd"), id="amd:0x1", model="AMD Instinct MI300X")
    assert fill_gaps(device, tool_device) == replace(device, model="AMD Instinct MI300X")


def test_partitions_from_a_tool_publish_power_once(tmp_path: Path, watch_folder: "Watch") -> None:
    write(tmp_path, {"dev/kfd": ""})
    static = [{**entry, "bus": {"bdf": f"0000:05:00.{n}"}} for n, entry in enumerate(STATIC)]
    watched = watch_folder(amd_smi=answers(tmp_path, static=static, metric=METRIC))
    first, second = watched.with_tool().devices
    assert (first.power_watts, second.power_watts) == (100.0, None)
    assert [(a.field, a.reason) for a in second.absent] == [("power_watts", "shared")]


def test_rocm_smi_is_the_source_without_driver_files_and_amd_smi(
    tmp_path: Path, watch_folder: "Watch"
) -> None:
    write(tmp_path, {"dev/kfd": "", "rocm.json": json.dumps(ROCM)})
    result = watch_folder(rocm_smi=f"cat {tmp_path}/rocm.json").with_tool()
    [device] = result.devices
    assert (device.id, device.utilization_ratio, device.temperature_celsius) == ("amd:0xab", 0.6, 61.0)
    [process] = result.processes
    assert (process.pid, process.device, process.memory_bytes) == (9, "amd:0xab", 4096)


def test_a_tool_is_not_run_without_a_driver(tmp_path: Path, watch_folder: "Watch") -> None:
    result = watch_folder(amd_smi=f"touch {tmp_path}/was-run").read()
    assert not result.state.found
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("key", ["bus", "none"])
def test_the_tools_gpu_is_matched_by_pci_address(tmp_path: Path, watch_folder: "Watch", key: str) -> None:
    lay_out_gpu(tmp_path, {"gpu_busy_percent": "5", "unique_id": "77"}, pci="0000:01:00.0")
    static = [entry if key == "bus" else {**entry, "bus": "N/A"} for entry in STATIC]
    watched = watch_folder(amd_smi=answers(tmp_path, static=static, metric=METRIC))
    [device] = watched.with_tool().devices
    assert device.id == "amd:0x77"
    assert device.utilization_ratio == 0.05
    assert (device.power_watts, device.model) == (
        (101.0, "AMD Instinct MI300X") if key == "bus" else (None, None)
    )


def test_the_numa_node_comes_from_the_kernel(tmp_path: Path, watch_folder: "Watch") -> None:
    lay_out_gpu(tmp_path, {"gpu_busy_percent": "5", "numa_node": "-1"}, pci="0000:01:00.0")
    static = [{**entry, "numa": {"node": 0, "affinity": -1}} for entry in STATIC]
    [device] = watch_folder(amd_smi=answers(tmp_path, static=static, metric=METRIC)).with_tool().devices
    assert (device.power_watts, device.numa_node) == (101.0, None)


def test_an_outdated_tool_report_is_dropped(tmp_path: Path, watch_folder: "Watch") -> None:
    lay_out_gpu(tmp_path, {"gpu_busy_percent": "5"}, pci="0000:01:00.0")
    script = answers(tmp_path, static=STATIC, metric=METRIC)
    watched = watch_folder(amd_smi=script)
    assert watched.with_tool().devices[0].power_watts == 101.0
    (tmp_path / "metric.json").write_text("nonsense")
    result = watched.until(lambda r: r.state.source == "sysfs")
    assert result.devices[0].power_watts is None
    assert "unrecognized" in {counted.reason for counted in result.state.errors}


def test_a_running_first_tool_run_does_not_mean_no_gpus(tmp_path: Path, watch_folder: "Watch") -> None:
    write(tmp_path, {"dev/kfd": ""})
    script = answers(tmp_path, static=STATIC, metric=METRIC)
    watched = watch_folder(amd_smi=f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done\n{script}")
    state = watched.read().state
    assert (state.found, state.up) == (True, False)
    assert state.reason == "the first run of the tool has not finished yet"
    assert [counted.reason for counted in state.errors] == ["not_ready"]
    (tmp_path / "go").touch()
    assert watched.with_tool().state.up


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [("kill -9 $$", "tool_killed"), ("echo nonsense", "unrecognized"), (None, "tool_missing")],
)
def test_gpus_of_a_failing_tool_are_stale_and_not_lost(
    tmp_path: Path, watch_folder: "Watch", trouble: str | None, reason: str
) -> None:
    write(tmp_path, {"dev/kfd": ""})
    watched = watch_folder(amd_smi=answers(tmp_path, static=STATIC, metric=METRIC))
    assert len(watched.with_tool().devices) == 2
    if trouble is None:
        (tmp_path / "amd_smi").unlink()
    else:
        programs.script(tmp_path / "amd_smi", trouble)
    result = watched.until(lambda r: any(device.stale for device in r.devices))
    assert (result.state.found, result.state.up) == (True, False)
    assert [device.health.state for device in result.devices] == [HealthState.UNKNOWN] * 2
    assert all((device.health.reason or "").startswith(reason) for device in result.devices)
    assert reason in {counted.reason for counted in result.state.errors}


@pytest.mark.parametrize(
    ("tool", "script", "reason"),
    [
        ("amd_smi", "echo 'ERROR: Unable to detect any GPU devices' >&2; exit 253", "no_devices"),
        ("rocm_smi", "echo 'WARNING: No JSON data to report'", "nothing_to_report"),
    ],
)
def test_a_tool_that_reports_no_gpu_is_not_an_error(
    tmp_path: Path, watch_folder: "Watch", tool: str, script: str, reason: str
) -> None:
    write(tmp_path, {"dev/kfd": ""})
    result = watch_folder(**{tool: script}).until(lambda r: r.state.up)
    assert result.devices == ()
    assert reason in {counted.reason for counted in result.state.errors}


def test_a_driver_without_gpus_and_tools_has_no_devices(tmp_path: Path, watch_folder: "Watch") -> None:
    write(tmp_path, {"dev/kfd": ""})
    result = watch_folder().read()
    assert (result.state.found, result.state.up, result.devices) == (True, True, ())


@pytest.mark.parametrize(
    ("asic", "asked"),
    [
        ({"market_name": "AMD Instinct MI300X"}, True),
        ({"market_name": "MI300X-O"}, True),
        ({"market_name": "Aqua Vanjaram [Instinct MI300X VF]"}, True),
        ({"market_name": "N/A", "target_graphics_version": "gfx90a"}, True),
        ({"market_name": "AMD Radeon RX 7900 XTX", "target_graphics_version": "gfx1100"}, False),
        ({"market_name": "AMD Radeon Graphics"}, False),
    ],
)
def test_links_are_read_only_for_chips_that_have_them(
    tmp_path: Path, watch_folder: "Watch", asic: dict[str, str], asked: bool
) -> None:
    write(tmp_path, {"dev/kfd": ""})
    static = [{**STATIC[0], "asic": {**asic, "asic_serial": "0x11"}}]
    traffic = {"read": {"value": 1, "unit": "KB"}, "write": {"value": 1, "unit": "KB"}}
    xgmi = {"xgmi_metric": [[{"gpu": 0, "link_metrics": {"links": [{"bdf": "0000:26:00.0", **traffic}]}}]]}
    script = answers(tmp_path, static=static, metric=METRIC[:1], xgmi=xgmi)
    [device] = watch_folder(amd_smi=script).with_tool().devices
    assert bool(device.links) is asked


def test_memory_of_partitions_from_a_tool_adds_up_to_that_of_the_gpu(
    tmp_path: Path, watch_folder: "Watch"
) -> None:
    """The first partition shows the whole GPU, the others their part of it."""
    write(tmp_path, {"dev/kfd": ""})
    sizes = (196592, 24574, 24574)
    static = [
        {
            "gpu": n,
            "asic": {
                "market_name": "AMD Radeon Graphics" if n else "AMD Instinct MI300X",
                "asic_serial": "N/A" if n else "0x11",
            },
            "bus": {"bdf": "0000:10:00.0"},
            "vram": {"size": {"value": size, "unit": "MB"}},
        }
        for n, size in enumerate(sizes)
    ]
    metric = [{"gpu": n, "power": "N/A"} for n in range(3)]
    devices = watch_folder(amd_smi=answers(tmp_path, static=static, metric=metric)).with_tool().devices
    assert [device.memory_total_bytes for device in devices] == [196592 << 20, None, None]
    assert [device.model for device in devices] == ["AMD Instinct MI300X"] * 3
    assert [device.id for device in devices] == ["amd:0x11", "amd:0x11/1", "amd:0x11/2"]


def test_the_tools_energy_does_not_replace_the_drivers_counter(tmp_path: Path, watch_folder: "Watch") -> None:
    """The tools round its unit, so that changing from one to the other would make it jump."""
    folder = lay_out_gpu(tmp_path, {"gpu_busy_percent": "5"}, pci="0000:01:00.0")
    (folder / "gpu_metrics").write_bytes(table((1, 2), energy_accumulator=9 << 16, temperature_hbm=[60]))
    energy = {"total_energy_consumption": {"value": 9.02, "unit": "J"}}
    metric = [{**entry, "energy": energy} for entry in METRIC]
    watched = watch_folder(amd_smi=answers(tmp_path, static=STATIC, metric=metric))
    assert watched.with_tool().devices[0].energy_joules == 9.0
    (folder / "gpu_metrics").unlink()
    assert watched.with_tool().devices[0].energy_joules is None


def test_the_tool_does_not_add_an_energy_counter_that_wraps(tmp_path: Path, watch_folder: "Watch") -> None:
    """The tool prints the table's counter."""
    folder = lay_out_gpu(tmp_path, {"gpu_busy_percent": "5"}, pci="0000:01:00.0")
    (folder / "gpu_metrics").write_bytes(table((1, 2), energy_accumulator=9 << 16))
    energy = {"total_energy_consumption": {"value": 9.02, "unit": "J"}}
    metric = [{**entry, "energy": energy} for entry in METRIC]
    watched = watch_folder(amd_smi=answers(tmp_path, static=STATIC, metric=metric))
    [device] = watched.with_tool().devices
    assert (device.energy_joules, reasons(device)["energy_joules"]) == (None, "not_supported")


def test_board_values_that_only_the_tool_reports_are_added(tmp_path: Path, watch_folder: "Watch") -> None:
    lay_out_gpu(tmp_path, {"gpu_busy_percent": "5", "vbios_version": "113-M3000100-102"}, pci="0000:01:00.0")
    further = {
        "board": {"model_number": "102-G30211-0C"},
        "ifwi": {"part_number": "113-M3000100-102", "version": "022.040.003.043.000001"},
    }
    static = [{**entry, **further} for entry in STATIC]
    metric = [{**entry, "pcie": {"bandwidth": {"value": 100, "unit": "Mb/s"}}} for entry in METRIC]
    [device] = watch_folder(amd_smi=answers(tmp_path, static=static, metric=metric)).with_tool().devices
    assert (device.part_number, device.vbios_version) == ("102-G30211-0C", "022.040.003.043.000001")
    assert device.firmware_version == "113-M3000100-102"
    assert device.pcie is not None
    assert device.pcie.bytes_per_second == 12.5e6


def test_the_tool_does_not_replace_values_of_the_table(tmp_path: Path, watch_folder: "Watch") -> None:
    """Their sources would change with every failed reading of the table."""
    folder = lay_out_gpu(tmp_path, {"vendor": "0x1002"}, pci="0000:01:00.0")
    values = {
        "power": {"socket_power": "100 W", "gfx_voltage": "800 mV"},
        "clock": {"gfx_0": {"clk": "9 MHz"}},
    }
    values |= {"temperature": {"edge": "50 C"}, "usage": {"gfx_activity": "7 %", "umc_activity": "8 %"}}
    values |= {"pcie": {"bandwidth": "100 Mb/s", "nak_sent_count": 1, "width": 16}}
    watched = watch_folder(amd_smi=answers(tmp_path, static=STATIC, metric=[{"gpu": 1, **values}]))
    measured = {
        "temperature_edge": 61,
        "average_gfx_activity": 37,
        "average_socket_power": 215,
        "current_gfxclk": 2500,
    }
    (folder / "gpu_metrics").write_bytes(table((1, 2), **measured))  # which has no throttle reasons
    [device] = watched.with_tool().devices
    assert (device.utilization_ratio, device.memory_utilization_ratio) == (0.37, 0.08)
    assert (device.power_watts, device.temperature_celsius) == (215.0, 61.0)
    assert device.rails != ()
    assert device.pcie is not None
    assert (device.pcie.width, device.pcie.bytes_per_second) == (16, 12.5e6)
    (folder / "gpu_metrics").write_bytes(b"")
    [device] = watched.with_tool().devices
    assert (device.utilization_ratio, device.power_watts, device.temperature_celsius) == (None, None, None)
    assert (device.memory_utilization_ratio, device.sensors, device.clocks) == (0.08, (), ())


def runs_of(folder: Path) -> list[str]:
    """The commands that the script of `counting` was run with."""
    return (folder / "runs").read_text().split() if (folder / "runs").exists() else []


def counting(folder: Path, script: str) -> str:
    return f'echo "$1" >> "{folder}/runs"\n{script}'


SERVER_TABLE = table((1, 7), curr_socket_power=612, accumulation_counter=1)


@pytest.mark.parametrize(
    ("content", "files", "measures"),
    [
        (SERVER_TABLE, {}, False),
        (table((1, 4)), {"xgmi_hive_info/xgmi_hive_id": "7"}, False),
        (table((1, 3), indep_throttle_status=0), {}, False),
        # The tables do not contain the links,
        (table((1, 3), indep_throttle_status=0), {"xgmi_hive_info/xgmi_hive_id": "7"}, True),
        (table((1, 2)), {}, True),  # or throttle reasons.
        (table((1, 3)), {}, True),
        (table((1, 7)), {}, True),
        (table((2, 4)), {}, True),
        (SERVER_TABLE[:-1], {}, True),
    ],
)
def test_amd_smi_measures_only_what_no_table_contains(
    tmp_path: Path, watch_folder: "Watch", content: bytes, files: dict[str, str], measures: bool
) -> None:
    folder = lay_out_gpu(tmp_path, {"gpu_busy_percent": "5", **files}, pci="0000:01:00.0")
    (folder / "gpu_metrics").write_bytes(content)
    script = counting(tmp_path, answers(tmp_path, static=STATIC, metric=METRIC))
    watched = watch_folder(amd_smi=script)
    [device] = watched.with_tool().devices
    assert device.model == "AMD Instinct MI300X"
    (tmp_path / "runs").unlink(missing_ok=True)  # when it was first run, the tables were not read yet
    give_up = time.monotonic() + 1.6
    while time.monotonic() < give_up:
        assert [device.model for device in watched.read().devices] == ["AMD Instinct MI300X"]
        time.sleep(0.05)
    assert ("metric" in runs_of(tmp_path)) is measures
    assert "static" not in runs_of(tmp_path)


@pytest.mark.parametrize("state", ["lost", "suspended"])
def test_amd_smi_does_not_measure_for_a_gpu_that_is_not_read(
    tmp_path: Path, watch_folder: "Watch", state: str
) -> None:
    """Its values would not be used, and amd-smi may wake it or hang."""
    for number in range(3):
        files = {"gpu_busy_percent": "5", "hwmon/hwmon1/temp2_label": "junction"}
        folder = lay_out_gpu(tmp_path, files, card=number, pci=f"0000:0{number}:00.0")
        if number != 1:
            (folder / "gpu_metrics").write_bytes(SERVER_TABLE)
        elif state == "suspended":
            write(folder, {"power/runtime_status": "suspended"})
        else:  # a file that cannot be read
            (folder / "gpu_busy_percent").unlink()
            (folder / "gpu_busy_percent").mkdir()
    watched = watch_folder(amd_smi=counting(tmp_path, answers(tmp_path, static=STATIC, metric=METRIC)))
    watched.with_tool()
    states = {device.health.state for device in watched.read().devices}
    assert (HealthState.LOST in states) is (state == "lost")
    renamed = [{**entry, "asic": {"market_name": "AMD Instinct MI300A"}} for entry in STATIC]
    answers(tmp_path, static=renamed)
    (tmp_path / "runs").unlink()
    shutil.rmtree(tmp_path / "sys/class/drm/card2")  # names are read again
    watched.until(lambda result: result.devices[0].model == "AMD Instinct MI300A")
    runs = runs_of(tmp_path)
    assert "metric" not in runs[runs.index("static") :]


def test_names_are_read_again_if_a_gpu_was_added(tmp_path: Path, watch_folder: "Watch") -> None:
    folder = lay_out_gpu(tmp_path, {"gpu_busy_percent": "5"}, pci="0000:01:00.0")
    (folder / "gpu_metrics").write_bytes(SERVER_TABLE)
    watched = watch_folder(amd_smi=counting(tmp_path, answers(tmp_path, static=STATIC, metric=METRIC)))
    watched.with_tool()
    watched.read()
    (tmp_path / "runs").unlink()
    added = lay_out_gpu(tmp_path, {"gpu_busy_percent": "5"}, card=1, pci="0000:00:00.0")
    (added / "gpu_metrics").write_bytes(SERVER_TABLE)
    watched.until(lambda _result: "static" in runs_of(tmp_path))


def test_rocm_smi_is_not_run_in_every_interval_for_names(tmp_path: Path, watch_folder: "Watch") -> None:
    lay_out_gpu(tmp_path, {"gpu_busy_percent": "5"}, pci="0000:01:00.0")
    document = {"card0": {"PCI Bus": "0000:01:00.0", "Card Series": "AMD Radeon RX 7900 XTX"}}
    write(tmp_path, {"rocm.json": json.dumps(document)})
    watched = watch_folder(rocm_smi=counting(tmp_path, f"cat {tmp_path}/rocm.json"))
    watched.with_tool()
    time.sleep(1.2)
    assert [device.model for device in watched.read().devices] == ["AMD Radeon RX 7900 XTX"]
    assert runs_of(tmp_path) == ["--showproductname"]
