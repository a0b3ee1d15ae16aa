"""`accelscope doctor --cross-check` on simulated nodes: silent where all agrees, precise where not."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.costless import costless
from tests.programs import script

from accelscope.agent.settings import AgentSettings
from accelscope.cli.main import main
from accelscope.config import load
from accelscope.doctor import Report, Subject, cross_check_area, examine, text
from accelscope.doctor.check import Finding
from accelscope.doctor.cross_check import CheckedTool, CrossCheck, ToolCommand, cross_check
from accelscope.model import Device, Reading, Vendor
from accelscope.parsing import ParseResult
from accelscope.simulate import Fault, FaultKind, SimulatedNode
from accelscope.vendors.common.contract import ReaderOptions, Survey
from accelscope.vendors.declaration import VendorSetting

PATIENT = {"reader_timeout": "30s", "device_timeout": "10s", "pod_source": "off", "pod_resources_socket": ""}
Build = Callable[[str], SimulatedNode]


@pytest.fixture
def build(tmp_path: Path, native_cache: Path) -> Build:
    def built(name: str) -> SimulatedNode:
        node = SimulatedNode(costless(name), tmp_path / name, cache=native_cache)
        node.build()
        node.write(100.0)
        return node

    return built


def checked(node: SimulatedNode, **settings: str) -> list[Finding]:
    return [finding for _, finding in report_of(node, **settings).findings]


def report_of(node: SimulatedNode, **settings: str) -> Report:
    loaded = load(AgentSettings, {**node.agent_settings(), **PATIENT, **settings}, {})
    vendors = map(Vendor, loaded.settings.readers)
    return examine(Subject(loaded=loaded, environ={}), (cross_check_area(vendors),))


def bend_answer(node: SimulatedNode, tool: str, command: str) -> dict[str, str]:
    """The settings of a node whose tool prints something else: `command` is a filter of the shell."""
    name = f"{tool.replace('-', '_')}_path"
    real = node.agent_settings()[name]
    bent = script(Path(real).parent / f"bent-{tool}", f'"{real}" "$@" | {command}')
    return {name: str(bent)}


def bend_files(node: SimulatedNode, pattern: str, change: Callable[[str], str]) -> None:
    files = [path for path in (Path(node.agent_settings()["sys_root"])).rglob(pattern) if path.is_file()]
    assert files
    for path in files[:1]:
        path.write_text(change(path.read_text()))


def differences(findings: list[Finding]) -> list[dict[str, Any]]:
    return [dict(finding.details) for finding in findings if "field" in finding.details]


@pytest.mark.parametrize(
    ("name", "tools", "fields"),
    [
        ("nvidia-h100x8", {"nvidia-smi": 8}, ("power_watts", "ecc.corrected.volatile.dram.count", "uuid")),
        ("nvidia-mig", {"nvidia-smi": 3}, ("partitions.*.*.memory_used_bytes", "mig_enabled")),
        ("nvidia-mixed", {"nvidia-smi": 4}, ("fans.*.speed_ratio", "pcie.generation")),
        ("amd-mi300x8", {"amd-smi": 8, "rocm-smi": 8}, ("memory_used_bytes", "temperature_celsius")),
        ("amd-mi300-cpx", {"amd-smi": 2, "rocm-smi": 2}, ("memory_total_bytes", "power_watts")),
        ("amd-mi250", {"rocm-smi": 8}, ("memory_used_bytes", "power_watts")),
        ("furiosa-rngd", {"furiosa-smi": 4}, ("health", "cores.*.utilization_ratio", "memory_used_bytes")),
        ("furiosa-warboy", {"furiosactl": 2}, ("power_watts", "cores.*.occupied")),
        ("furiosa-both", {"furiosa-smi": 1, "furiosactl": 1}, ("serial", "temperature_celsius")),
        ("ascend-910b-x8", {"npu-smi": 8}, ("power_watts", "memory_used_ratio")),
        ("ascend-310p", {"npu-smi": 3}, ("utilization_ratio", "memory_used_ratio")),
        ("ascend-a3", {"npu-smi": 16}, ("temperature_celsius",)),
    ],
)
def test_a_healthy_node_is_one_line_for_each_tool(
    build: Build, name: str, tools: dict[str, int], fields: tuple[str, ...]
) -> None:
    report = report_of(build(name))
    assert report.exit_code == 0, text(report)
    findings = {finding.name: finding for _, finding in report.findings}
    assert len(findings) == len(report.findings)
    assert findings.keys() == tools.keys(), text(report)
    for tool, devices in tools.items():
        finding = findings[tool]
        assert finding.severity == "ok"
        words = f"devices agree with {tool} " if devices > 1 else f"device agree with {tool} "
        assert words in finding.found
        details = finding.details
        assert (details["devices"], details["differ"]) == (devices, 0)
        assert details["compared"] == details["agree"] + details["explained"]
        assert details["agree"] >= 5 * devices
        assert not details["missing_in_tool"]
        assert not details["missing_in_reader"]
        assert details["fields"].keys() >= set(fields)
        assert details["independent"] == (tool != "npu-smi")


def test_links_are_compared_by_the_gpu_at_the_other_end(build: Build) -> None:
    """amd-smi numbers them by GPU, the driver by port."""
    amd_smi, _ = checked(build("amd-mi300x8"))
    links = {field: n for field, n in amd_smi.details["fields"].items() if field.startswith("links.")}
    names = ("active", "bytes_per_second", "receive_bytes_total", "transmit_bytes_total")
    assert links == {f"links.xgmi.*.{name}": 56 for name in names}
    assert "links" not in str(amd_smi.details["not_compared"]["only_tool"])


def test_a_tool_that_is_the_source_of_the_reader_is_named_as_such(build: Build) -> None:
    [finding] = checked(build("ascend-910b-x8"))
    assert "npu-smi is also the reader's source" in finding.found


def test_the_tool_is_not_compared_with_what_it_told_the_reader(build: Build) -> None:
    """The reader fills gaps from the tool. Without the file, power comes from there."""
    node = build("amd-mi300x8")
    for path in Path(node.agent_settings()["sys_root"]).rglob("power1_*"):
        path.unlink()
    for path in Path(node.agent_settings()["sys_root"]).rglob("gpu_metrics"):
        path.unlink()
    amd_smi, *_ = checked(node)
    assert amd_smi.name == "amd-smi"
    assert "power_watts" not in amd_smi.details["fields"]
    assert amd_smi.details["not_compared"]["only_tool"]["power_watts"] == 8
    assert "throttles" not in str(amd_smi.details["fields"])


@pytest.mark.parametrize(
    ("name", "tool", "file", "change", "field", "device"),
    [
        ("amd-mi300x8", "amd-smi", "mem_info_vram_total", "double", "memory_total_bytes", "amd:"),
        ("furiosa-rngd", "furiosa-smi", "device_state", "1", "health", "furiosa:"),
        ("furiosa-rngd", "furiosa-smi", "hwmon/hwmon*/power1_average", "double", "power_watts", "furiosa:"),
    ],
)
def test_a_bent_file_is_reported_with_both_values(
    build: Build, name: str, tool: str, file: str, change: str, field: str, device: str
) -> None:
    node = build(name)
    before = {d["field"] for d in differences(checked(node))}
    assert not before
    bend_files(node, file, lambda text: f"{2 * int(text)}\n" if change == "double" else f"{change}\n")
    report = report_of(node)
    found = [entry for entry in differences([f for _, f in report.findings]) if entry["field"] == field]
    assert found
    assert len({entry["device"] for entry in found}) == 1
    [entry] = [entry for entry in found if entry["command"].startswith(tool)][:1]
    assert entry["device"].startswith(device)
    assert entry["tool"] not in entry["reader"]
    assert report.exit_code == 1
    if change == "double":
        assert entry["reader"][0] == pytest.approx(2 * entry["tool"], rel=0.02)
        assert "factor of 2" in entry["hint"]
    words = " ".join(text(report).split())
    assert f"{field} is" in words
    assert "accelscope capture" in words


@pytest.mark.parametrize(
    ("name", "tool", "change", "field"),
    [
        ("nvidia-h100x8", "nvidia-smi", "s/<serial>.*</<serial>17</", "serial"),
        (
            "nvidia-mig",
            "nvidia-smi",
            r"s/(<multiprocessor_count>)[0-9]+/\13/",
            "partitions.*.multiprocessors",
        ),
        ("amd-mi300x8", "amd-smi", r's/"U"/"D"/', "links.xgmi.*.active"),
        ("amd-mi300x8", "amd-smi", "s/MI300X/MI355X/", "model"),
        ("amd-mi300-cpx", "amd-smi", r's/"gpu": 8,/"gpu": 99,/', "index"),
        ("amd-mi250", "rocm-smi", r's/("VRAM Total Memory \(B\)": ")/\19/g', "memory_total_bytes"),
        ("ascend-910b-x8", "npu-smi", r"s/^(\s*NPU Real-time Power\(W\)\s*:).*/\1 999.0/", "power_watts"),
        ("furiosa-warboy", "furiosactl", r's/"[0-9.]+ ?W"/"999 W"/', "power_watts"),
        ("furiosa-warboy", "furiosactl", r"s/[0-9.]+ ?°C/99°C/", "temperature_celsius"),
    ],
)
def test_a_bent_answer_is_reported_with_both_values(
    build: Build, name: str, tool: str, change: str, field: str
) -> None:
    node = build(name)
    findings = checked(node, **bend_answer(node, tool, f"sed -E '{change}'"))
    numbers = r"\.gi[0-9]+\.ci[0-9]+|\.[0-9]+"
    fields = {re.sub(numbers, ".*", entry["field"]) for entry in differences(findings)}
    assert field in fields, findings
    assert fields <= {field, "memory_used_ratio"}
    warnings = [finding for finding in findings if finding.severity == "warning"]
    assert warnings
    assert all("accelscope capture" in (finding.advice or "") for finding in warnings)


def test_a_value_is_named_with_device_tool_and_tolerance(build: Build) -> None:
    node = build("nvidia-mixed")
    bent = bend_answer(
        node, "nvidia-smi", "sed -E 's/<current_power_limit>.*</<current_power_limit>50.00 W</'"
    )
    findings = [f for f in checked(node, **bent) if "field" in f.details]
    assert findings
    for finding in findings:
        entry = finding.details
        assert finding.name == f"device {entry['index']}"
        assert finding.found == (
            f"{entry['device']}: power_limit_watts is {entry['reader'][0]:g} in the reader and 50 in "
            f"`nvidia-smi -q -x`, tolerance 1. Possibly: {entry['hint']}"
        )


def test_many_differences_are_counted_and_all_in_the_details(build: Build) -> None:
    node = build("nvidia-h100x8")
    bent = bend_answer(
        node, "nvidia-smi", "sed -E 's/(<(max_link_gen|max_link_width|current_ecc|serial)>).*</\\1 7</'"
    )
    findings = checked(node, **bent)
    [summary] = [finding for finding in findings if finding.severity == "ok"]
    assert len(differences(findings)) == 20
    assert len(summary.details["differences"]) == summary.details["differ"] > 20
    more = summary.details["differ"] - 20
    assert any(finding.found.startswith(f"{more} more values differ") for finding in findings)


# --- tools and devices with faults ------------------------------------------------------------


def faulty(node: SimulatedNode, *kinds: str, tool: str | None = None) -> None:
    node.set_faults(
        [
            Fault(
                kind=kind,
                device=1 if kind.of_device else None,
                tool=tool if kind.of_tool else None,
            )
            for kind in map(FaultKind, kinds)
        ]
    )


TOOLS = {
    "nvidia-mixed": "nvidia-smi",
    "amd-mi250": "rocm-smi",
    "furiosa-rngd": "furiosa-smi",
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_missing_tool_is_a_note(build: Build, name: str) -> None:
    node = build(name)
    faulty(node, "tool_missing")
    [finding] = checked(node)
    assert finding.severity == "note"
    devices = node.spec.device_count
    assert finding.found.startswith(f"{devices} devices not compared: ")
    assert f"{TOOLS[name]} not found" in finding.found
    assert f"--{TOOLS[name]}-path" in (finding.advice or "")


def test_a_missing_tool_of_some_devices_leaves_the_others(build: Build) -> None:
    """Furiosa's two families have a tool each."""
    node = build("furiosa-both")
    faulty(node, "tool_missing", tool="furiosactl")
    missing, agreeing = checked(node)
    assert missing.found == "1 device not compared: furiosactl not found"
    assert (agreeing.name, agreeing.details["devices"]) == ("furiosa-smi", 1)


