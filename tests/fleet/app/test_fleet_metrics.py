"""The fleet's own metrics as a page."""

from prometheus_client.parser import text_string_to_metric_families

from accelscope.fleet.metrics import FAMILIES, FleetView, render
from accelscope.fleet.rows import ClusterView, SourceView
from accelscope.process import own_process

HOSTILE = 'a"b\\c\nd'


def view() -> FleetView:
    return FleetView(
        version="1.2.3",
        started_at=1000.0,
        clusters=[
            ClusterView(
                id="berlin",
                reachable=True,
                succeeded_at=1010.0,
                sources=[SourceView(kind="agents", up=True, duration_seconds=0.5, expected=3, answered=2)],
            ),
            ClusterView(id="paris", reachable=False, reason="timeout", sources=[SourceView(kind="exec")]),
            ClusterView(id="rome"),
        ],
        process=own_process(),
        source_errors={("berlin", "agents", "timeout"): 4},
        nodes={("berlin", "fresh"): 3},
        devices={("berlin", HOSTILE, "ok"): 24},
        requests={("/api/v1/nodes", "200"): 7},
        request_seconds={"/api/v1/nodes": 0.25},
    )


def samples() -> dict[tuple[object, ...], float]:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(render(view()).text.decode())
        for sample in family.samples
    }


def test_every_family_has_a_unique_name_with_unit_and_a_help() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert family.name.startswith("accelscope_fleet_")
        assert family.help.endswith(".")
        assert family.unit in family.name


def test_unknown_values_have_no_series() -> None:
    page = samples()
    assert page["accelscope_fleet_cluster_up", ("cluster", "berlin")] == 1
    assert page["accelscope_fleet_cluster_up", ("cluster", "paris")] == 0
    assert ("accelscope_fleet_cluster_up", ("cluster", "rome")) not in page
    assert ("accelscope_fleet_source_up", ("cluster", "paris"), ("source", "exec")) not in page
    assert page["accelscope_fleet_cluster_trouble", ("cluster", "paris"), ("reason", "timeout")] == 1
    assert page["accelscope_fleet_source_nodes_answered", ("cluster", "berlin"), ("source", "agents")] == 2


def test_labels_are_escaped() -> None:
    assert (
        samples()["accelscope_fleet_devices", ("cluster", "berlin"), ("health", "ok"), ("vendor", HOSTILE)]
        == 24
    )
