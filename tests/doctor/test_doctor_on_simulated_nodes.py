"""`accelscope doctor` on simulated nodes, healthy and broken."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.costless import costless
from tests.waiting import wait_until

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.doctor import Report, Subject, areas_for, document, examine, text
from accelscope.doctor.check import Finding
from accelscope.model import Vendor
from accelscope.simulate import Fault, FaultKind, SimulatedNode

# Port 0, because an agent may run on the machine that runs the tests.
PATIENT = {
    "reader_timeout": "30s",
    "device_timeout": "10s",
    "exporter_port": "0",
    "pod_source": "off",
    "pod_resources_socket": "",
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, native_cache: Path) -> SimulatedNode:
    folder = tmp_path_factory.mktemp("node") / "mixed"
    node = SimulatedNode(costless("nvidia-mixed"), folder, cache=native_cache)
    node.build()
    return node


def settings_of(node: SimulatedNode) -> dict[str, str]:
    return {**node.agent_settings(), **PATIENT}


def examined(node: SimulatedNode, root: Path) -> Report:
    """As on a host: `root` has no files of a container runtime."""
    loaded = load(AgentSettings, settings_of(node), {})
    return examine(Subject(loaded=loaded, environ={}, root=root), areas_for(loaded.settings))


def of_vendor(report: Report) -> dict[str, Finding]:
    return {finding.name: finding for area, finding in report.findings if area == "nvidia"}


@pytest.mark.parametrize("name", ["nvidia-h100x8", "nvidia-mig", "nvidia-mixed"])
def test_a_healthy_node_has_no_problems(tmp_path: Path, native_cache: Path, name: str) -> None:
    node = SimulatedNode(costless(name), tmp_path / "node", cache=native_cache)
    node.build()
    node.write(100.0)
    report = examined(node, tmp_path)
    assert report.exit_code == 0, text(report)
    found = of_vendor(report)
    assert all(finding.severity == "ok" for finding in found.values()), text(report)
    devices = node.spec.device_count
    assert found["count"].details["counts"] == {"reader": devices, "PCI": devices, "device files": devices}
    assert found["nvml"].details["library"] == found["nvml"].details["driver"]
    assert found["on devices"].details["with_user"] == found["on devices"].details["processes"] > 0
    assert max(len(line) for line in text(report).splitlines() if "/" not in line) <= 80
    assert "not-to-be-published" not in json.dumps(document(report))


def test_each_problem_of_an_unhealthy_node_has_advice(tmp_path: Path, native_cache: Path) -> None:
    node = SimulatedNode(costless("nvidia-sick"), tmp_path / "node", cache=native_cache)
    node.build()
    node.write(100.0)
    report = examined(node, tmp_path)
    assert report.exit_code == 2
    devices = {name: f for name, f in of_vendor(report).items() if name.startswith("device ")}
    severities = {finding.severity.value for finding in devices.values()}
    assert severities == {"ok", "warning", "error"}
    advice = " ".join(finding.advice or "" for finding in devices.values())
    for word in ("fell off the bus", "Check fans", "--gpu-reset"):
        assert word in advice


def _faults(kinds: list[str]) -> list[Fault]:
    return [Fault(kind=kind, device=1 if kind.of_device else None) for kind in map(FaultKind, kinds)]


def doctor(*arguments: str, settings: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    flags = [word for k, v in (settings or {}).items() for word in (f"--{k.replace('_', '-')}", v)]
    environ = {k: v for k, v in os.environ.items() if k != "KUBERNETES_SERVICE_HOST"}
    return subprocess.run(
        [sys.executable, "-m", "accelscope", "doctor", *arguments, *flags],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=environ,
    )


@pytest.mark.parametrize(
    ("faults", "worst", "check", "found", "advice"),
    [
        (["driver_not_loaded"], "error", "nvml", "Driver Not Loaded", "modprobe nvidia"),
        (["version_mismatch"], "error", "nvml", "mismatch", "reboot the node"),
        (["library_missing", "tool_missing"], "error", "library", "is not there", "--nvml-library"),
        (["library_missing", "tool_garbage"], "error", "reading", "nvidia-smi", "nvidia-smi"),
        (["library_missing", "tool_killed"], "error", "reading", "signal 9", "out of memory"),
        (["lost"], "error", "device 1", "lost", "XID 79"),
        (["reset_required"], "error", "device 1", "requires a reset", "nvidia-smi --gpu-reset -i 1"),
        (["hot"], "warning", "device 1", "throttled", "fans"),
        (["tool_missing"], "note", "nvidia-smi", "not found", None),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_each_fault_is_reported_with_advice(
    mixed: SimulatedNode,
    faults: list[str],
    worst: str,
    check: str,
    found: str,
    advice: str | None,
) -> None:
    """In a separate process: a loaded library stays loaded when its file is removed."""
    mixed.set_faults(_faults(faults))
    try:
        done = doctor("--json", settings=settings_of(mixed))
    finally:
        mixed.set_faults(())
    assert done.stderr == ""
    printed = json.loads(done.stdout)
    assert printed["worst"] == worst
    assert done.returncode == {"note": 0, "warning": 1, "error": 2}[worst]
    finding = _checks(done.stdout)[check]
    assert found in finding["found"]
    assert ("advice" not in finding) if advice is None else (advice in finding["advice"])


@pytest.mark.parametrize(
    ("faults", "check"),
    [
        (["hang"], "device 1"),
        (["library_hang"], "nvml"),
        (["library_missing", "tool_hang"], "reading"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_the_command_ends_when_a_driver_hangs(mixed: SimulatedNode, faults: list[str], check: str) -> None:
    # The other devices may be slow on a busy machine.
    impatient = {**PATIENT, "reader_timeout": "3s" if faults == ["hang"] else "1s", "device_timeout": "1s"}
    mixed.set_faults(_faults(faults))
    try:
        done = doctor("--json", settings={**mixed.agent_settings(), **impatient})
    finally:
        mixed.set_faults(())
    assert done.returncode == 2, done.stderr
    assert done.stderr == ""
    checks = _checks(done.stdout)
    assert checks[check]["severity"] == "error"
    assert "The driver hangs" in checks[check]["advice"]
    if faults == ["hang"]:
        assert checks["device 0"]["severity"] == "ok"
    tool = mixed.agent_settings()["nvidia_smi_path"]
    wait_until(lambda: not any(_runs(process, tool) for process in Path("/proc").glob("[0-9]*")), "it ended")


def _runs(process: Path, program: str) -> bool:
    try:
        return (process / "cmdline").read_bytes().startswith(program.encode())
    except OSError:
        return False


def test_the_command_prints_json(mixed: SimulatedNode) -> None:
    done = doctor("--json", settings={**settings_of(mixed), "node_name": "gpu-17"})
    assert done.returncode == 0, done.stdout
    printed = json.loads(done.stdout)
    assert printed.keys() == {"version", "node", "worst", "checks"}
    assert printed["node"] == "gpu-17"
    assert printed["worst"] == "note"
    for check in printed["checks"]:
        assert check.keys() - {"advice"} == {"area", "name", "severity", "found", "details"}
    vendors = {vendor.value for vendor in Vendor}
    assert {check["area"] for check in printed["checks"]} == {
        *("settings", "http", "node", "attribution", "node object"),
        *vendors,
    }


@pytest.mark.parametrize("left_behind", [False, True])
def test_a_node_without_a_driver_is_no_error(open_folder: Path, left_behind: bool) -> None:
    """Also where NVIDIA's library has created its device file, as it does when run as root."""
    for folder in ("dev", "sys/bus/pci/devices"):
        (open_folder / folder).mkdir(parents=True)
    (open_folder / "dev/null").touch()
    if left_behind:
        with socket.socket(socket.AF_UNIX) as made:  # opening it fails as a device file without a driver
            made.bind(str(open_folder / "dev/nvidiactl"))
    done = doctor(
        settings={
            "exporter_port": "0",
            "nvml_library": "/none",
            "nvidia_smi_path": "/none",
            "dev_root": str(open_folder / "dev"),
            "sys_root": str(open_folder / "sys"),
        }
    )
    assert done.stderr == ""
    words = " ".join(done.stdout.split())
    assert ("left over" in words) == left_behind
    assert "fell off the bus" not in words
    assert "nvidia-smi" in done.stdout
    assert done.stdout.splitlines()[0].startswith("accelscope ")
    assert done.returncode < 2, done.stdout


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"exporter_port": "high"}, "--exporter-port"),
        ({"config_file": "/nowhere/agent.yaml"}, "/nowhere/agent.yaml"),
        ({"tls_key": "/k"}, "--tls-certificate and --tls-key"),
    ],
)
def test_a_bad_setting_is_one_line_and_exit_code_2(settings: dict[str, str], word: str) -> None:
    done = doctor(settings=settings)
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("accelscope doctor: ")
    assert word in line


def _checks(printed: str) -> dict[str, Any]:
    """By name. Of the vendors' areas only NVIDIA's, because check names repeat."""
    others = {vendor.value for vendor in Vendor} - {"nvidia"}
    return {check["name"]: check for check in json.loads(printed)["checks"] if check["area"] not in others}