@pytest.mark.parametrize("name", TOOLS)
def test_a_hanging_tool_is_ended_and_reported(build: Build, name: str) -> None:
    node = build(name)
    faulty(node, "tool_hang")
    [finding] = checked(node, reader_timeout="2s")
    assert finding.severity == "warning"
    assert finding.name == TOOLS[name]
    assert "gave no answer within 1.6 s" in finding.found
    assert finding.details["reason"] == "tool_timeout"
    assert not finding.hung


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("fault", ["tool_garbage", "tool_killed"])
def test_a_tool_without_values_is_reported(build: Build, name: str, fault: str) -> None:
    node = build(name)
    faulty(node, fault)
    findings = checked(node)
    assert findings
    assert {finding.name for finding in findings} == {TOOLS[name]}
    assert all(finding.severity == "warning" for finding in findings)
    assert all(finding.found.startswith("not compared: ") for finding in findings)
    assert all(finding.advice for finding in findings)


@pytest.mark.parametrize(("name", "devices"), [("nvidia-mixed", 4), ("amd-mi250", 8), ("furiosa-rngd", 4)])
def test_a_lost_device_is_left_out(build: Build, name: str, devices: int) -> None:
    node = build(name)
    faulty(node, "lost")
    report = report_of(node)
    assert report.exit_code == 0, text(report)
    [(_, finding)] = report.findings
    assert finding.details["devices"] == devices - 1


