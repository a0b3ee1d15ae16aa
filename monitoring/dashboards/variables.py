"""What a reader of a dashboard chooses, and how dashboards lead to one another."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as types

from monitoring.dashboards.panels import DATASOURCE, Link
from monitoring.promql import labels_of

Variable = Builder[types.VariableModel]

_EVERYTHING = types.VariableOption(text="All", value="$__all")
# Matches also where there is no such label: many a Prometheus has no `cluster`.
_ANY = ".*"


def datasource() -> Variable:
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _values(name: str, family: str, label: str, matchers: str) -> dashboard.QueryVariable:
    """Those that `label` has on series of this family. Raises UnknownName."""
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
    """Any number of them, at first all."""
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
    """Not shown: where the chosen node's agent was scraped, so that queries read one agent's series only. The
    name of a node stands on few of them."""
    return (
        _values("instance", "accelscope_node_info", "instance", matchers)
        .hide(types.VariableHide.HIDE_VARIABLE)
        .multi(True)
        .include_all(True)
        .current(_EVERYTHING)
    )


def duration(name: str, title: str, choices: dict[str, int], first: str) -> Variable:
    """A number of seconds by its usual name."""
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
# For what is on one node: names of nodes and addresses of agents repeat from cluster to cluster. Where series
# have no such label it is empty, and matches them.
ONE_CLUSTER = one("cluster", "Cluster", "accelscope_build_info")
VENDOR = several("vendor", "Vendor", "accelerator_info", 'cluster=~"$cluster"')
MODEL = several("model", "Model", "accelerator_info", 'cluster=~"$cluster", vendor=~"$vendor"')

_KEPT = "${datasource:queryparam}&${__url_time_range}"  # of the dashboard that is left
SAME_CLUSTER = "${cluster}"  # for links of dashboards that show one


def to(uid: str, title: str, **variables: str) -> Link:
    """To another of our dashboards, with these of its variables set from a cell or from a series' label. A
    cell or label that is not there, as `cluster` may be, sets the empty value."""
    given = "".join(f"&var-{name}={value}" for name, value in variables.items())
    return Link(title, f"/d/{uid}?{_KEPT}{given}")


def cell(title: str) -> str:
    """What stands in the row under this title, as links of tables see it."""
    return f"${{__data.fields.{title}}}"


def label(name: str) -> str:
    """The value of this label, as links of curves and bars see it."""
    return f"${{__field.labels.{name}}}"
