"""Rules and groups of rules."""

from dataclasses import dataclass
from enum import StrEnum

# The cluster may be a label of the series, or one that Prometheus adds to all alerts.
IN_CLUSTER = "{{ with or $labels.cluster $externalLabels.cluster }} ({{ . }}){{ end }}"
WHERE = "{{ $labels.node }}" + IN_CLUSTER


class Severity(StrEnum):
    CRITICAL = "critical"  # a device or a part of the service is lost: act now
    WARNING = "warning"  # needs work within a day or two
    INFO = "info"  # for owners of workloads; not for a pager


# How long an alert may be pending. Prometheus restores the pending time after its restart only from 10m on,
# and Alertmanager resolves an alert that it has not received for four minutes: anything in between resolves
# and fires again when Prometheus restarts.
PENDING_TIMES = ("0m", "1m", "2m", "10m", "15m")


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
    labels: tuple[tuple[str, str], ...] = ()  # besides the severity


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    rules: tuple[Record | Alert, ...]