def test_a_device_that_hangs_in_the_reader_does_not_hang_the_comparison(build: Build) -> None:
    node = build("nvidia-mixed")
    faulty(node, "hang")
    try:
        findings = checked(node, device_timeout="1s", reader_timeout="5s")
    finally:
        node.set_faults(())
    assert findings
    assert all(finding.hung for finding in findings)


def test_a_device_that_the_tool_does_not_list_is_reported(build: Build) -> None:
    node = build("nvidia-mixed")
    bent = bend_answer(
        node, "nvidia-smi", r"""awk '/<gpu id=/ && ++n == 2 {skip=1} !skip {print} /<\/gpu>/ {skip=0}'"""
    )
    warnings = [finding for finding in checked(node, **bent) if finding.severity == "warning"]
    assert any(finding.found.startswith("does not list device 1 (nvidia:GPU-") for finding in warnings)


def test_a_device_that_only_the_tool_lists_is_reported(build: Build) -> None:
    node = build("furiosa-rngd")
    bend = "sed -E " + " ".join(
        f"""-e 's/"{key}": ?"[^"]*"/"{key}": "{value}"/'"""
        for key, value in (("pci_bdf", "0000:ee:00.0"), ("device_uuid", "ffff"))
    )
    bent = bend_answer(node, "furiosa-smi", bend)
    warnings = [finding for finding in checked(node, **bent) if finding.severity == "warning"]
    assert any("devices that the reader does not have: 0000:ee:00.0" in each.found for each in warnings)


