"""Renders the rule files that Prometheus loads and the chart includes."""

from collections.abc import Iterable
from typing import Any

import yaml

from tools.monitoring.promql import checked
from tools.monitoring.rules.agent_alerts import AGENTS
from tools.monitoring.rules.device_alerts import HEALTH, USE
from tools.monitoring.rules.recording import RECORDED, RECORDING
from tools.monitoring.rules.rule import Alert, Group, Record
from tools.monitoring.rules.service_alerts import DEVICE_PLUGIN, FLEET

ALERTING: tuple[Group, ...] = (HEALTH, USE, AGENTS, DEVICE_PLUGIN, FLEET)
ALERTS: tuple[Alert, ...] = tuple(
    rule for group in ALERTING for rule in group.rules if isinstance(rule, Alert)
)

_HEAD = "# Generated from tools/monitoring/rules by `make dashboards`. Do not edit.\n"


class _BlockText(str):
    """A string that YAML writes as a block, so that long expressions stay readable."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(
    _BlockText, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
)


def _written(text: str) -> str:
    return _BlockText(text + "\n") if "\n" in text else text


def _rule(rule: Record | Alert) -> dict[str, Any]:
    expression = checked(rule.expression, RECORDED)
    written = _written(expression)
    if isinstance(rule, Record):
        labels = {"labels": dict(rule.labels)} if rule.labels else {}
        return {"record": rule.name, "expr": written, **labels}
    return {
        "alert": rule.name,
        "expr": written,
        "for": rule.lasting,
        "labels": {"severity": rule.severity.value, **dict(rule.labels)},
        "annotations": {"summary": rule.summary, "description": _written(rule.description)},
    }


def _file(groups: Iterable[Group]) -> str:
    document = {"groups": [{"name": g.name, "rules": [_rule(rule) for rule in g.rules]} for g in groups]}
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return _HEAD + text


def files() -> dict[str, str]:
    """Name -> text. Raises UnknownName."""
    return {"recording.yaml": _file(RECORDING), "alerts.yaml": _file(ALERTING)}
