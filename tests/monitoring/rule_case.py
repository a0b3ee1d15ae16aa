"""Test cases of rules, and the files for `promtool test rules` made from them."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tools.monitoring.rules.rule import IN_CLUSTER, Alert, Record

Series = Mapping[str, str]  # series -> values one minute apart, in promtool's notation

TARGET = {"cluster": "berlin", "job": "accelscope", "instance": "10.0.0.1:9400"}
DEVICE = {**TARGET, "vendor": "nvidia", "device": "nvidia:GPU-1", "index": "3"}
PLACE = {"node": "node-1", "model": "H100"}  # labels from accelerator_info
STEADY = "1+0x200"
NEVER = "0+0x200"


def with_gap(value: float) -> str:
    """Constant for two hours, not scraped for twenty minutes, then constant again."""
    return f"{value}+0x119 _x20 {value}+0x200"


# The series returns after 140 minutes. 15 minutes and one hour before the last two times it was missing.
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
    labels: Mapping[str, str]  # of the alert, without severity
    value: str = ""  # as formatted in the alert's text
    summary: str = ""  # of an alert whose text contains results of queries
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class AlertCase:
    """`quiet`: series and the time at which the alert must not fire. `lasts`: series with which one alert
    fires all the time, if those of the first of `fires` do not."""

    fires: tuple[Fires, ...]
    quiet: tuple[tuple[Series, str], ...]
    lasts: Series | None = None
    of_one_process: bool = False  # a restart ends it

    @property
    def steady(self) -> Series:
        return self.fires[0].series if self.lasts is None else self.lasts


@dataclass(frozen=True, kw_only=True)
class RecordCase:
    """`labels` and `value` of the one recorded series."""

    series: Series
    labels: Mapping[str, str]
    value: float
    at: str = "10m"


# --- scrape gaps and restarts -----------------------------------------------------------------------------

_CONSTANT = re.compile(r"(?:_x(\d+) )?(-?[\d.]+)\+0x\d+")
GAP_AT, GAP = 40, 2  # minutes


def with_short_gap(given: Series, at: int = GAP_AT) -> Series:
    """No target is scraped for two minutes. Series that change are left as they are."""
    found = dict(given)
    for name, values in given.items():
        if match := _CONSTANT.fullmatch(values):
            begin, value = int(match[1] or 0), match[2]
            before = f"_x{begin} " if begin else ""
            found[name] = f"{before}{value}+0x{at - begin - 1} stale _x{GAP - 1} {value}+0x200"
    return found


def restarted(given: Series) -> Series:
    """The agent's pod is replaced by another within two minutes, so that `instance` changes."""
    found = dict(given)
    for name, values in given.items():
        if match := _CONSTANT.fullmatch(values):
            begin, value = int(match[1] or 0), match[2]
            before = f"_x{begin} " if begin else ""
            found[name] = f"{before}{value}+0x{GAP_AT - begin - 1} stale"
            new = re.sub(r'instance="[^"]*"', 'instance="10.0.9.9:9400"', name)
            found[new] = f"_x{GAP_AT + GAP} {value}+0x200"
    return found


def lasting_group(alert: Alert, given: Series, times: Iterable[int]) -> dict[str, Any]:
    """Exactly one alert fires at each of the times, in minutes."""
    query = f'count(ALERTS{{alertname="{alert.name}", alertstate="firing"}})'
    tests = [
        {"expr": query, "eval_time": f"{at}m", "exp_samples": [{"labels": "{}", "value": 1}]} for at in times
    ]
    return _group(given, promql_expr_test=tests)


# --- files for promtool -----------------------------------------------------------------------------------


def render(text: str, labels: Mapping[str, str], value: str) -> str:
    """Fill in the template of an alert's text. Raises KeyError for a label that the alert does not have."""
    chosen = re.sub(
        r"{{ (?:if|with) \$labels\.(\w+) }}(.*?){{ else }}(.*?){{ end }}",
        lambda match: match[2].replace("{{ . }}", labels[match[1]]) if labels.get(match[1]) else match[3],
        text.replace(IN_CLUSTER, f" ({labels['cluster']})" if "cluster" in labels else ""),
    )
    filled = re.sub(r"{{ \$labels\.(\w+) }}", lambda match: labels[match[1]], chosen)
    return re.sub(r"{{ \$value[^}]*}}", value, filled)


def _group(given: Series, **tests: Any) -> dict[str, Any]:
    listed = [{"series": name, "values": values} for name, values in given.items()]
    return {"interval": "1m", "input_series": listed, **tests}


def _alert_test(alert: Alert, at: str, *expected: dict[str, Any]) -> dict[str, Any]:
    return {"alert_rule_test": [{"eval_time": at, "alertname": alert.name, "exp_alerts": list(expected)}]}


def _ended(text: str) -> str:
    """As YAML writes a text of several lines."""
    return text + "\n" if "\n" in text else text


def alert_groups(alert: Alert, case: AlertCase) -> list[dict[str, Any]]:
    found = []
    for fires in case.fires:
        labels = {"severity": alert.severity.value, **dict(alert.labels), **fires.labels}
        annotations = {
            "summary": fires.summary or render(alert.summary, labels, fires.value),
            "description": _ended(fires.description or render(alert.description, labels, fires.value)),
        }
        expected = {"exp_labels": labels, "exp_annotations": annotations}
        found.append(_group(fires.series, **_alert_test(alert, fires.at, expected)))
    found += [_group(given, **_alert_test(alert, at)) for given, at in case.quiet]
    return found


def record_groups(record: Record, case: RecordCase) -> list[dict[str, Any]]:
    """The rule records the expected sample, and nothing from unrelated series."""
    own = dict(record.labels)
    expression = series(record.name, own) if own else record.name
    sample = {"labels": series(record.name, {**case.labels, **own}), "value": case.value}

    def test(at: str, *samples: dict[str, Any]) -> dict[str, Any]:
        return {"promql_expr_test": [{"expr": expression, "eval_time": at, "exp_samples": list(samples)}]}

    return [_group(case.series, **test(case.at, sample)), _group({"unrelated": STEADY}, **test(case.at))]


def answer_group(given: Series, answers: Mapping[str, float | None], at: str) -> dict[str, Any]:
    """`answers`: query -> value without labels; None for an empty result."""
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
    """The named rules only, since promtool evaluates every rule of a file each minute."""
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
    """Written as JSON, which is valid YAML and faster to write."""
    beside = file.with_suffix(".rules")
    beside.write_text(json.dumps(rules))
    document = {
        "rule_files": [str(beside)],
        "evaluation_interval": "1m",
        "tests": groups,
    }
    file.write_text(json.dumps(document))