def test_a_node_without_devices_and_tools_has_nothing_to_compare(tmp_path: Path) -> None:
    nowhere = {f"{tool}_path": "/none" for tool in ("nvidia_smi", "amd_smi", "rocm_smi", "npu_smi")}
    nowhere |= {"furiosa_smi_path": "/none", "furiosactl_path": "/none", "nvml_library": "/none"}
    roots = {f"{root}_root": str(tmp_path) for root in ("proc", "sys", "dev")}
    loaded = load(AgentSettings, {**nowhere, **roots}, {})
    area = cross_check_area(map(Vendor, loaded.settings.readers))
    report = examine(Subject(loaded=loaded, environ={}), (area,))
    [(_, finding)] = report.findings
    assert (finding.severity, report.exit_code) == ("note", 0)
    assert finding.found == "nothing to compare: neither devices nor a vendor's tool found"


@pytest.mark.parametrize("name", ["nvidia-mixed", "amd-mi250", "furiosa-rngd", "ascend-910b-x8"])
def test_without_a_driver_there_is_nothing_to_compare(build: Build, name: str) -> None:
    node = build(name)
    faulty(node, "driver_not_loaded")
    [finding] = checked(node)
    assert finding.severity == "note"
    assert "nothing to compare" in finding.found


def test_a_reader_that_has_only_the_tool_is_not_compared_with_it(build: Build) -> None:
    node = build("nvidia-mixed")
    [finding] = checked(node, nvml_library="/none")
    assert finding.severity == "note"
    assert "without nvidia-smi, the reader has no values" in finding.found


