"""The checks of doctor for AMD GPUs."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import programs
from tests.costless import costless

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.doctor import Subject, examine
from accelscope.doctor.check import Finding, Severity
from accelscope.doctor.vendors import vendor_area
from accelscope.model import Vendor
from accelscope.simulate import Fault, FaultKind, SimulatedNode
from accelscope.vendors.amd import doctor
from accelscope.vendors.common.tool import end_running_tools

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def gpu(node: "NodeFolder", address: str, driver: str | None = "amdgpu", kind: str = "0x120000") -> None:
    pci = f"sys/bus/pci/devices/{address}"
    node.write({f"{pci}/vendor": "0x1002\n", f"{pci}/device": "0x74a1\n", f"{pci}/class": f"{kind}\n"})
    if driver is not None:
        node.link(f"{pci}/driver", f"../../../bus/pci/drivers/{driver}")


def card(node: "NodeFolder", **files: str) -> None:
    device = "sys/class/drm/card1/device"
    node.write(
        {
            "sys/module/amdgpu/version": "6.14.14\n",
            f"{device}/vendor": "0x1002\n",
            f"{device}/uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:83:00.0\n",
            **{f"{device}/{name}": f"{value}\n" for name, value in files.items()},
        }
    )


def script(node: "NodeFolder", name: str, lines: str) -> str:
    return str(programs.script(node.folder / name, lines))


def only(findings: Iterable[Finding]) -> Finding:
    [finding] = findings
    return finding


def test_a_node_without_gpus_has_no_problems(node: "NodeFolder") -> None:
    node.write({"sys/bus/pci/devices/.keep": ""})
    subject = node.subject({"readers": "amd", "amd_smi_path": "none", "rocm_smi_path": "none"})
    report = examine(subject, (vendor_area(Vendor("amd")),))
    assert report.exit_code == 0
    assert {finding.severity for _, finding in report.findings} == {Severity.NOTE}


def test_gpus_without_a_loaded_driver_are_a_warning(node: "NodeFolder") -> None:
    gpu(node, "0000:83:00.0", None)
    found = only(doctor.module(node.subject()))
    assert found.severity is Severity.WARNING
    assert "modprobe amdgpu" in (found.advice or "")
    hardware = doctor.hardware(node.subject())
    assert (hardware.unheld, hardware.driver_loaded) == (frozenset({"0000:83:00.0"}), False)


def test_gpus_bound_to_other_drivers_are_reported(node: "NodeFolder") -> None:
    for number, driver in enumerate(("vfio-pci", "radeon", "amdgpu")):
        gpu(node, f"0000:0{number}:00.0", driver, "0x030000")
    found = list(doctor.on_pci(node.subject()))
    assert [finding.severity for finding in found] == [Severity.OK, Severity.NOTE, Severity.NOTE]
    assert "virtual machine" in found[1].found
    assert "radeon" in found[2].found
    assert doctor.hardware(node.subject()).addresses == {"0000:02:00.0"}


def test_unreadable_driver_files_are_an_error(
    node: "NodeFolder", ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    card(node, gpu_busy_percent="5")
    assert only(doctor.files(node.subject())).severity is Severity.OK
    (node.folder / "sys/class/drm/card1/device/gpu_busy_percent").chmod(0)
    with ordinary_user():
        found = only(doctor.files(node.subject()))
    assert found.severity is Severity.ERROR
    assert "render and video" in (found.advice or "")
    assert "gpu_busy_percent" in found.found


def test_inaccessible_device_files_are_a_warning(
    node: "NodeFolder", ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    card(node)
    assert only(doctor.device_files(node.subject())).severity is Severity.NOTE
    node.write({"dev/kfd": "", "dev/dri/renderD128": ""})
    assert only(doctor.device_files(node.subject())).severity is Severity.OK
    (node.folder / "dev/kfd").chmod(0)
    with ordinary_user():
        found = only(doctor.device_files(node.subject(environ=POD)))
    assert found.severity is Severity.WARNING
    assert "supplementalGroups" in (found.advice or "")


def test_processes_of_other_users_that_cannot_be_listed_are_reported(
    node: "NodeFolder", ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    card(node)
    node.write({"proc/7/fd/.keep": "", "sys/class/kfd/kfd/proc/7/pasid": "1"})
    assert only(doctor.processes(node.subject())).severity is Severity.OK
    (node.folder / "proc/7/fd").chmod(0)
    with ordinary_user():
        found = only(doctor.processes(node.subject()))
    assert found.severity is Severity.NOTE
    assert "SYS_PTRACE" in (found.advice or "")


def test_a_missing_tool_is_reported_only_with_gpus(node: "NodeFolder") -> None:
    settings = {"amd_smi_path": str(node.folder / "no-tool"), "rocm_smi_path": str(node.folder / "no-tool")}
    assert only(doctor.amd_smi(node.subject(settings))).advice is None
    card(node)
    found = only(doctor.amd_smi(node.subject(settings)))
    assert found.severity is Severity.NOTE
    assert "--amd-smi-path" in (found.advice or "")


@pytest.mark.parametrize(
    ("lines", "severity", "word"),
    [
        ('echo \'[{"gpu": 0, "asic": {"market_name": "X"}}]\'', Severity.OK, None),
        (
            "echo \"ModuleNotFoundError: No module named 'amdsmi'\" >&2; exit 1",
            Severity.WARNING,
            "LD_LIBRARY_PATH",
        ),
        (
            "echo 'WARNING: User is missing the following required groups: render, video.'; exit 246",
            Severity.WARNING,
            "render and video",
        ),
        (
            "echo 'Driver not loaded (amdgpu not found in modules)' >&2; exit 250",
            Severity.WARNING,
            "modprobe",
        ),
        ("kill -9 $$", Severity.WARNING, "256Mi"),
        ("sleep 30", Severity.WARNING, "--tool-interval"),
    ],
)
def test_a_failing_tool_is_a_warning_with_advice(
    node: "NodeFolder", lines: str, severity: Severity, word: str | None
) -> None:
    card(node)
    settings = {
        "amd_smi_path": script(node, "amd-smi", lines),
        "reader_timeout": "1s" if "sleep" in lines else "30s",
    }
    found = only(doctor.amd_smi(node.subject(settings)))
    assert found.severity is severity, found
    assert (word is None) == (found.advice is None)
    assert (word or "") in (found.advice or "")


def test_rocm_smi_is_checked_only_without_amd_smi(node: "NodeFolder") -> None:
    card(node)
    rocm = script(node, "rocm-smi", "echo 'WARNING: No JSON data to report'")
    settings = {"rocm_smi_path": rocm, "amd_smi_path": script(node, "amd-smi", "true")}
    assert only(doctor.rocm_smi(node.subject(settings))).severity is Severity.OK
    settings["amd_smi_path"] = str(node.folder / "no-tool")
    assert only(doctor.rocm_smi(node.subject(settings))).severity is Severity.WARNING


@pytest.mark.parametrize("answers", [True, False])
def test_doctor_waits_for_a_slow_tool_that_is_the_only_source(node: "NodeFolder", *, answers: bool) -> None:
    node.write(
        {
            "dev/kfd": "",
            "static.json": '[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"}}]',
            "metric.json": '[{"gpu": 0, "power": {"socket_power": {"value": 100, "unit": "W"}}}]',
        }
    )
    lines = f'sleep {0.5 if answers else 600}\ncat "{node.folder}/$1.json" 2>/dev/null || echo "[]"'
    settings = {
        "readers": "amd",
        "amd_smi_path": script(node, "amd-smi", lines),
        "reader_timeout": "60s" if answers else "5s",
    }
    report = examine(node.subject(settings), (vendor_area(Vendor("amd")),))
    end_running_tools()
    found = {finding.name: finding for _, finding in report.findings}
    if answers:
        assert found["reading"].found.startswith("1 of 1 devices read through amd-smi")
        assert "AMD Instinct MI300X" in found["device 0"].found
    else:
        assert found["reading"].severity is Severity.ERROR
        assert "returned no result within 4 s" in found["reading"].found
        assert "The tool hangs" in (found["reading"].advice or "")


PATIENT = {"reader_timeout": "30s", "device_timeout": "10s"}
IMPATIENT = {"reader_timeout": "3s", "device_timeout": "1s"}  # where something hangs


def examined(node: SimulatedNode, root: Path, timeouts: Mapping[str, str] = PATIENT) -> dict[str, Finding]:
    loaded = load(AgentSettings, {**node.agent_settings(), "readers": "amd", **timeouts}, {})
    report = examine(Subject(loaded=loaded, environ={}, root=root), (vendor_area(Vendor("amd")),))
    return {finding.name: finding for _, finding in report.findings}


@pytest.mark.parametrize("name", ["amd-mi300x8", "amd-mi250", "amd-radeon", "amd-mi300-cpx"])
def test_a_healthy_node_has_no_problems(tmp_path: Path, native_cache: Path, name: str) -> None:
    node = SimulatedNode(costless(name), tmp_path / "node", cache=native_cache)
    node.build(60.0)
    found = examined(node, tmp_path)
    assert {f.severity for f in found.values()} <= {Severity.OK, Severity.NOTE}, found
    devices = node.spec.device_count
    assert found["count"].details["counts"] == {"reader": devices, "PCI": devices}
    assert found["on devices"].details["with_user"] == found["on devices"].details["processes"] > 0


def test_each_fault_of_a_node_is_reported(tmp_path: Path, native_cache: Path) -> None:
    node = SimulatedNode(costless("amd-mi300x8"), tmp_path / "node", cache=native_cache)
    node.build(60.0)
    node.set_faults(
        [
            Fault(kind=FaultKind.LOST, device=1),
            Fault(kind=FaultKind.HOT, device=2),
            Fault(kind=FaultKind.HANG, device=3),
            Fault(kind=FaultKind.VANISHED, device=4),
        ]
    )
    found = examined(node, tmp_path, IMPATIENT)
    node.set_faults(())
    troubled = {name for name, f in found.items() if f.severity is Severity.ERROR}
    assert troubled == {"device 1", "device 2", "device 3"}
    assert "fell off the bus" in (found["device 1"].advice or "")
    assert "fans" in (found["device 2"].advice or "")
    assert "hangs" in (found["device 3"].advice or "")
    assert found["amd-smi"].severity is Severity.WARNING
