"""The simulated nvidia-smi prints the values of the node in the format of the real one."""

import csv
import os
import re
import subprocess
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from accelscope.simulate import Fault, FaultKind, SimulatedNode, ready_made
from accelscope.vendors.nvidia.simulated.driver import NvidiaDriver
from accelscope.vendors.nvidia.simulated.smi_state import TOOL_ERRORS, ToolError
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

MakeNode = Callable[..., SimulatedNode]
MIB = 1 << 20


def smi(node: SimulatedNode, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[bytes]:
    tool = node.agent_settings()["nvidia_smi_path"]
    return subprocess.run([tool, *arguments], capture_output=True, check=False, timeout=timeout)


def text(node: SimulatedNode, *arguments: str) -> str:
    result = smi(node, *arguments)
    assert result.returncode == 0
    return result.stdout.decode()


def table(node: SimulatedNode, fields: str, *more: str) -> list[list[str]]:
    output = text(node, f"--query-gpu={fields}", "--format=csv", *more)
    return list(csv.reader(output.splitlines(), skipinitialspace=True))


def test_query_with_header_and_units(ready_node: MakeNode) -> None:
    node = ready_node("nvidia-mixed")
    fields = "index,name,memory.used,power.draw,temperature.gpu,temperature.memory,fan.speed,clocks.sm,serial"
    header, *rows = table(node, fields + ",timestamp")
    assert [row.pop() for row in (header, *rows)] == ["timestamp", *["2026/01/01 00:01:00.000"] * 4]
    assert header == [
        "index",
        "name",
        "memory.used [MiB]",
        "power.draw [W]",
        "temperature.gpu",
        "temperature.memory",
        "fan.speed [%]",
        "clocks.current.sm [MHz]",
        "serial",
    ]
    assert len(rows) == 4
    for row, gpu in zip(rows, node.readings(NvidiaDriver), strict=True):
        assert row == [
            str(gpu.index),
            gpu.gpu.card.name,
            f"{gpu.memory_used_bytes // MIB} MiB",
            f"{gpu.power_average_milliwatts / 1000:.2f} W",
            str(gpu.temperature_celsius),
            "N/A" if gpu.memory_temperature_celsius is None else str(gpu.memory_temperature_celsius),
            "[N/A]" if gpu.fan_percent is None else f"{gpu.fan_percent} %",
            f"{gpu.sm_clock_mhz} MHz",
            gpu.gpu.serial or "[N/A]",
        ]


def test_query_without_header_and_units(make_node: MakeNode) -> None:
    node = make_node("nvidia-mixed")
    output = text(node, "--query-gpu=memory.total,uuid", "--format=csv,noheader,nounits")
    assert output == "".join(
        f"{g.memory_total_bytes // MIB}, {g.gpu.uuid}\n" for g in node.readings(NvidiaDriver)
    )


@pytest.mark.parametrize("option", ["1", "uuid", "00000000:28:00.0", "0000:28:00.0"])
def test_query_of_one_device(ready_node: MakeNode, option: str) -> None:
    node = ready_node("nvidia-h100x8")
    wanted = node.readings(NvidiaDriver)[1].gpu.uuid
    for arguments in (["-i", wanted if option == "uuid" else option], [f"--id={option}"]):
        if option == "uuid" and arguments[0] != "-i":
            continue
        assert table(node, "uuid", *arguments)[1:] == [[wanted]]


def test_a_card_in_mig_mode_has_no_utilisation(ready_node: MakeNode) -> None:
    rows = table(ready_node("nvidia-mig"), "utilization.gpu,mig.mode.current")[1:]
    assert rows[:2] == [["[N/A]", "Enabled"]] * 2
    assert re.fullmatch(r"\d+ %", rows[2][0])
    assert rows[2][1] == "Disabled"


def test_unknown_field_fails_the_whole_query(make_node: MakeNode) -> None:
    result = smi(make_node("nvidia-mig"), "--query-gpu=index,clocks.applications.sm", "--format=csv")
    assert result.returncode == 2
    assert result.stdout.splitlines()[0] == b'Field "clocks.applications.sm" is not a valid field to query.'


@pytest.mark.parametrize("arguments", [["--query-gpu=index", "--format=json"], ["--frobnicate"], [], ["-q"]])
def test_a_bad_command_line_is_rejected(ready_node: MakeNode, arguments: list[str]) -> None:
    assert smi(ready_node("nvidia-mig"), *arguments).returncode == 2


OLD = """
nvidia: {driver_version: "%s", cuda_version: "12.0", devices: [{model: t4}, {model: t4}]}
processes: [{name: a-name-of-more-than-15, device: 0, memory: 100MiB, load: {level: 0.5}}]
"""


@pytest.mark.parametrize(
    ("driver", "known", "unknown"),
    [
        ("470.57.02", ["clocks_throttle_reasons.active"], ["memory.reserved", "clocks_event_reasons.active"]),
        ("525.85.12", ["memory.reserved"], ["power.draw.instant"]),
        ("590.48.01", ["power.draw.instant", "clocks_throttle_reasons.active", "utilization.jpeg"], []),
    ],
)
def test_fields_depend_on_the_driver_version(
    make_node: MakeNode, driver: str, known: list[str], unknown: list[str]
) -> None:
    node = make_node(OLD % driver)
    listed = re.findall(r'"([^"]+)"', text(node, "--help-query-gpu"))
    for field in known:
        assert field in listed
        assert len(table(node, field)) == 3
    for field in unknown:
        assert field not in listed
        assert smi(node, f"--query-gpu={field}", "--format=csv").returncode == 2


@pytest.mark.parametrize(
    ("driver", "selection", "columns"),
    [
        ("525.85.12", "um", "gpu pid type sm mem enc dec fb command"),
        ("535.54.03", "um", "gpu pid type sm mem enc dec fb ccpm command"),
        ("590.48.01", "um", "gpu pid type sm mem enc dec jpg ofa fb ccpm command"),
        ("590.48.01", "u", "gpu pid type sm mem enc dec jpg ofa command"),
        ("590.48.01", "m", "gpu pid type fb ccpm command"),
    ],
)
def test_columns_of_pmon_depend_on_the_driver_version(
    make_node: MakeNode, driver: str, selection: str, columns: str
) -> None:
    node = make_node(OLD % driver)
    names, units, busy, idle = text(node, "pmon", "-s", selection, "-c", "1").splitlines()
    assert names.lstrip("# ").split() == columns.split()
    assert units.startswith("# Idx")
    cells = dict(zip(columns.split(), busy.split(), strict=True))
    process = node.readings(NvidiaDriver)[0].processes[0]
    assert (cells["gpu"], cells["pid"], cells["type"]) == ("0", str(process.pid), "C")
    assert cells["command"] == "a-name-of-more-"
    assert cells.get("fb", "100") == "100"
    assert cells.get("sm", str(process.sm)) == str(process.sm)
    assert idle.split() == ["1", *["-"] * (len(columns.split()) - 1)]


def test_pmon_of_several_samples_with_date_and_time(ready_node: MakeNode) -> None:
    node = ready_node("nvidia-mixed")
    lines = text(node, "pmon", "-c", "2", "-d", "0", "-o", "DT", "-i", "1").splitlines()
    assert lines[0].split()[:3] == ["#Date", "Time", "gpu"]
    assert len(lines) == 2 + 2 * 2
    assert all(re.match(r" \d{8} +\d\d:\d\d:\d\d +1 ", line) for line in lines[2:])


def test_the_list_contains_gpus_and_mig_devices(ready_node: MakeNode) -> None:
    node = ready_node("nvidia-mig")
    wanted = []
    for gpu in node.readings(NvidiaDriver):
        wanted.append(f"GPU {gpu.index}: {gpu.gpu.card.name} (UUID: {gpu.gpu.uuid})")
        wanted += [f"  MIG {m.part.name:<11} Device {m.part.index:>2}: (UUID: {m.uuid})" for m in gpu.mig]
    assert text(node, "-L").splitlines() == wanted
    assert wanted[1].startswith("  MIG 3g.40gb     Device  0: (UUID: MIG-")


def test_compute_apps_do_not_contain_graphics_processes(make_node: MakeNode) -> None:
    node = make_node("nvidia-mixed")
    query = "--query-compute-apps=gpu_uuid,pid,used_memory,process_name"
    header, *rows = text(node, query, "--format=csv").splitlines()
    assert header == "gpu_uuid, pid, used_gpu_memory [MiB], process_name"
    assert rows == [
        f"{gpu.gpu.uuid}, {p.pid}, {(p.memory_bytes or 0) // MIB} MiB, /usr/bin/{p.name}"
        for gpu in node.readings(NvidiaDriver)
        for p in gpu.processes
        if p.placement.type != "G"
    ]
    assert not any("Xorg" in row for row in rows)


@pytest.mark.parametrize("name", ready_made("nvidia"))
def test_the_xml_contains_the_readings(make_node: MakeNode, name: str) -> None:
    node = make_node(name, at=20)
    # The tool's own output, whose DOCTYPE this parser does not follow.
    root = ET.fromstring(text(node, "-q", "-x"))
    assert root.findtext("driver_version") == node.spec.of(NvidiaSpec).driver_version
    assert root.findtext("attached_gpus") == str(len(node.readings(NvidiaDriver)))
    elements = root.findall("gpu")
    for element, gpu in zip(elements, node.readings(NvidiaDriver), strict=True):
        assert element.get("id") == gpu.gpu.bus_id
        assert element.findtext("uuid") == gpu.gpu.uuid
        assert element.findtext("fb_memory_usage/used") == f"{gpu.memory_used_bytes // MIB} MiB"
        instant = f"{gpu.power_instant_milliwatts / 1000:.2f} W"
        assert element.findtext("gpu_power_readings/instant_power_draw") == instant
        utilization = "N/A" if gpu.gpu.partitioned else f"{gpu.utilization_percent} %"
        assert element.findtext("utilization/gpu_util") == utilization
        assert [
            int(m.findtext("gpu_instance_id", "")) for m in element.findall("mig_devices/mig_device")
        ] == [mig.part.gpu_instance_id for mig in gpu.mig]
        if not gpu.mig:
            assert element.findtext("mig_devices", "").strip() == "None"
        pids = [int(p.findtext("pid", "")) for p in element.findall("processes/process_info")]
        assert pids == [p.pid for p in gpu.processes]


@pytest.mark.parametrize(
    ("driver", "path"),
    [
        ("525.85.12", "power_readings/power_draw"),
        ("535.54.03", "gpu_power_readings/power_draw"),
        ("570.86.15", "gpu_power_readings/average_power_draw"),
    ],
)
def test_the_path_of_power_in_xml_depends_on_the_driver_version(
    make_node: MakeNode, driver: str, path: str
) -> None:
    node = make_node(OLD % driver)
    root = ET.fromstring(text(node, "-q", "-x"))
    assert (
        root.findtext(f"gpu/{path}")
        == f"{node.readings(NvidiaDriver)[0].power_average_milliwatts / 1000:.2f} W"
    )


def test_the_tool_prints_its_versions(ready_node: MakeNode) -> None:
    pairs = dict(
        re.split(r"\s+: ", line) for line in text(ready_node("nvidia-mig"), "--version").splitlines()
    )
    assert (pairs["DRIVER version"], pairs["CUDA Version"]) == ("590.48.01", "13.1")


QUERY = ("--query-gpu=index,uuid,name", "--format=csv,noheader")
SMALL = "nvidia:\n  devices: [{model: h100-80gb, count: 3}]\n"


def test_a_lost_device_has_an_error_instead_of_a_row(ready_node: MakeNode) -> None:
    node = ready_node("nvidia-sick")
    result = smi(node, *QUERY)
    first, *rows = result.stdout.decode().splitlines()
    assert result.returncode == 15
    assert first.startswith("Unable to determine the device handle for GPU0000:58:00.0: GPU is lost.")
    assert [row.split(",")[0] for row in rows] == ["0", "1", "2"]


def test_a_device_that_requires_a_reset_keeps_its_identity(make_node: MakeNode) -> None:
    node = make_node(SMALL)
    node.set_faults([Fault(kind=FaultKind.RESET_REQUIRED, device=2)])
    assert table(node, "index,power.draw,memory.used")[3] == ["2", *["[GPU requires reset]"] * 2]


@pytest.mark.parametrize("error", ToolError)
def test_each_error_has_its_text_and_exit_code(make_node: MakeNode, error: ToolError) -> None:
    node = make_node(SMALL)
    node.set_faults([Fault(kind=FaultKind.TOOL_ERROR, error=error)])
    result = smi(node, *QUERY)
    assert (result.returncode, result.stdout.decode().strip()) == TOOL_ERRORS[error]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FaultKind.DRIVER_NOT_LOADED, 9),
        (FaultKind.VERSION_MISMATCH, 18),
        (FaultKind.LIBRARY_MISSING, 12),
    ],
)
def test_faults_of_driver_and_library_affect_the_tool(
    make_node: MakeNode, kind: FaultKind, code: int
) -> None:
    node = make_node(SMALL)
    node.set_faults([Fault(kind=kind)])
    assert smi(node, *QUERY).returncode == code