# --- values that move ------------------------------------------------------------


class MovingReader:
    """A device whose energy grows with each reading, and whose power is another each time."""

    vendor = Vendor("nvidia")

    def __init__(self, watts: Iterator[float]) -> None:
        self.watts = watts
        self.readings = 0

    def survey(self) -> Survey:
        return Survey("fake", ("0",), "1")

    def read(self, key: str) -> Reading:
        del key
        self.readings += 1
        return Reading(
            Device(
                vendor=Vendor("nvidia"),
                id="nvidia:GPU-0",
                index=0,
                uuid="GPU-0",
                energy_joules=1e6 * self.readings,
                power_watts=next(self.watts),
            )
        )

    def close(self) -> None: ...


SETTING = VendorSetting(name="nvidia_smi_path", default="fake-smi", help="")


def moving(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: Callable[[], Device], watts: Iterator[float]
) -> list[Finding]:
    def opened(vendor: Vendor, options: ReaderOptions) -> MovingReader:
        assert options.settings["nvidia_smi_path"] == "/dev/null/none"
        return MovingReader(watts)

    monkeypatch.setattr("accelscope.agent.assembly.open_reader", opened)
    tool = script(tmp_path / "fake-smi", "echo 1.2.3")
    loaded = load(AgentSettings, {"nvidia_smi_path": str(tool)}, {})
    command = ToolCommand((("query",),), lambda _: ParseResult(devices=(told(),)))
    declared = CrossCheck(tools=(CheckedTool(setting=SETTING, commands=lambda _: (command,)),))
    return list(cross_check(Vendor("nvidia"), declared, str, Subject(loaded=loaded, environ={})))


def repeated(*watts: float) -> Iterator[float]:
    yield from watts
    while True:
        yield watts[-1]


def device_told(**values: float) -> Device:
    return Device(vendor=Vendor("nvidia"), id="?", uuid="GPU-0", **values)  # type: ignore[arg-type]


