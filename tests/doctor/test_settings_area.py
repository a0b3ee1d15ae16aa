"""Settings that are not at their defaults, with their origins."""

from typing import TYPE_CHECKING

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.doctor.check import Subject
from accelscope.doctor.node import SETTINGS_CHECKS

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder


def findings(subject: Subject) -> dict[str, tuple[str, str]]:
    return {f.name: (f.severity.value, f.found) for check in SETTINGS_CHECKS for f in check.look(subject)}


def test_each_explicit_setting_is_shown_with_its_origin(node: "NodeFolder") -> None:
    file = node.folder / "agent.yaml"
    file.write_text("# mine\nlabels: {rack: 7}\n")
    loaded = load(
        AgentSettings, {"exporter_port": "9500", "config_file": str(file)}, {"COLLECT_INTERVAL": "5"}
    )
    found = findings(Subject(loaded=loaded, environ={}))
    assert found["exporter-port"] == ("ok", "9500, from the command line")
    assert found["collection-interval"] == ("ok", "5s, from COLLECT_INTERVAL")
    assert found["labels"] == ("ok", f"rack=7, from {file}:2: labels")
    assert "log-level" not in found


def test_a_pattern_that_matches_no_metric_is_a_warning() -> None:
    settings = {"metric_allowlist": "accelerator_up,accelerator_powr_watts", "metric_denylist": "DCGM_*"}
    found = findings(Subject(loaded=load(AgentSettings, settings, {}), environ={}))
    severity, text = found["metric-allowlist"]
    assert severity == "warning"
    assert text.endswith(": no metric matches accelerator_powr_watts")
    assert found["metric-denylist"][0] == "warning"
    found = findings(Subject(loaded=load(AgentSettings, {**settings, "dialect": "dcgm"}, {}), environ={}))
    assert found["metric-denylist"] == ("ok", "DCGM_*, from the command line")


def test_a_counters_file_is_checked(node: "NodeFolder") -> None:
    file = node.folder / "counters.csv"
    settings = {"dialect": "dcgm", "dcgm_counters": str(file), "metric_denylist": "DCGM_FI_DEV_GPU_TEMP"}
    subject = Subject(loaded=load(AgentSettings, settings, {}), environ={})
    assert findings(subject)["dcgm-counters"] == (
        "error",
        f"{file}, from the command line: {file}: No such file or directory",
    )
    file.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, x\n")
    assert findings(subject)["dcgm-counters"] == ("ok", f"{file}, from the command line")
    assert findings(subject)["metric-denylist"][0] == "ok"
    file.write_text("DCGM_FI_DEV_GPU_UTIL, gauge, x\nDCGM_FI_DEV_BRAND, label, x\n")
    assert findings(subject)["dcgm-counters"] == (
        "warning",
        f"{file}, from the command line: line 2: DCGM_FI_DEV_BRAND is not available: "
        "AccelScope does not read it",
    )
    assert findings(subject)["metric-denylist"][0] == "warning"


def test_only_defaults_are_one_finding() -> None:
    loaded = load(AgentSettings, {}, {})
    assert findings(Subject(loaded=loaded, environ={})) == {
        "given": ("ok", "none: all settings have their defaults")
    }
