"""Dashboards: valid for Grafana by its own types, tidy, portable, and leading to one another."""

import json
import re
import shutil
import subprocess
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from monitoring.dashboards.panels import Query, lines
from monitoring.promql import FAMILIES, UnknownName, checked
from monitoring.rules.recording import RECORDED
from tests.monitoring.grafana_queries import fill_in, queries, variable_queries
from tests.repository import CHART

DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(CHART.glob("dashboards/*.json"))}
PANELS = [
    pytest.param(panel, id=f"{name}-{panel['title']}")
    for name, document in DASHBOARDS.items()
    for panel in document["panels"]
    if panel["type"] != "row"
]
VARIABLES = {
    "fleet": ["datasource", "cluster", "vendor", "model"],
    "node": ["datasource", "cluster", "node", "instance"],
    "device": ["datasource", "cluster", "node", "device", "instance"],
    "workloads": ["datasource", "cluster", "namespace", "vendor", "model", "idle"],
    "agents": ["datasource", "cluster"],
}
# Of Grafana: those that the panels use.
UNITS = {
    "binBps", "bytes", "celsius", "cps", "h", "hertz", "joule", "kwatth", "percentunit", "reqps", "s",
    "short", "volt", "watt",
}  # fmt: skip


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, cls=JSONEncoder))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafanas_types_take_it(name: str) -> None:
    register_default_plugins()
    assert plain(Dashboard.from_json(DASHBOARDS[name])) == DASHBOARDS[name]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_it_has_the_variables_that_it_uses_and_no_others(name: str) -> None:
    document = DASHBOARDS[name]
    assert [each["name"] for each in document["templating"]["list"]] == VARIABLES[name]
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(document))) - {"__all"}
    own = {each for each in used if not each.startswith("__")}
    assert own == set(VARIABLES[name])


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_data_source_is_meant_but_the_chosen_one(name: str) -> None:
    uids = set(re.findall(r'"datasource": \{[^}]*"uid": "([^"]*)"', json.dumps(DASHBOARDS[name])))
    assert uids == {"${datasource}"}
    assert "__inputs" not in DASHBOARDS[name]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_all_is_chosen_also_where_there_is_no_such_label(name: str) -> None:
    for variable in DASHBOARDS[name]["templating"]["list"]:
        if variable.get("multi") and variable["name"] != "instance":
            assert variable["allValue"] == ".*"
            assert variable["current"]["value"] == "$__all"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_are_numbered_and_do_not_overlap(name: str) -> None:
    panels = DASHBOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["title"], panel["gridPos"]) for panel in panels]
    for (first, a), (second, b) in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, f"{first} lies over {second}"
    assert all(place["x"] + place["w"] <= 24 for _, place in places)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_rows_of_panels_fill_the_width(name: str) -> None:
    """Nothing is left open at the right but after the last panel of a section."""
    panels = DASHBOARDS[name]["panels"]
    for panel, following in pairwise(panels):
        place, after = panel["gridPos"], following["gridPos"]
        if after["y"] > place["y"] and following["type"] != "row" and panel["type"] != "row":
            assert place["x"] + place["w"] == 24, panel["title"]


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    for override in panel["fieldConfig"]["overrides"]:
        for each in override["properties"]:
            assert each["id"] != "unit" or each["value"] in UNITS
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("panel", PANELS)
def test_curves_have_names(panel: dict[str, Any]) -> None:
    if panel["type"] in ("timeseries", "state-timeline", "bargauge"):
        assert all(target.get("legendFormat") for target in panel["targets"])


