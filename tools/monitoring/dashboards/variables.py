"""Variables of the dashboards, and links between dashboards."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as types

from tools.monitoring.dashboards.panels import DATASOURCE, Link
from tools.monitoring.promql import labels_of

Variable = Builder[types.VariableModel]

_EVERYTHING = types.VariableOption(text="All", value="$__all")
# Also matches series without the label: many Prometheus servers set no `cluster`.
_ANY = ".*"


def datasource() -> Variable:
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _values(name: str, family: str, label: str, matchers: str) -> dashboard.QueryVariable:
    """The values of `label` on series of this metric. Raises UnknownName."""
    if label not in labels_of(family):
        raise ValueError(f"{family} has no label {label}")
    selector = f"{family}{{{matchers}}}" if matchers else family
    query: dict[str, object] = {
        "query": f"label_values({selector}, {label})",
        "refId": f"{name}-values",
        "qryType": 1,
    }
    return (
        dashboard.QueryVariable(name)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(types.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(types.VariableSort.NATURAL_ASC)
    )


def several(name: str, title: str, family: str, matchers: str = "") -> Variable:
    """A variable with several values; all by default."""
    return (
        _values(name, family, name, matchers)
        .label(title)
        .multi(True)
        .include_all(True)
        .all_value(_ANY)
        .current(_EVERYTHING)
    )


def one(name: str, title: str, family: str, matchers: str = "") -> Variable:
    return _values(name, family, name, matchers).label(title).multi(False).include_all(False)


def instances(matchers: str) -> Variable:
    """A hidden variable: the target of the selected node's agent. Few series have the label `node`, so
    queries select the agent by its target."""
    return (
        _values("instance", "accelscope_node_info", "instance", matchers)
        .hide(types.VariableHide.HIDE_VARIABLE)
        .multi(True)
        .include_all(True)
        .current(_EVERYTHING)
    )


def duration(name: str, title: str, choices: dict[str, int], first: str) -> Variable:
    """A variable of durations; its value is in seconds."""
    options = [
        types.VariableOption(selected=text == first, text=text, value=str(seconds))
        for text, seconds in choices.items()
    ]
    return (
        dashboard.CustomVariable(name)
        .label(title)
        .values(", ".join(f"{text} : {seconds}" for text, seconds in choices.items()))
        .options(options)
        .current(types.VariableOption(selected=True, text=first, value=str(choices[first])))
    )


CLUSTER = several("cluster", "Cluster", "accelscope_build_info")
# For dashboards of one node: node names and agent addresses may repeat across clusters. If series have no
# label `cluster`, the value is empty and matches them.
ONE_CLUSTER = one("cluster", "Cluster", "accelscope_build_info")
VENDOR = several("vendor", "Vendor", "accelerator_info", 'cluster=~"$cluster"')
MODEL = several("model", "Model", "accelerator_info", 'cluster=~"$cluster", vendor=~"$vendor"')

_KEPT = "${datasource:queryparam}&${__url_time_range}"  # taken over from the current dashboard
SAME_CLUSTER = "${cluster}"  # for links in dashboards of one cluster


def to(uid: str, title: str, **variables: str) -> Link:
    """A link to another dashboard that sets its variables from a cell or a label. A missing cell or label,
    such as `cluster`, sets the empty value."""
    given = "".join(f"&var-{name}={value}" for name, value in variables.items())
    return Link(title, f"/d/{uid}?{_KEPT}{given}")


def cell(title: str) -> str:
    """The row's value in the column with this title, for links in tables."""
    return f"${{__data.fields.{title}}}"


def label(name: str) -> str:
    """The value of this label, for links in graphs and bars."""
    return f"${{__field.labels.{name}}}"
