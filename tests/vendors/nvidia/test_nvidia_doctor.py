"""Doctor checks of GPUs on PCI, the kernel module and the device files."""

import errno
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from accelscope.doctor.check import Finding, Subject
from accelscope.vendors.nvidia import doctor

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def severities(findings: Iterable[Finding]) -> list[str]:
    return [finding.severity.value for finding in findings]


def test_only_graphics_functions_of_nvidia_are_counted(node: "NodeFolder") -> None:
    node.gpu("0000:1b:00.0")
    node.gpu("0000:1b:00.1", kind="0x040300")  # the card's sound
    node.gpu("0000:3a:00.0", kind="0x068000")  # an NVSwitch
    node.gpu("0000:43:00.0", kind="0x030000")
    node.write({"sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n"})
    node.write({"sys/bus/pci/devices/0000:00:02.0/class": "0x030000\n"})
    [finding] = doctor.on_pci(node.subject())
    assert finding.severity == "ok"
    assert finding.found == "2: 0000:1b:00.0, 0000:43:00.0"
    assert finding.details["devices"]["0000:1b:00.0"] == {"device": "0x2330", "driver": "nvidia"}


def test_a_node_without_gpus_is_only_a_note(node: "NodeFolder") -> None:
    assert severities(doctor.on_pci(node.subject())) == ["note"]  # no such folder
    (node.folder / "sys/bus/pci/devices").mkdir(parents=True)
    assert severities(doctor.on_pci(node.subject())) == ["note"]
    assert severities(doctor.module(node.subject())) == ["note"]
    assert severities(doctor.files(node.subject())) == ["note"]
    assert not doctor.hardware(node.subject()).is_present


@pytest.mark.parametrize(("holder", "second"), [("vfio-pci", "note"), ("nouveau", "warning")])
def test_a_gpu_bound_to_another_driver_is_reported(node: "NodeFolder", holder: str, second: str) -> None:
    node.gpu("0000:1b:00.0", holder)
    found = list(doctor.on_pci(node.subject()))
    assert severities(found) == ["ok", second]
    assert holder.partition("-")[0] in found[1].found
    assert not doctor.hardware(node.subject()).is_present


def test_a_gpu_for_a_virtual_machine_needs_no_module(node: "NodeFolder") -> None:
    node.gpu("0000:1b:00.0", "vfio-pci")
    assert severities(doctor.module(node.subject())) == ["note"]


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"sys/module/nvidia/version": "550.54.15\n"}, "550.54.15"),
        (
            {
                "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  "
                "Thu May  2 14:37:44 UTC 2024\n"
            },
            "470.256.02",
        ),
        (
            {
                "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                "590.48.01  Release Build  (dvs-builder)\nGCC version:  gcc version 13.3.0\n"
            },
            "590.48.01",
        ),
        ({"proc/driver/nvidia/version": "unknown format", "sys/module/nvidia/version": "1.2"}, "1.2"),
        ({"proc/driver/nvidia/version": "unknown format"}, None),
        ({}, None),
    ],
)
def test_the_version_of_the_loaded_module_is_found(
    node: "NodeFolder", files: dict[str, str], version: str | None
) -> None:
    node.write(files)
    assert doctor.module_version(node.subject().paths) == version


def test_gpus_without_the_module_are_a_warning_with_advice(node: "NodeFolder") -> None:
    node.gpu("0000:1b:00.0", None)
    [finding] = doctor.module(node.subject())
    assert finding.severity == "warning"
    assert "modprobe nvidia" in (finding.advice or "")
    assert "GPU Operator" in (finding.advice or "")


def test_device_files_that_can_be_opened_are_ok(node: "NodeFolder") -> None:
    node.gpu("0000:1b:00.0")
    node.module()
    node.device_files("nvidiactl", "nvidia0", "nvidia-uvm", "nvidia-modeset")
    [finding] = doctor.files(node.subject())
    assert finding.severity == "ok"
    assert finding.found.startswith("nvidiactl and nvidia0 in ")


