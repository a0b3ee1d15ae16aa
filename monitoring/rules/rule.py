"""What a rule is."""

from dataclasses import dataclass, field
from enum import StrEnum

RUNBOOKS = "docs/alerts.md"  # the chart puts the address of a published copy in its place


class Severity(StrEnum):
    CRITICAL = "critical"  # a device or a part of the service is gone: somebody should look now
    WARNING = "warning"  # it will need hands, today or tomorrow
    INFO = "info"  # for owners of workloads, and for tidying up


@dataclass(frozen=True, slots=True)
class Record:
    name: str  # level:metric:operation; the level lists the labels that are left
    expression: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    name: str
    severity: Severity
    lasting: str  # how long it must hold, as Prometheus writes durations
    expression: str
    summary: str  # one line, with where it is
    description: str  # what that means, with the number
    thresholds: tuple[str, ...] = field(
        default=()
    )  # numbers that somebody may want otherwise; the runbook tells them

    @property
    def runbook(self) -> str:
        return f"{RUNBOOKS}#{self.name.lower()}"


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    rules: tuple[Record | Alert, ...]