def test_a_node_without_devices_reports_none(make_node: MakeNode) -> None:
    result = smi(make_node("nvidia: {}\n"), *QUERY)
    assert (result.returncode, result.stdout) == (6, b"No devices were found\n")


def test_output_faults_damage_the_output(make_node: MakeNode) -> None:
    node = make_node(SMALL)
    whole = smi(node, *QUERY).stdout

    def with_fault(kind: FaultKind) -> subprocess.CompletedProcess[bytes]:
        node.set_faults([Fault(kind=kind)])
        return smi(node, *QUERY)

    garbage = with_fault(FaultKind.TOOL_GARBAGE)
    assert (garbage.returncode, b"GPU-" in garbage.stdout) == (0, False)
    truncated = with_fault(FaultKind.TOOL_TRUNCATED).stdout
    assert whole.startswith(truncated)
    assert not truncated.endswith(b"\n")
    other = with_fault(FaultKind.TOOL_NON_UTF8).stdout
    with pytest.raises(UnicodeDecodeError):
        other.decode()
    assert other.count(b"GPU-") == 3
    killed = with_fault(FaultKind.TOOL_KILLED)
    assert (killed.returncode, whole.startswith(killed.stdout)) == (-9, True)
    node.set_faults([])
    assert smi(node, *QUERY).stdout == whole


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind=FaultKind.TOOL_HANG),
        Fault(kind=FaultKind.LIBRARY_HANG),
        Fault(kind=FaultKind.HANG, device=1),
    ],
    ids=lambda fault: fault.kind,
)
def test_a_hung_tool_returns_when_the_fault_ends(make_node: MakeNode, fault: Fault) -> None:
    node = make_node(SMALL)
    node.set_faults([fault])
    with pytest.raises(subprocess.TimeoutExpired):
        smi(node, *QUERY, timeout=0.3)
    threading.Timer(0.2, node.set_faults, [[]]).start()
    assert smi(node, *QUERY).returncode == 0


def test_a_hung_device_does_not_block_queries_of_another(make_node: MakeNode) -> None:
    node = make_node(SMALL)
    node.set_faults([Fault(kind=FaultKind.HANG, device=1)])
    assert smi(node, *QUERY, "-i", "0").returncode == 0


def test_the_tool_can_be_missing(make_node: MakeNode) -> None:
    node = make_node(SMALL)
    tool = Path(node.agent_settings()["nvidia_smi_path"])
    node.set_faults([Fault(kind=FaultKind.TOOL_MISSING)])
    assert not tool.exists()
    node.set_faults([])
    assert smi(node, "-L").returncode == 0


def test_a_run_uses_the_configured_time_and_memory(make_node: MakeNode) -> None:
    node = make_node("nvidia: {tool: {cost_ms: 60, memory_mb: 40}, devices: [{model: t4}]}\n")
    tool = node.agent_settings()["nvidia_smi_path"]
    child = os.posix_spawn(tool, [tool, "--version"], {}, file_actions=[(os.POSIX_SPAWN_CLOSE, 1)])
    used = os.wait4(child, 0)[2]
    assert used.ru_utime + used.ru_stime >= 0.055
    assert used.ru_maxrss >= 40 * 1024
