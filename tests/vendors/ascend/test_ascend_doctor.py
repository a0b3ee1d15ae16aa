"""The checks of doctor for Ascend: driver, libraries, tool, permissions and unhealthy chips."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import programs
from tests.costless import costless

from accelscope.doctor.check import Finding, Severity, Subject
from accelscope.doctor.examination import run
from accelscope.doctor.vendors import vendor_area
from accelscope.model import Vendor
from accelscope.simulate import Fault, FaultKind, SimulatedNode

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
ADDRESS = "0000:c1:00.0"


class Ascend:
    """A node folder with Ascend things in it."""

    def __init__(self, node: "NodeFolder") -> None:
        self.node = node

    def npu(self, address: str = ADDRESS, driver: str | None = "devdrv_device_driver") -> None:
        pci = f"sys/bus/pci/devices/{address}"
        self.node.write(
            {f"{pci}/vendor": "0x19e5\n", f"{pci}/device": "0xd802\n", f"{pci}/class": "0x120000\n"}
        )
        if driver is not None:
            self.node.link(f"{pci}/driver", f"../../../bus/pci/drivers/{driver}")

    def module(self) -> None:
        self.node.write({"sys/module/drv_davinci_intf_host/refcnt": "1\n"})

    def files(self) -> None:
        self.node.device_files("davinci_manager", "devmm_svm", "hisi_hdc", "davinci0")

    def libraries(self) -> None:
        self.node.write(
            {"driver/lib64/driver/libdrvdsmi_host.so": "", "driver/version.info": "Version=25.1\n"}
        )

    def tool(self, script: str = "") -> None:
        programs.script(self.node.folder / "npu-smi", script)

    def findings(self, environ: dict[str, str] | None = None) -> dict[str, Finding]:
        subject = self.node.subject(
            {
                "npu_smi_path": str(self.node.folder / "npu-smi"),
                "ascend_driver_root": str(self.node.folder / "driver"),
            },
            environ=environ,
        )
        return {finding.name: finding for finding in examined(subject)}


def examined(subject: Subject) -> Iterator[Finding]:
    for check in vendor_area(Vendor("ascend")).checks:
        yield from run(check, subject)


@pytest.fixture
def ascend(node: "NodeFolder") -> Ascend:
    return Ascend(node)


def test_a_node_without_ascend_has_no_problems(ascend: Ascend) -> None:
    findings = ascend.findings()
    assert {finding.severity for finding in findings.values()} == {Severity.NOTE}
    assert "nothing to read" in findings["reading"].found


def test_npus_without_a_driver_are_a_warning(ascend: Ascend) -> None:
    ascend.npu(driver=None)
    findings = ascend.findings()
    assert findings["pci"].severity is Severity.OK
    assert findings["module"].severity is Severity.WARNING
    assert findings["reading"].severity is Severity.WARNING
    assert "Install Ascend's driver" in (findings["reading"].advice or "")


def test_npus_passed_through_to_a_virtual_machine_need_no_driver(ascend: Ascend) -> None:
    ascend.npu(driver="vfio-pci")
    findings = ascend.findings()
    assert "passed through to a virtual machine" in findings["pci"].found
    assert {findings[name].severity for name in ("module", "npu-smi", "reading")} == {Severity.NOTE}


def test_a_driver_without_npu_smi_is_an_error(ascend: Ascend) -> None:
    ascend.npu()
    ascend.module()
    ascend.files()
    ascend.libraries()
    findings = ascend.findings()
    assert findings["npu-smi"].severity is Severity.ERROR
    assert "--npu-smi-path" in (findings["npu-smi"].advice or "")
    assert findings["reading"].severity is Severity.ERROR
    assert "/usr/local/sbin/npu-smi" in (ascend.findings(POD)["npu-smi"].advice or "")


def test_npu_smi_without_execute_permission_is_an_error(ascend: Ascend) -> None:
    ascend.tool()
    (ascend.node.folder / "npu-smi").chmod(0o644)
    finding = ascend.findings()["npu-smi"]
    assert finding.severity is Severity.ERROR
    assert "chmod" in (finding.advice or "")


def test_a_driver_without_libraries_is_a_warning(ascend: Ascend) -> None:
    ascend.npu()
    ascend.module()
    ascend.files()
    ascend.tool("echo 'npu-smi: error while loading shared libraries: libdrvdsmi_host.so: no' >&2; exit 127")
    findings = ascend.findings()
    assert findings["driver folder"].severity is Severity.WARNING
    assert "does not exist" in findings["driver folder"].found
    assert "--ascend-driver-root" in (findings["driver folder"].advice or "")
    assert "--ascend-driver-root" in (findings["reading"].advice or "")
    (ascend.node.folder / "driver").mkdir()
    assert "lib64/driver" in ascend.findings()["driver folder"].found
    assert "/usr/local/dcmi" in (ascend.findings(POD)["driver folder"].advice or "")


def test_inaccessible_device_files_are_an_error(
    ascend: Ascend, ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    ascend.module()
    ascend.files()
    (ascend.node.folder / "dev/davinci_manager").chmod(0)
    ascend.tool("echo 'dcmi module initialize failed. ret is -8005'; exit 187")
    with ordinary_user():
        findings = ascend.findings()
    assert findings["device files"].severity is Severity.ERROR
    assert "davinci_manager" in findings["device files"].found
    assert "HwHiAiUser" in (findings["device files"].advice or "")
    assert findings["reading"].severity is Severity.ERROR
    assert "HwHiAiUser" in (findings["reading"].advice or "")
    assert "privileged" in (ascend.findings(POD)["reading"].advice or "")


def test_missing_device_files_are_reported(ascend: Ascend) -> None:
    ascend.module()
    finding = ascend.findings()["device files"]
    assert finding.severity is Severity.ERROR
    ascend.node.device_files("davinci_manager", "davinci0")
    finding = ascend.findings()["device files"]
    assert finding.severity is Severity.WARNING
    assert "devmm_svm and hisi_hdc" in finding.found


def test_another_npu_smi_is_reported(ascend: Ascend) -> None:
    ascend.tool("echo 'npu-smi for AMD XDNA'")
    assert "AMD" in ascend.findings()["reading"].found
    ascend.files()
    finding = ascend.findings()["reading"]
    assert finding.severity is Severity.ERROR
    assert "--npu-smi-path" in (finding.advice or "")


@pytest.fixture
def simulated(tmp_path: Path, native_cache: Path) -> SimulatedNode:
    node = SimulatedNode(costless("ascend-910b-x8"), tmp_path / "node", cache=native_cache)
    node.build(60.0)
    return node


def on_simulated(node: SimulatedNode, folder: "NodeFolder") -> dict[str, Finding]:
    return {f.name: f for f in examined(folder.subject(node.agent_settings()))}


def test_a_healthy_node_has_no_problems(simulated: SimulatedNode, node: "NodeFolder") -> None:
    findings = on_simulated(simulated, node)
    bad = {name: f for name, f in findings.items() if f.severity.rank > Severity.NOTE.rank}
    assert bad.keys() <= {"on devices"}  # whose users are not in this machine's list
    assert findings["count"].details["counts"] == {"reader": 8, "PCI": 8, "device files": 8}
    assert "25.0.rc1" in findings["reading"].found
    assert "driver 25.0.rc1" in findings["driver folder"].found


def test_unhealthy_and_lost_chips_are_errors(simulated: SimulatedNode, node: "NodeFolder") -> None:
    simulated.set_faults([Fault(kind=FaultKind.ECC_STORM, device=2), Fault(kind=FaultKind.LOST, device=6)])
    findings = on_simulated(simulated, node)
    assert findings["device 2"].severity is Severity.ERROR
    assert "npu-smi info -t health" in (findings["device 2"].advice or "")
    assert findings["count"].severity is Severity.ERROR
    assert "does not list" in findings["count"].found


@pytest.mark.parametrize(
    ("kind", "check", "severity"),
    [
        (FaultKind.LIBRARY_MISSING, "driver folder", Severity.WARNING),
        (FaultKind.TOOL_MISSING, "npu-smi", Severity.ERROR),
        (FaultKind.DRIVER_NOT_LOADED, "module", Severity.WARNING),
    ],
)
def test_missing_parts_of_the_driver_are_reported(
    simulated: SimulatedNode, node: "NodeFolder", kind: FaultKind, check: str, severity: Severity
) -> None:
    simulated.set_faults([Fault(kind=kind)])
    findings = on_simulated(simulated, node)
    assert findings[check].severity is severity
    assert findings["reading"].severity is not Severity.OK
    assert findings["reading"].advice
