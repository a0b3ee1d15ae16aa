"""The generated dashboards are valid for Grafana, portable and linked to one another."""

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
from tests.monitoring.grafana_queries import fill_in, queries, variable_queries
from tests.repository import CHART
from tools.monitoring.dashboards.panels import Query, lines
from tools.monitoring.promql import FAMILIES, UnknownName, checked
from tools.monitoring.rules.recording import RECORDED

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
# Grafana units that the panels use.
UNITS = {
    "binBps", "bytes", "celsius", "cps", "h", "hertz", "joule", "kwatth", "percentunit", "reqps", "s",
    "short", "volt", "watt",
}  # fmt: skip


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, cls=JSONEncoder))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafana_types_accept_the_dashboard(name: str) -> None:
    register_default_plugins()
    assert plain(Dashboard.from_json(DASHBOARDS[name])) == DASHBOARDS[name]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_all_variables_are_used_and_all_used_variables_exist(name: str) -> None:
    document = DASHBOARDS[name]
    assert [each["name"] for each in document["templating"]["list"]] == VARIABLES[name]
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(document))) - {"__all"}
    own = {each for each in used if not each.startswith("__")}
    assert own == set(VARIABLES[name])


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_uses_the_selected_data_source(name: str) -> None:
    uids = set(re.findall(r'"datasource": \{[^}]*"uid": "([^"]*)"', json.dumps(DASHBOARDS[name])))
    assert uids == {"${datasource}"}
    assert "__inputs" not in DASHBOARDS[name]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_all_also_matches_series_without_the_label(name: str) -> None:
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
        assert beside or below, f"{first} overlaps {second}"
    assert all(place["x"] + place["w"] <= 24 for _, place in places)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_rows_of_panels_fill_the_width(name: str) -> None:
    """Only the last row of a section may end early."""
    panels = DASHBOARDS[name]["panels"]
    for panel, following in pairwise(panels):
        place, after = panel["gridPos"], following["gridPos"]
        if after["y"] > place["y"] and following["type"] != "row" and panel["type"] != "row":
            assert place["x"] + place["w"] == 24, panel["title"]


@pytest.mark.parametrize("panel", PANELS)
def test_panel_has_title_description_unit_and_query(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    for override in panel["fieldConfig"]["overrides"]:
        for each in override["properties"]:
            assert each["id"] != "unit" or each["value"] in UNITS
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("panel", PANELS)
def test_series_have_legends(panel: dict[str, Any]) -> None:
    if panel["type"] in ("timeseries", "state-timeline", "bargauge"):
        assert all(target.get("legendFormat") for target in panel["targets"])


@pytest.mark.parametrize("panel", PANELS)
def test_missing_data_is_not_replaced_by_zero(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert "vector(" not in target["expr"]
        assert "or on() " not in target["expr"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_links_use_existing_dashboards_and_variables(name: str) -> None:
    by_uid = {document["uid"]: document for document in DASHBOARDS.values()}
    for uid, rest in re.findall(r"/d/([\w-]+)\?([^\"]*)", json.dumps(DASHBOARDS[name])):
        known = {each["name"] for each in by_uid[uid]["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", rest)) <= known
        assert "${datasource:queryparam}" in rest
        assert "${__url_time_range}" in rest


# --- dashboards of one node show one cluster, since node names and agent addresses may repeat -------------


def is_of_one_cluster(document: dict[str, Any]) -> bool:
    [variable] = [each for each in document["templating"]["list"] if each["name"] == "cluster"]
    assert variable["multi"] == variable["includeAll"]
    return not variable["multi"]


OF_ONE_CLUSTER = {document["uid"] for document in DASHBOARDS.values() if is_of_one_cluster(document)}


def test_node_and_device_show_one_cluster() -> None:
    assert {"accelscope-node", "accelscope-device"} == OF_ONE_CLUSTER


@pytest.mark.parametrize("name", ["node", "device"])
def test_every_query_about_a_node_names_its_cluster(name: str) -> None:
    """With `=`, since Grafana does not escape a single value for a regular expression."""
    chosen = [query for each, query in variable_queries(DASHBOARDS[name]).items() if each != "cluster"]
    asked = [query.expression for query in queries(name, DASHBOARDS[name])]
    for expression in chosen + asked:
        families = re.findall(
            r"\b(?:\w+:[\w:]+|(?:accelerator_|accelscope_|ALERTS)\w*)(\{[^}]*\})?", expression
        )
        assert families
        assert all('cluster="$cluster"' in matchers for matchers in families), expression


@pytest.mark.parametrize("name", DASHBOARDS)
def test_links_to_one_node_name_its_cluster(name: str) -> None:
    """In a dashboard of several clusters, that of the row or the series."""
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
def test_links_to_a_dashboard_of_one_cluster_do_not_pass_several(name: str) -> None:
    for link in DASHBOARDS[name]["links"]:
        led = [each for each in DASHBOARDS.values() if set(link["tags"]) <= set(each["tags"])]
        if link["type"] == "dashboards" and not is_of_one_cluster(DASHBOARDS[name]):
            assert link["includeVars"]
            assert not {each["uid"] for each in led} & OF_ONE_CLUSTER
        assert link["type"] == "dashboards" or "cluster" not in link["url"]


def test_links_lead_from_the_fleet_to_devices_and_pods() -> None:
    leads = {
        name: set(re.findall(r"/d/accelscope-(\w+)", json.dumps(document)))
        for name, document in DASHBOARDS.items()
    }
    assert {"node", "device"} <= leads["fleet"]
    assert {"device", "workloads"} <= leads["node"]
    assert "workloads" in leads["device"]
    assert "node" in leads["workloads"]
    assert "node" in leads["agents"]


def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    """All queries, written as one rule file, are valid for the installed version."""
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


def test_an_unknown_metric_stops_the_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query("max(accelerator_power_watts)", "power")
    lines("Power", "Drawn.", "watt", query)
    monkeypatch.delitem(FAMILIES, "accelerator_power_watts")
    with pytest.raises(UnknownName):
        lines("Power", "Drawn.", "watt", query)
