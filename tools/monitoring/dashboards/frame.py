"""The frame of every dashboard: title, variables, links and rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as types

from tools.monitoring.dashboards.panels import Panel
from tools.monitoring.dashboards.variables import Variable, datasource, to

FLEET, NODE, DEVICE, WORKLOADS, AGENTS = (
    f"accelscope-{name}" for name in ("fleet", "node", "device", "workloads", "agents")
)
_TAG = "accelscope"
_OF_ONE_CLUSTER = {NODE: "Node", DEVICE: "Device"}
_OF_MANY_TAG = "accelscope-clusters"  # on dashboards of several clusters


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    panels: Sequence[Panel]


def _others(tag: str) -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("AccelScope")
        .type(types.DashboardLinkType.DASHBOARDS)
        .tags([tag])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )


def _without_cluster(uid: str, title: str) -> dashboard.DashboardLink:
    """A link to a dashboard of one cluster. Without it, Grafana would pass all selected clusters."""
    link = to(uid, title)
    return dashboard.DashboardLink(link.title).type(types.DashboardLinkType.LINK).url(link.url)


def build_dashboard(
    uid: str, title: str, about: str, variables: Sequence[Variable], sections: Sequence[Section]
) -> types.Dashboard:
    """Build a dashboard with links to the others that keep the time range and the shared variables."""
    of_one = uid in _OF_ONE_CLUSTER
    built = (
        dashboard.Dashboard(f"AccelScope / {title}")
        .uid(uid)
        .description(about)
        .tags([_TAG] if of_one else [_TAG, _OF_MANY_TAG])
        .editable()
        .tooltip(types.DashboardCursorSync.CROSSHAIR)
        .time("now-3h", "now")
        .timezone("browser")
        .refresh("30s")
        .link(_others(_TAG if of_one else _OF_MANY_TAG))
        .variables([datasource(), *variables])
    )
    if not of_one:
        for other, name in _OF_ONE_CLUSTER.items():
            built = built.link(_without_cluster(other, name))
    for section in sections:
        built = built.with_row(dashboard.Row(section.title))
        for panel in section.panels:
            built = built.with_panel(panel)
    document = built.build()
    for number, placed in enumerate(document.panels or [], start=1):
        placed.id_val = number
    return document
