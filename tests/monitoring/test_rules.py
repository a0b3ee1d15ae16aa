"""Recording and alert rules: the files are up to date, promtool tests each rule, each alert has a runbook."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.monitoring import device_alert_cases, record_cases, service_alert_cases
from tests.monitoring.promtool import promtool
from tests.monitoring.rule_case import alert_groups, only, record_groups, write
from tests.repository import CHART, REPOSITORY
from tools.monitoring.promql import UnknownName, checked
from tools.monitoring.rules.document import ALERTS
from tools.monitoring.rules.recording import RECORDED, RECORDING
from tools.monitoring.rules.rule import Record, Severity

from accelscope.model import FAULT_THROTTLES

RULES = CHART / "rules"
RUNBOOKS = REPOSITORY / "docs" / "alerts.md"
ALERT_CASES = {**device_alert_cases.CASES, **service_alert_cases.CASES}
RECORDS = [rule for group in RECORDING for rule in group.rules if isinstance(rule, Record)]


def test_generated_files_are_up_to_date() -> None:
    script = REPOSITORY / "scripts" / "dashboards"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_promtool_accepts_the_rule_files() -> None:
    done = promtool("check", "rules", str(RULES / "recording.yaml"), str(RULES / "alerts.yaml"))
    assert done.returncode == 0, done.stderr + done.stdout


def test_every_rule_has_test_cases() -> None:
    assert set(ALERT_CASES) == {alert.name for alert in ALERTS}
    assert all(case.fires and case.quiet for case in ALERT_CASES.values())
    assert set(record_cases.CASES) == {(record.name, dict(record.labels).get("le")) for record in RECORDS}


def test_alerts_fire_only_when_they_should(tmp_path: Path) -> None:
    files = []
    for alert in ALERTS:
        file = tmp_path / f"{alert.name}.yaml"
        used = [name for name in RECORDED if name in alert.expression]
        write(file, only(RULES, alert.name, *used), alert_groups(alert, ALERT_CASES[alert.name]))
        files.append(str(file))
    done = promtool("test", "rules", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_recording_rules_record_the_expected_value(tmp_path: Path) -> None:
    files = []
    for number, record in enumerate(RECORDS):
        file = tmp_path / f"{number}.yaml"
        used = [name for name in RECORDED if name in record.expression]
        case = record_cases.CASES[record.name, dict(record.labels).get("le")]
        write(file, only(RULES, record.name, *used), record_groups(record, case))
        files.append(str(file))
    done = promtool("test", "rules", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    """The case of an alert, with no alert expected."""
    [alert] = [each for each in ALERTS if each.name == "AcceleratorLost"]
    group, *_ = alert_groups(alert, ALERT_CASES[alert.name])
    group["alert_rule_test"][0]["exp_alerts"] = []
    write(tmp_path / "wrong.yaml", only(RULES, alert.name), [group])
    assert promtool("test", "rules", str(tmp_path / "wrong.yaml")).returncode != 0


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_level_of_a_record_lists_its_labels(record: Record) -> None:
    level, _, operation = record.name.split(":")
    [labels] = re.findall(r"^\w+ by \(([^)]*)\)", record.expression)
    assert level == labels.replace(", ", "_")
    assert operation


# --- runbooks ---------------------------------------------------------------------------------------------


def sections() -> dict[str, str]:
    found = re.split(r"^### (\w+)\n", RUNBOOKS.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert list(sections()) == [alert.name for alert in ALERTS]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_runbook_matches_the_rule(alert: Any) -> None:
    text = sections()[alert.name]
    lasts = "at once" if alert.lasting == "0m" else f"after {alert.lasting}"
    assert text.startswith(f"\n*{alert.severity.value}*, {lasts}. ")
    for threshold in alert.thresholds:
        assert threshold in alert.expression
        assert f"`{threshold}`" in text, "the runbook names every threshold"
    for part in ("**See**", "**Do**"):
        assert part in text
    if alert.thresholds:
        assert "**Change**" in text


def test_throttling_runbook_lists_every_reason() -> None:
    cells = re.findall(r"^\| \w+ \| (`.*) \|$", sections()["AcceleratorThrottled"], re.MULTILINE)
    assert {reason for cell in cells for reason in re.findall(r"`(\w+)`", cell)} == FAULT_THROTTLES


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_runbook_url_points_to_the_section(alert: Any) -> None:
    page, _, anchor = alert.runbook.partition("#")
    assert (REPOSITORY / page) == RUNBOOKS
    assert anchor == alert.name.lower()


def test_metrics_in_runbooks_exist() -> None:
    for block in re.findall(r"```promql\n(.*?)```", RUNBOOKS.read_text(), re.DOTALL):
        checked(block, RECORDED)


def test_every_severity_is_used() -> None:
    assert {alert.severity for alert in ALERTS} == set(Severity)


# --- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "sum(accelerator_power_watt)",
        'accelerator_power_watts{sensor="gpu"}',
        "sum by (modell) (accelerator_info)",
        "cluster:accelerator_power_watts:sum",
        "accelscope_nothing_total > 0",
    ],
)
def test_unknown_metrics_and_labels_are_rejected(expression: str) -> None:
    with pytest.raises(UnknownName):
        checked(expression, RECORDED)


@pytest.mark.parametrize(
    "expression",
    [
        'sum by (cluster) (rate(accelerator_energy_joules_total{vendor=~"a|b"}[5m]))',
        'accelerator_info{node="x", model=~".*"}',
        'up{job="accelscope_unknown"} == 0',
        "cluster_vendor_model:accelerator_info:count > 3",
    ],
)
def test_known_metrics_and_labels_are_accepted(expression: str) -> None:
    assert checked(expression, RECORDED) == expression


def test_rules_are_valid_yaml_without_urls() -> None:
    for file in RULES.glob("*.yaml"):
        text = file.read_text()
        assert yaml.safe_load(text)["groups"]
        assert "://" not in text


def test_every_recorded_series_is_documented() -> None:
    page = (REPOSITORY / "docs" / "dashboards.md").read_text()
    assert not [record.name for record in RECORDS if f"`{record.name}`" not in page]
