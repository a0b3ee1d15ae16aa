"""Dashboard queries over series that are easy to sum wrongly: clusters whose agents have the same address,
and devices that several namespaces share."""

import json
from pathlib import Path

import pytest
from tests.monitoring.grafana_queries import fill_in, stat
from tests.monitoring.promtool import assert_answers
from tests.monitoring.rule_case import DEVICE, INFO, STEADY, of_device, only, series
from tests.repository import CHART

DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(CHART.glob("dashboards/*.json"))}
ALL = {"cluster": ".*", "namespace": ".*", "vendor": ".*", "model": ".*"}
HERE = {"node": "node-1", "instance": "10.0.0.1:9400", "device": "nvidia:GPU-1"}

# Two series that differ only in their cluster.
POWER = {
    of_device("accelerator_power_watts", cluster="berlin"): "100+0x60",
    of_device("accelerator_power_watts", cluster="paris"): "400+0x60",
}
NO_CLUSTER = {
    series("accelerator_power_watts", {k: v for k, v in DEVICE.items() if k != "cluster"}): "70+0x60"
}


@pytest.mark.parametrize("name", ["node", "device"])
def test_nodes_of_the_same_name_in_two_clusters_are_separate(tmp_path: Path, name: str) -> None:
    power = stat(DASHBOARDS[name], "Power")
    watts = {"berlin": 100.0, "paris": 400.0}
    answers = {fill_in(power, {**HERE, "cluster": cluster}): value for cluster, value in watts.items()}
    assert_answers(tmp_path, POWER, answers)


@pytest.mark.parametrize("name", ["node", "device"])
def test_a_node_is_found_without_a_cluster_label(tmp_path: Path, name: str) -> None:
    power = stat(DASHBOARDS[name], "Power")
    assert_answers(tmp_path, NO_CLUSTER, {fill_in(power, {**HERE, "cluster": ""}): 70})


# --- one device shared by three namespaces; two are idle --------------------------------------------------

IDLE_SECONDS = {"research": "5000+0x200", "tests": "5000+0x200", "web": "0+0x200"}
SHARED = {
    **INFO,
    **{of_device("accelerator_pod_allocated", namespace=each, pod="a"): STEADY for each in IDLE_SECONDS},
    **{
        of_device("accelerator_pod_idle_seconds", namespace=each, pod="a"): seconds
        for each, seconds in IDLE_SECONDS.items()
    },
    **{
        of_device("accelerator_pod_device_share_ratio", namespace=each, pod="a"): "0.25+0x200"
        for each in IDLE_SECONDS
    },
}
RULES = only(
    CHART / "rules",
    "cluster_vendor_model:accelerator_info:count",
    *(
        f"{level}:accelerator_pod_{what}:count"
        for level in ("cluster_vendor_model", "cluster_namespace_vendor_model")
        for what in ("allocated", "idle_1h")
    ),
)
AFTER = "121m"  # the hour before has the same twelve 5-minute points in every version of Prometheus


def test_a_shared_device_is_recorded_once_and_idle_by_its_shares(tmp_path: Path) -> None:
    answers = {
        "sum(cluster_vendor_model:accelerator_pod_allocated:count)": 1.0,
        "sum(cluster_vendor_model:accelerator_pod_idle_1h:count)": 0.5,
        "sum(cluster_namespace_vendor_model:accelerator_pod_idle_1h:count)": 0.5,
        # Counts in each namespace, so the sum is too high.
        "sum(cluster_namespace_vendor_model:accelerator_pod_allocated:count)": 3.0,
    }
    assert_answers(tmp_path, SHARED, answers, rules=RULES, at=AFTER)


@pytest.mark.parametrize(
    ("name", "title", "value"),
    [
        ("fleet", "Allocated", 1),
        ("fleet", "Allocated but idle", 0.5),
        ("fleet", "Idle device-hours", 0.5),
        ("fleet", "Allocated device-hours", 1),
        ("workloads", "Allocated devices", 1),
        ("workloads", "Allocated but idle", 0.5),
        ("workloads", "Idle device-hours", 0.5),
    ],
)
def test_figures_count_a_shared_device_once(tmp_path: Path, name: str, title: str, value: float) -> None:
    asked = fill_in(stat(DASHBOARDS[name], title), ALL)
    if title.endswith("device-hours"):
        asked = f"round({asked}, 0.5)"  # versions of Prometheus differ by a minute
    assert_answers(tmp_path, SHARED, {asked: value}, rules=RULES, at=AFTER)


@pytest.mark.parametrize(
    ("title", "value"), [("Allocated devices", 1), ("Allocated but idle", 0.5), ("Idle device-hours", 0.5)]
)
def test_figures_cover_only_the_selected_namespaces(tmp_path: Path, title: str, value: float) -> None:
    """The two idle namespaces."""
    asked = fill_in(stat(DASHBOARDS["workloads"], title), {**ALL, "namespace": "research|tests"})
    assert_answers(tmp_path, SHARED, {asked: value}, at=AFTER)