@pytest.mark.parametrize(
    ("names", "environ", "severity", "word", "todo"),
    [
        ((), {}, "error", "no nvidiactl", "nvidia-persistenced"),
        ((), POD, "error", "no nvidiactl", "runtimeClassName: nvidia"),
        (("nvidia0", "nvidia1"), {}, "warning", "missing: nvidiactl", "nvidia-persistenced"),
        (("nvidiactl", "nvidia0"), POD, "warning", "the files of 1 of 2 GPUs", "NVIDIA_VISIBLE_DEVICES=all"),
        (("dxg",), {}, "ok", "WSL", ""),
    ],
)
def test_missing_device_files_are_reported(
    node: "NodeFolder", names: tuple[str, ...], environ: dict[str, str], severity: str, word: str, todo: str
) -> None:
    node.module()
    node.gpu("0000:1b:00.0")
    node.gpu("0000:43:00.0")
    node.device_files(*names)
    [finding] = doctor.files(node.subject(environ=environ))
    assert finding.severity == severity
    assert word in finding.found
    assert todo in (finding.advice or "")


@pytest.mark.parametrize(("environ", "todo"), [({}, "SupplementaryGroups="), (POD, "securityContext")])
def test_device_files_that_this_user_may_not_open_are_an_error(
    node: "NodeFolder",
    ordinary_user: Callable[[], AbstractContextManager[None]],
    environ: dict[str, str],
    todo: str,
) -> None:
    node.module()
    node.device_files("nvidiactl", "nvidia0", "nvidia1")
    for path in (node.folder / "dev").iterdir():
        path.chmod(0 if path.name != "nvidiactl" else 0o666)
    subject = node.subject(environ=environ)
    with ordinary_user():
        [finding] = doctor.files(subject)
    assert finding.severity == "error"
    assert "nvidia0" in finding.found
    assert "nvidia1 (----------, group" in finding.found
    assert "nvidiactl" not in finding.found
    if environ and (node.folder / "dev/nvidia0").stat().st_gid == 0:
        todo = "run the agent as root"  # no supplementary group would help
    assert todo in (finding.advice or "")


@pytest.mark.parametrize(
    ("code", "environ", "todo"),
    [
        (errno.EPERM, POD, "systemctl daemon-reload"),
        (errno.EPERM, {}, "DeviceAllow=char-195 rw"),
        (errno.ENXIO, {}, "fell off the bus"),
    ],
)
def test_the_advice_depends_on_the_error_of_opening_a_file(
    node: "NodeFolder", monkeypatch: pytest.MonkeyPatch, code: int, environ: dict[str, str], todo: str
) -> None:
    def closed(_: Path) -> OSError:
        return OSError(code, "closed")

    monkeypatch.setattr(doctor, "open_error", closed)
    node.device_files("nvidiactl")
    node.module()
    subject: Subject = node.subject(environ=environ)
    [finding] = doctor.files(subject)
    assert todo in (finding.advice or "")


@pytest.mark.parametrize("code", [errno.ENXIO, errno.ENODEV, errno.EACCES])
@pytest.mark.parametrize(
    ("on_pci", "module", "severity"),
    [(False, False, "note"), (True, False, "error"), (False, True, "error")],
)
def test_a_device_file_without_gpu_and_module_is_left_over(
    node: "NodeFolder",
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    on_pci: bool,
    module: bool,
    severity: str,
) -> None:
    monkeypatch.setattr(doctor, "open_error", lambda _: OSError(code, "closed"))
    (node.folder / "sys/bus/pci/devices").mkdir(parents=True)
    node.device_files("nvidiactl")
    if on_pci:
        node.gpu("0000:1b:00.0", None)
    if module:
        node.module()
    [finding] = doctor.files(node.subject())
    assert finding.severity == severity
    assert (finding.advice is None) == (severity == "note")


@pytest.mark.parametrize(
    ("code", "severity"), [(errno.ENXIO, "note"), (errno.ENODEV, "note"), (errno.EACCES, "error")]
)
def test_a_device_file_without_visible_pci_and_module_is_not_a_lost_gpu(
    node: "NodeFolder", monkeypatch: pytest.MonkeyPatch, code: int, severity: str
) -> None:
    monkeypatch.setattr(doctor, "open_error", lambda _: OSError(code, "closed"))
    node.device_files("nvidiactl")
    [finding] = doctor.files(node.subject())
    assert finding.severity == severity
    assert "bus" not in (finding.advice or "")
    assert "left over" in finding.found or severity == "error"


def test_the_hardware_is_counted_without_the_driver(node: "NodeFolder") -> None:
    node.module()
    node.gpu("0000:1b:00.0")
    node.gpu("0000:43:00.0", None)
    node.gpu("0000:52:00.0", "vfio-pci")
    node.device_files("nvidiactl", "nvidia0")
    found = doctor.hardware(node.subject())
    assert found.addresses == {"0000:1b:00.0"}
    assert found.unheld == {"0000:43:00.0"}
    assert found.device_files == 1
    assert found.driver_loaded
