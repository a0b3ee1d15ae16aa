"""What a case of a rule is, and the file for `promtool test rules` that is made of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from monitoring.rules.rule import Alert, Record

Series = Mapping[str, str]  # series -> values, a minute apart, as promtool writes them

TARGET = {"cluster": "berlin", "job": "accelscope", "instance": "10.0.0.1:9400"}
DEVICE = {**TARGET, "vendor": "nvidia", "device": "nvidia:GPU-1", "index": "3"}
PLACE = {"node": "node-1", "model": "H100"}  # what accelerator_info adds
STEADY = "1+0x200"
NEVER = "0+0x200"


def with_gap(value: float) -> str:
    """Steady for two hours, not scraped for twenty minutes, and as before."""
    return f"{value}+0x119 _x20 {value}+0x200"


# It is back after 140 minutes; a quarter of an hour, and an hour, before the last two there was nothing.
AFTER_GAP = ("141m", "150m", "190m")


def series(name: str, labels: Mapping[str, str]) -> str:
    listed = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{listed}}}"


def of_device(name: str, **labels: str) -> str:
    return series(name, {**DEVICE, **labels})


def of_target(name: str, **labels: str) -> str:
    return series(name, {**TARGET, **labels})


INFO = {of_device("accelerator_info", **PLACE): STEADY}
NODE_INFO = {of_target("accelscope_node_info", node="node-1"): STEADY}


@dataclass(frozen=True, kw_only=True)
class Fires:
    series: Series
    at: str
    labels: Mapping[str, str]  # of the alert, beside its severity
    value: str = ""  # as the alert writes it


@dataclass(frozen=True, kw_only=True)
class AlertCase:
    """`quiet`: series and when the alert must not fire."""

    fires: tuple[Fires, ...]
    quiet: tuple[tuple[Series, str], ...]


@dataclass(frozen=True, kw_only=True)
class RecordCase:
    """`labels` of the one series that is to come of it, and its value."""

    series: Series
    labels: Mapping[str, str]
    value: float
    at: str = "10m"


def written(text: str, labels: Mapping[str, str], value: str) -> str:
    """An alert's text with its gaps filled. Raises KeyError for a label that the alert does not have."""
    chosen = re.sub(
        r"{{ if \$labels\.(\w+) }}(.*?){{ else }}(.*?){{ end }}",
        lambda match: match[2] if labels.get(match[1]) else match[3],
        text,
    )
    filled = re.sub(r"{{ \$labels\.(\w+) }}", lambda match: labels[match[1]], chosen)
    return re.sub(r"{{ \$value[^}]*}}", value, filled)


def _group(given: Series, **tests: Any) -> dict[str, Any]:
    listed = [{"series": name, "values": values} for name, values in given.items()]
    return {"interval": "1m", "input_series": listed, **tests}


def _alert_test(alert: Alert, at: str, *expected: dict[str, Any]) -> dict[str, Any]:
    return {"alert_rule_test": [{"eval_time": at, "alertname": alert.name, "exp_alerts": list(expected)}]}


def alert_groups(alert: Alert, case: AlertCase) -> list[dict[str, Any]]:
    found = []
    for fires in case.fires:
        labels = {"severity": alert.severity.value, **fires.labels}
        annotations = {
            "summary": written(alert.summary, labels, fires.value),
            "description": written(alert.description, labels, fires.value),
            "runbook_url": alert.runbook,
        }
        expected = {"exp_labels": labels, "exp_annotations": annotations}
        found.append(_group(fires.series, **_alert_test(alert, fires.at, expected)))
    found += [_group(given, **_alert_test(alert, at)) for given, at in case.quiet]
    return found


def record_groups(record: Record, case: RecordCase) -> list[dict[str, Any]]:
    """That it records what it should, and nothing where there is nothing."""
    own = dict(record.labels)
    expression = series(record.name, own) if own else record.name
    sample = {"labels": series(record.name, {**case.labels, **own}), "value": case.value}

    def test(at: str, *samples: dict[str, Any]) -> dict[str, Any]:
        return {"promql_expr_test": [{"expr": expression, "eval_time": at, "exp_samples": list(samples)}]}

    return [_group(case.series, **test(case.at, sample)), _group({"unrelated": STEADY}, **test(case.at))]


def answer_group(given: Series, answers: Mapping[str, float | None], at: str) -> dict[str, Any]:
    """Query -> the value that it finds, which has no labels; None for nothing."""
    tests = [
        {
            "expr": query,
            "eval_time": at,
            "exp_samples": [] if value is None else [{"labels": "{}", "value": value}],
        }
        for query, value in answers.items()
    ]
    return _group(given, promql_expr_test=tests)


def only(rules: Path, *names: str) -> dict[str, Any]:
    """A file of rules with these alone, as they stand in the files; promtool tries each minute of all."""
    groups = [
        {"name": group["name"], "rules": kept}
        for group in _groups(rules)
        if (kept := [rule for rule in group["rules"] if {rule.get("alert"), rule.get("record")} & set(names)])
    ]
    return {"groups": groups}


@cache
def _groups(rules: Path) -> list[dict[str, Any]]:
    return [
        group for file in sorted(rules.glob("*.yaml")) for group in yaml.safe_load(file.read_text())["groups"]
    ]


def write(file: Path, rules: dict[str, Any], groups: list[dict[str, Any]]) -> None:
    """As JSON, which is YAML and quicker to write."""
    beside = file.with_suffix(".rules")
    beside.write_text(json.dumps(rules))
    document = {
        "rule_files": [str(beside)],
        "evaluation_interval": "1m",
        "tests": groups,
    }
    file.write_text(json.dumps(document))
