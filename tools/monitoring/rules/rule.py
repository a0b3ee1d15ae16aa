"""Rules and groups of rules."""

from dataclasses import dataclass
from enum import StrEnum

RUNBOOKS = "docs/alerts.md"  # the chart replaces this with prometheusRule.runbookBaseUrl


class Severity(StrEnum):
    CRITICAL = "critical"  # a device or a part of the service is lost: act now
    WARNING = "warning"  # needs work within a day or two
    INFO = "info"  # for owners of workloads; not for a pager


@dataclass(frozen=True, slots=True)
class Record:
    name: str  # level:metric:operation; the level lists the labels that are left
    expression: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    name: str
    severity: Severity
    lasting: str  # the rule's `for`, a Prometheus duration
    expression: str
    summary: str
    description: str
    thresholds: tuple[str, ...] = ()  # numbers that users may want to change; the runbook lists them

    @property
    def runbook(self) -> str:
        return f"{RUNBOOKS}#{self.name.lower()}"


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    rules: tuple[Record | Alert, ...]
