"""Renders the rule files that Prometheus loads and the chart includes."""

from collections.abc import Iterable
from typing import Any

import yaml

from tools.monitoring.promql import checked
from tools.monitoring.rules.agent_alerts import AGENTS
from tools.monitoring.rules.device_alerts import ERRORS, HEALTH, USE
from tools.monitoring.rules.recording import RECORDED, RECORDING
from tools.monitoring.rules.rule import Alert, Group, Record
from tools.monitoring.rules.service_alerts import DEVICE_PLUGIN, FLEET

ALERTING: tuple[Group, ...] = (HEALTH, ERRORS, USE, AGENTS, DEVICE_PLUGIN, FLEET)
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


def _rule(rule: Record | Alert) -> dict[str, Any]:
    expression = checked(rule.expression, RECORDED)
    written = _BlockText(expression + "\n") if "\n" in expression else expression
    if isinstance(rule, Record):
        labels = {"labels": dict(rule.labels)} if rule.labels else {}
        return {"record": rule.name, "expr": written, **labels}
    return {
        "alert": rule.name,
        "expr": written,
        "for": rule.lasting,
        "labels": {"severity": rule.severity.value},
        "annotations": {
            "summary": rule.summary,
            "description": rule.description,
            "runbook_url": rule.runbook,
        },
    }


def _file(groups: Iterable[Group]) -> str:
    document = {"groups": [{"name": g.name, "rules": [_rule(rule) for rule in g.rules]} for g in groups]}
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return _HEAD + text


def files() -> dict[str, str]:
    """Name -> text. Raises UnknownName."""
    return {"recording.yaml": _file(RECORDING), "alerts.yaml": _file(ALERTING)}
