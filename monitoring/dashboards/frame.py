"""What all dashboards have in common."""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as types

from monitoring.dashboards.panels import Panel
from monitoring.dashboards.variables import Variable, datasource

FLEET, NODE, DEVICE, WORKLOADS, AGENTS = (
    f"accelscope-{name}" for name in ("fleet", "node", "device", "workloads", "agents")
)
_TAG = "accelscope"


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    panels: Sequence[Panel]


def made(
    uid: str, title: str, about: str, variables: Sequence[Variable], sections: Sequence[Section]
) -> types.Dashboard:
    """With links to the others, which keep the time and the variables that they share."""
    others = (
        dashboard.DashboardLink("AccelScope")
        .type(types.DashboardLinkType.DASHBOARDS)
        .tags([_TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )
    built = (
        dashboard.Dashboard(f"AccelScope / {title}")
        .uid(uid)
        .description(about)
        .tags([_TAG])
        .editable()
        .tooltip(types.DashboardCursorSync.CROSSHAIR)
        .time("now-3h", "now")
        .timezone("browser")
        .refresh("30s")
        .link(others)
        .variables([datasource(), *variables])
    )
    for section in sections:
        built = built.with_row(dashboard.Row(section.title))
        for panel in section.panels:
            built = built.with_panel(panel)
    document = built.build()
    for number, placed in enumerate(document.panels or [], start=1):
        placed.id_val = number
    return document