@pytest.mark.parametrize("panel", PANELS)
def test_nothing_is_made_up_where_there_is_nothing(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert "vector(" not in target["expr"]
        assert "or on() " not in target["expr"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_links_lead_to_our_dashboards_and_their_variables(name: str) -> None:
    by_uid = {document["uid"]: document for document in DASHBOARDS.values()}
    for uid, rest in re.findall(r"/d/([\w-]+)\?([^\"]*)", json.dumps(DASHBOARDS[name])):
        known = {each["name"] for each in by_uid[uid]["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", rest)) <= known
        assert "${datasource:queryparam}" in rest
        assert "${__url_time_range}" in rest


# --- dashboards about one node: of one cluster, as names of nodes and addresses of agents repeat -----------


def is_of_one_cluster(document: dict[str, Any]) -> bool:
    [variable] = [each for each in document["templating"]["list"] if each["name"] == "cluster"]
    assert variable["multi"] == variable["includeAll"]
    return not variable["multi"]


OF_ONE_CLUSTER = {document["uid"] for document in DASHBOARDS.values() if is_of_one_cluster(document)}


def test_node_and_device_show_one_cluster() -> None:
    assert {"accelscope-node", "accelscope-device"} == OF_ONE_CLUSTER


@pytest.mark.parametrize("name", ["node", "device"])
def test_every_query_about_a_node_names_its_cluster(name: str) -> None:
    """With `=`: Grafana does not escape a single value for a regular expression."""
    chosen = [query for each, query in variable_queries(DASHBOARDS[name]).items() if each != "cluster"]
    asked = [query.expression for query in queries(name, DASHBOARDS[name])]
    for expression in chosen + asked:
        families = re.findall(r"\b(?:accelerator_|accelscope_|ALERTS)\w*(\{[^}]*\})?", expression)
        assert families
        assert all('cluster="$cluster"' in matchers for matchers in families), expression


@pytest.mark.parametrize("name", DASHBOARDS)
def test_links_to_one_node_name_its_cluster(name: str) -> None:
    """The row's or the series', where the dashboard shows several."""
    own = is_of_one_cluster(DASHBOARDS[name])
    for panel in DASHBOARDS[name]["panels"]:
        for uid, rest in re.findall(r"/d/([\w-]+)\?([^\"]*)", json.dumps(panel)):
            if uid not in OF_ONE_CLUSTER:
                continue
            [cluster] = re.findall(r"var-cluster=([^&]*)", rest)
            if own:
                assert cluster == "${cluster}"
            elif panel["type"] == "table":
                assert cluster == "${__data.fields.Cluster}"
                assert panel["transformations"][-1]["options"]["renameByName"]["cluster"] == "Cluster"
            else:
                assert cluster == "${__field.labels.cluster}"
                assert all("{{cluster}}" in target["legendFormat"] for target in panel["targets"])


@pytest.mark.parametrize("name", DASHBOARDS)
def test_several_clusters_are_not_handed_to_a_dashboard_of_one(name: str) -> None:
    for link in DASHBOARDS[name]["links"]:
        led = [each for each in DASHBOARDS.values() if set(link["tags"]) <= set(each["tags"])]
        if link["type"] == "dashboards" and not is_of_one_cluster(DASHBOARDS[name]):
            assert link["includeVars"]
            assert not {each["uid"] for each in led} & OF_ONE_CLUSTER
        assert link["type"] == "dashboards" or "cluster" not in link["url"]


def test_one_gets_from_the_fleet_to_a_device_and_to_pods() -> None:
    leads = {
        name: set(re.findall(r"/d/accelscope-(\w+)", json.dumps(document)))
        for name, document in DASHBOARDS.items()
    }
    assert {"node", "device"} <= leads["fleet"]
    assert {"device", "workloads"} <= leads["node"]
    assert "workloads" in leads["device"]
    assert "node" in leads["workloads"]
    assert "node" in leads["agents"]


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    """Of any version from Debian's on: a file of rules with all of them is taken."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (make test installs it)")
    rules = []
    for name, document in DASHBOARDS.items():
        values = dict.fromkeys(VARIABLES[name], "x") | {"idle": "3600"}
        for number, asked in enumerate(queries(name, document)):
            rules.append({"record": f"{name}:query:{number}", "expr": fill_in(asked.expression, values)})
    assert len(rules) > 150
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_name_in_a_query_exists(name: str) -> None:
    for asked in queries(name, DASHBOARDS[name]):
        checked(asked.expression, RECORDED)


def test_a_renamed_family_stops_the_making(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query("max(accelerator_power_watts)", "power")
    lines("Power", "Drawn.", "watt", query)
    monkeypatch.delitem(FAMILIES, "accelerator_power_watts")
    with pytest.raises(UnknownName):
        lines("Power", "Drawn.", "watt", query)