def test_a_growing_value_has_a_bracket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It was 1 MJ before and 2 MJ after the tool ran."""
    [finding] = moving(monkeypatch, tmp_path, lambda: device_told(energy_joules=1.5e6), repeated(100.0))
    assert finding.severity == "ok"
    assert finding.found == "2 values of 1 device agree with fake-smi 1.2.3"
    for outside in (0.5e6, 9e6):
        told = device_told(energy_joules=outside)
        findings = moving(monkeypatch, tmp_path, partial(replace, told), repeated(100.0))
        [entry] = differences(findings)
        assert entry["field"] == "energy_joules"
        assert len(entry["reader"]) == 2


def test_a_value_that_agrees_at_the_second_attempt_is_no_difference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [finding] = moving(
        monkeypatch, tmp_path, lambda: device_told(power_watts=500.0), repeated(100.0, 110.0, 490.0, 510.0)
    )
    assert finding.severity == "ok"


def test_a_value_that_never_agrees_is_reported_after_three_rounds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read: list[float] = []

    def watts() -> Iterator[float]:
        while True:
            read.append(100.0)
            yield 100.0

    findings = moving(monkeypatch, tmp_path, lambda: device_told(power_watts=500.0), watts())
    [entry] = differences(findings)
    assert (entry["reader"], entry["tool"], entry["tolerance"]) == ([100.0], 500.0, 5.0)
    assert len(read) == 4  # before the first round, and after each


def test_a_difference_with_a_known_reason_is_explained_in_the_same_line(build: Build) -> None:
    """rocm-smi 6.1 prints gfx9010 for gfx90a, and gfx11000 for gfx1100."""
    node = build("amd-mi300x8")
    bent = bend_answer(node, "rocm-smi", "sed s/gfx942/gfx9402/g")
    _, rocm_smi = checked(node, **bent)
    assert rocm_smi.severity == "ok"
    assert "8 differ as expected, architecture: rocm-smi 6.1 prints the last digit" in rocm_smi.found
    _, summary, *others = checked(node, **bend_answer(node, "rocm-smi", "sed s/gfx942/gfx90a/g"))
    assert summary.details["differ"] == len(others) == 8


def test_errors_of_one_command_leave_the_others(build: Build) -> None:
    node = build("amd-mi300x8")
    name = "amd_smi_path"
    real = node.agent_settings()[name]
    bent = script(Path(real).parent / "bent", f'[ "$1" = metric ] && exit 1; exec "{real}" "$@"')
    failed, agreeing, rocm_smi = checked(node, **{name: str(bent)})
    assert failed.found.startswith("not compared: amd-smi metric --json: ")
    assert (agreeing.name, agreeing.severity) == ("amd-smi", "ok")
    assert rocm_smi.name == "rocm-smi"


@pytest.mark.parametrize(("version", "known"), [("24.5.2", True), ("24.6.2", False)])
def test_a_known_mistake_of_a_version_is_no_warning(build: Build, version: str, known: bool) -> None:
    node = build("amd-mi300x8")
    real = node.agent_settings()["amd_smi_path"]
    message = (
        "UnboundLocalError: cannot access local variable 'bitrate' where it is not associated with a value"
    )
    bent = script(
        Path(real).parent / "bent",
        f"""case "$1" in
        version) echo "AMDSMI Tool: {version}" ;;
        xgmi) echo "{message}" >&2; exit 1 ;;
        *) exec "{real}" "$@" ;;
        esac""",
    )
    *failed, amd_smi, _ = checked(node, amd_smi_path=str(bent))
    assert amd_smi.severity == "ok"
    assert ("; `amd-smi xgmi --json` fails as expected: amd-smi 6.1 " in amd_smi.found) == known
    assert [finding.found.partition(": U")[0] for finding in failed] == (
        [] if known else ["not compared: amd-smi xgmi --json"]
    )


# --- the command ------------------------------------------------------------


def test_the_command_prints_the_comparison_as_text_and_json(
    build: Build, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelscope.cli.output.start_no_more_tools", lambda: None)  # for the next tests
    node = build("nvidia-mixed")
    settings = {**node.agent_settings(), **PATIENT, "exporter_port": "0"}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    assert main(["doctor", "--cross-check", *flags]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "cross-check ok nvidia-smi" in printed
    main(["doctor", "--cross-check", "--json", *flags])
    checks = json.loads(capsys.readouterr().out)["checks"]
    [check] = [check for check in checks if check["area"] == "cross-check"]
    assert check["name"] == "nvidia-smi"
    assert check["details"]["differ"] == 0
    main(["doctor", *flags])
    assert "cross-check" not in capsys.readouterr().out
