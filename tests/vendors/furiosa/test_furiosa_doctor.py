"""What doctor says where Furiosa cards may be: cards, driver, what may be read, tools."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import programs
from tests.costless import costless

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.doctor import Report, Subject, areas_for, examine, text
from accelscope.doctor.check import Finding
from accelscope.simulate import Fault, FaultKind, SimulatedNode
from accelscope.vendors.furiosa import doctor

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
AT = "0000:44:00.0"


def severities(findings: Iterable[Finding]) -> list[str]:
    return [finding.severity.value for finding in findings]


def on_bus(node: "NodeFolder", address: str = AT, driver: str | None = "rngd") -> None:
    folder = f"sys/bus/pci/devices/{address}"
    node.write(
        {f"{folder}/vendor": "0x1ed2\n", f"{folder}/device": "0x0001\n", f"{folder}/class": "0x120000\n"}
    )
    if driver is not None:
        node.link(f"{folder}/driver", f"../../../bus/pci/drivers/{driver}")


def in_class(node: "NodeFolder", index: int = 0, **attributes: str) -> None:
    told = {"platform_type": "FuriosaAI", "busname": AT, "version": "2026.1.2, 7d20b6e"} | attributes
    folder = f"sys/class/rngd_mgmt/rngd!npu{index}mgmt"
    node.write({f"{folder}/{name}": f"{value}\n" for name, value in told.items()})


def subject(node: "NodeFolder", **more: object) -> Subject:
    paths = {
        "furiosa_smi_path": str(node.folder / "furiosa-smi"),
        "furiosactl_path": str(node.folder / "furiosactl"),
    }
    return node.subject(paths, **more)  # type: ignore[arg-type]


def tool(node: "NodeFolder", script: str) -> None:
    programs.script(node.folder / "furiosa-smi", script)


def test_a_node_without_cards_is_not_an_error(node: "NodeFolder") -> None:
    assert severities(doctor.on_pci(subject(node))) == ["note"]  # no such folder
    (node.folder / "sys/bus/pci/devices").mkdir(parents=True)
    assert severities(doctor.on_pci(subject(node))) == ["note"]
    assert severities(doctor.driver(subject(node))) == ["note"]
    assert severities(doctor.tools(subject(node))) == ["note", "note"]
    assert not doctor.hardware(subject(node)).is_present


def test_cards_without_their_driver(node: "NodeFolder") -> None:
    on_bus(node, driver=None)
    assert severities(doctor.on_pci(subject(node))) == ["ok"]
    [finding] = doctor.driver(subject(node))
    assert finding.severity == "warning"
    assert "furiosa-driver-rngd" in (finding.advice or "")
    assert doctor.hardware(subject(node)).unheld == {AT}


def test_cards_of_a_virtual_machine_need_no_driver(node: "NodeFolder") -> None:
    on_bus(node, driver="vfio-pci")
    assert severities(doctor.on_pci(subject(node))) == ["ok", "note"]
    assert severities(doctor.driver(subject(node))) == ["note"]


def test_a_driver_names_its_cards(node: "NodeFolder") -> None:
    on_bus(node)
    in_class(node)
    [finding] = doctor.driver(subject(node))
    assert (finding.severity, finding.details["version"]) == ("ok", "2026.1.2, 7d20b6e")
    assert "npu0 (rngd)" in finding.found
    hardware = doctor.hardware(subject(node))
    assert hardware.addresses == {AT}
    assert hardware.driver_loaded


def test_a_driver_without_cards_is_told(node: "NodeFolder") -> None:
    (node.folder / "sys/class/rngd_mgmt").mkdir(parents=True)
    assert severities(doctor.driver(subject(node))) == ["warning"]


@pytest.mark.parametrize(("environ", "word"), [({}, "root"), (POD, "/sys")])
def test_files_that_may_not_be_read(
    node: "NodeFolder",
    ordinary_user: Callable[[], AbstractContextManager[None]],
    environ: dict[str, str],
    word: str,
) -> None:
    in_class(node, heartbeat="1", device_uuid="x")
    (node.folder / "sys/class/rngd_mgmt/rngd!npu0mgmt/heartbeat").chmod(0)
    with ordinary_user():
        [finding] = doctor.attributes(subject(node, environ=environ))
    assert finding.severity == "error"
    assert finding.found.endswith("heartbeat: Permission denied")
    assert word in (finding.advice or "")


def test_files_that_can_be_read_are_fine(node: "NodeFolder") -> None:
    in_class(node)
    assert severities(doctor.attributes(subject(node))) == ["ok"]


def test_device_files_are_counted_by_card(node: "NodeFolder") -> None:
    in_class(node)
    assert severities(doctor.files(subject(node))) == ["note"]
    node.device_files("rngd/npu0pe0", "rngd/npu0pe0-1", "rngd/npu0mgmt", "rngd/npu1pe0")
    [finding] = doctor.files(subject(node))
    assert (finding.severity, finding.details["files"]) == ("ok", ["npu0pe0", "npu0pe0-1"])


@pytest.mark.parametrize(
    ("script", "severity", "found", "todo"),
    [
        (
            "echo '| Arch | Device | Temp. | Power |'; echo '| rngd | npu0 | 30°C | 40 W |'",
            "ok",
            "lists 1 card",
            "",
        ),
        (
            "echo 'error while loading shared libraries: libfuriosa_smi.so: cannot open' >&2; exit 127",
            "warning",
            "libfuriosa_smi.so",
            "LD_LIBRARY_PATH",
        ),
        ("echo 'Error: permission denied error' >&2; exit 1", "warning", "permission denied", "root"),
        (
            "echo 'Error: incompatible driver error' >&2; exit 1",
            "warning",
            "incompatible",
            "different releases",
        ),
        ("exec sleep 60", "warning", "no answer", "hangs"),
    ],
)
def test_findings_about_a_tool(node: "NodeFolder", script: str, severity: str, found: str, todo: str) -> None:
    in_class(node)
    tool(node, script)
    settings = {
        "furiosa_smi_path": str(node.folder / "furiosa-smi"),
        "furiosactl_path": str(node.folder / "furiosactl"),
        "reader_timeout": "0.5s" if "sleep" in script else "30s",
    }
    finding, other = doctor.tools(node.subject(settings))
    assert finding.severity == severity
    assert found in finding.found
    assert todo in (finding.advice or "")
    assert other.severity == "note"


def test_a_tool_that_is_missing_where_it_is_needed(node: "NodeFolder") -> None:
    in_class(node)
    finding, _ = doctor.tools(subject(node))
    assert finding.severity == "warning"
    assert "memory" in finding.found
    assert "--furiosa-smi-path" in (finding.advice or "")
    path = node.folder / "furiosa-smi"
    path.write_text("not executable")
    finding, _ = doctor.tools(subject(node))
    assert "chmod" in (finding.advice or "")


def examined(node: SimulatedNode, root: Path) -> Report:
    """As on a host: `root` has no mark of a container."""
    given = {
        **node.agent_settings(),
        "reader_timeout": "30s",
        "device_timeout": "10s",
        "exporter_port": "0",
        "readers": "furiosa",
    }
    loaded = load(AgentSettings, given, {})
    return examine(Subject(loaded=loaded, environ={}, root=root), areas_for(loaded.settings))


def of_vendor(report: Report) -> dict[str, Finding]:
    return {finding.name: finding for area, finding in report.findings if area == "furiosa"}


@pytest.mark.parametrize("name", ["furiosa-warboy", "furiosa-rngd", "furiosa-both"])
def test_a_healthy_node_is_fine(tmp_path: Path, native_cache: Path, name: str) -> None:
    node = SimulatedNode(costless(name), tmp_path / "node", cache=native_cache)
    node.build(100.0)
    report = examined(node, tmp_path)
    found = of_vendor(report)
    assert {finding.severity.value for finding in found.values()} <= {"ok", "note"}, text(report)
    devices = node.spec.device_count
    assert found["count"].details["counts"] == {"reader": devices, "PCI": devices}
    assert found["on devices"].details["with_user"] == found["on devices"].details["processes"] > 0
    assert "not-to-be-published" not in text(report)


@pytest.mark.parametrize(
    ("fault", "name", "severity", "advice"),
    [
        (Fault(kind=FaultKind.DRIVER_NOT_LOADED), "driver", "warning", "furiosa-driver-rngd"),
        (Fault(kind=FaultKind.DRIVER_NOT_LOADED), "reading", "error", "furiosa-driver-rngd"),
        (Fault(kind=FaultKind.TOOL_MISSING), "furiosa-smi", "warning", "--furiosa-smi-path"),
        (Fault(kind=FaultKind.LIBRARY_MISSING), "furiosa-smi", "warning", "LD_LIBRARY_PATH"),
        (Fault(kind=FaultKind.TOOL_ERROR, error="no_permission"), "furiosa-smi", "warning", "root"),
        (Fault(kind=FaultKind.RESET_REQUIRED, device=1), "device 1", "error", "firmware"),
        (Fault(kind=FaultKind.HOT, device=1), "device 1", "warning", "fans"),
        (Fault(kind=FaultKind.LOST, device=1), "device 1", "error", "reseat"),
    ],
    ids=lambda value: value.error or value.kind if isinstance(value, Fault) else None,
)
def test_a_broken_node_is_explained(
    tmp_path: Path, native_cache: Path, fault: Fault, name: str, severity: str, advice: str
) -> None:
    node = SimulatedNode(costless("furiosa-rngd"), tmp_path / "node", cache=native_cache)
    node.build(100.0)
    node.set_faults([fault])
    report = examined(node, tmp_path)
    finding = of_vendor(report)[name]
    assert finding.severity == severity, text(report)
    assert advice in (finding.advice or ""), text(report)
