"""Recording and alert rules: the files are up to date, promtool tests each rule, each alert has a runbook."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.monitoring import device_alert_cases, record_cases, service_alert_cases
from tests.monitoring.promtool import promtool
from tests.monitoring.rule_case import (
    GAP,
    GAP_AT,
    alert_groups,
    lasting_group,
    only,
    record_groups,
    restarted,
    with_short_gap,
    write,
)
from tests.repository import CHART, REPOSITORY
from tools.incident.alertmanager import EXAMPLE
from tools.monitoring.promql import UnknownName, checked
from tools.monitoring.rules.document import ALERTS
from tools.monitoring.rules.recording import RECORDED, RECORDING
from tools.monitoring.rules.rule import PENDING_TIMES, Alert, Record, Severity

RULES = CHART / "rules"
RUNBOOKS = REPOSITORY / "docs" / "alerts.md"
ALERT_CASES = {**device_alert_cases.CASES, **service_alert_cases.CASES}
RECORDS = [rule for group in RECORDING for rule in group.rules if isinstance(rule, Record)]


def kind(record: Record) -> str | None:
    """What distinguishes rules of the same name."""
    labels = dict(record.labels)
    return labels.get("le") or labels.get("cause") or labels.get("reason") or labels.get("state")


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
    assert set(record_cases.CASES) == {(record.name, kind(record)) for record in RECORDS}


def used_by(text: str) -> set[str]:
    """Recorded series that an expression or a text reads, also through others."""
    found = {name for name in RECORDED if name in text}
    for record in RECORDS:
        if record.name in found:
            found |= {name for name in RECORDED if name in record.expression}
    return found


def assert_passes(folder: Path, groups: Mapping[str, list[Any]]) -> None:
    """`groups`: of each alert."""
    files = []
    for alert in ALERTS:
        if cases := groups.get(alert.name):
            file = folder / f"{alert.name}.yaml"
            used = used_by(alert.expression + alert.summary + alert.description)
            write(file, only(RULES, alert.name, *used), cases)
            files.append(str(file))
    done = promtool("test", "rules", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_only_when_they_should(tmp_path: Path) -> None:
    assert_passes(tmp_path, {alert.name: alert_groups(alert, ALERT_CASES[alert.name]) for alert in ALERTS})


AROUND_THE_GAP = range(GAP_AT - 2, GAP_AT + GAP + 5)


def test_alerts_continue_in_a_scrape_gap(tmp_path: Path) -> None:
    def groups(alert: Alert) -> list[Any]:
        return [lasting_group(alert, with_short_gap(ALERT_CASES[alert.name].steady), AROUND_THE_GAP)]

    assert_passes(tmp_path, {alert.name: groups(alert) for alert in ALERTS})


def test_alerts_continue_when_an_agent_is_replaced(tmp_path: Path) -> None:
    """The new pod has another `instance`: there is neither a second alert nor a new beginning."""

    def groups(alert: Alert) -> list[Any]:
        return [lasting_group(alert, restarted(ALERT_CASES[alert.name].steady), AROUND_THE_GAP)]

    cases = {alert.name: groups(alert) for alert in ALERTS if not ALERT_CASES[alert.name].of_one_process}
    assert_passes(tmp_path, cases)


def test_a_scrape_gap_does_not_delay_an_alert(tmp_path: Path) -> None:
    def groups(alert: Alert) -> list[Any]:
        case = ALERT_CASES[alert.name]
        given = with_short_gap({name: re.sub(r"_x3\d ", "", v) for name, v in case.steady.items()}, at=4)
        pending = int(alert.lasting.removesuffix("m"))
        return [lasting_group(alert, given, [max(pending, 15) + 2])]

    cases = {alert.name: groups(alert) for alert in ALERTS if alert.lasting in {"10m", "15m"}}
    assert len(cases) > 8
    assert_passes(tmp_path, cases)


def test_pending_times_survive_a_restart_of_prometheus() -> None:
    assert {alert.lasting for alert in ALERTS} <= set(PENDING_TIMES)


def test_recording_rules_record_the_expected_value(tmp_path: Path) -> None:
    files = []
    for number, record in enumerate(RECORDS):
        file = tmp_path / f"{number}.yaml"
        used = used_by(record.expression)
        case = record_cases.CASES[record.name, kind(record)]
        write(file, only(RULES, record.name, *used), record_groups(record, case))
        files.append(str(file))
    done = promtool("test", "rules", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    """The case of an alert, with no alert expected."""
    [alert] = [each for each in ALERTS if each.name == "AcceleratorLost"]
    group, *_ = alert_groups(alert, ALERT_CASES[alert.name])
    group["alert_rule_test"][0]["exp_alerts"] = []
    write(tmp_path / "wrong.yaml", only(RULES, alert.name, *used_by(alert.expression)), [group])
    assert promtool("test", "rules", str(tmp_path / "wrong.yaml")).returncode != 0


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_level_of_a_record_lists_its_labels(record: Record) -> None:
    level, _, operation = record.name.split(":")
    [labels] = re.findall(r"^\w+ by \(([^)]*)\)", record.expression)
    own = [name for name, _ in record.labels if name != "le"]
    assert sorted(level.split("_")) == sorted([*labels.split(", "), *own])
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


def rows(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its head."""
    [_, text] = RUNBOOKS.read_text().split(f"\n## {heading}\n")
    table = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_list_of_alerts_is_complete() -> None:
    listed = [(row[0], row[1]) for row in rows("All alerts")]
    assert listed == [(f"[{alert.name}](#{alert.name.lower()})", alert.severity.value) for alert in ALERTS]


def test_alerts_that_were_replaced_no_longer_exist() -> None:
    names = {alert.name for alert in ALERTS}
    for alerts, by, *_ in rows("Alerts of earlier versions"):
        assert not set(re.findall(r"`(\w+)`", alerts)) & names
        assert set(re.findall(r"\[(\w+)\]\(#", by)) <= names


def test_inhibition_is_documented_and_names_alerts_that_exist() -> None:
    rules = yaml.safe_load(EXAMPLE.read_text())["inhibit_rules"]
    listed = RUNBOOKS.read_text().split("### What silences what\n")[1].split("\n## ")[0]
    table = [line for line in listed.splitlines() if line.startswith("| ")][1:]
    names = re.compile(r"Accel(?:erator|Scope)\w+")
    for row, rule in zip(table, rules, strict=True):
        source = names.findall(str(rule["source_matchers"]))
        assert names.findall(row.split("|")[1]) == source
        assert set(source) <= {alert.name for alert in ALERTS}
        for label in rule["equal"]:
            assert label == "cluster" or f"`{label}`" in row


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
