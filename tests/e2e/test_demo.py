"""The demo with a real Prometheus: it scrapes every agent, and the rules see what happens."""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.kubernetes import binaries
from tests.e2e.prometheus_server import PrometheusApi
from tests.ports import free_port
from tests.repository import CHART
from tests.waiting import PATIENCE_SECONDS, wait_until
from tools.demo.prometheus import configuration
from tools.demo.running import Demo
from tools.demo.settings import Settings
from tools.demo.story import PlayedScene, Story
from tools.monitoring.rules.recording import CAUSES

EXAMPLE = CHART / "examples" / "scrape-config.yaml"
SETTINGS = Settings(nodes=1, scrape_seconds=1, port=0, agent_port=0, prometheus_port=0)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.fixture(scope="module")
def demo(folder: Path) -> Iterator[Demo]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (make e2e installs it)")
    with Demo(folder, SETTINGS, story=False) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(demo: Demo) -> PrometheusApi:
    assert demo.prometheus_url is not None
    return PrometheusApi(port_of(demo.prometheus_url))


def of_kinds(demo: Demo, *kinds: str) -> tuple[PlayedScene, ...]:
    """From the first round of the story."""
    return tuple(h for h in Story(demo.fleet).of_round(0) if h.scene.kind in kinds)


def nodes(demo: Demo) -> int:
    return sum(cluster.node_count for cluster in demo.fleet.clusters)


def test_every_agent_is_scraped_with_the_labels_of_its_cluster_and_node(
    demo: Demo, prometheus: PrometheusApi
) -> None:
    prometheus.until_holds('sum(up{job="accelscope"})', nodes(demo))
    prometheus.until_holds('up{job="accelscope-fleet"}', 1)
    by_node = prometheus.series('up{job="accelscope"}', nodes(demo))
    assert {(s.labels["cluster"], s.labels["node"]) for s in by_node} == {
        (cluster, node) for cluster, own in demo.fleet.nodes().items() for node in own
    }
    assert len({series.labels["instance"] for series in by_node}) == nodes(demo)
    prometheus.until_holds("count(count by (vendor) (accelerator_info))", 4)
    prometheus.until_holds('count(accelscope_node_info{node="lab-0001",cluster="berlin"})', 1)


def test_all_rules_of_the_chart_are_loaded_and_none_fails(demo: Demo) -> None:
    def rules() -> list[Any]:
        with urllib.request.urlopen(
            f"{demo.prometheus_url}/api/v1/rules", timeout=PATIENCE_SECONDS
        ) as answer:
            groups = json.load(answer)["data"]["groups"]
        assert {Path(group["file"]).name for group in groups} == {"alerts.yaml", "recording.yaml"}
        return [rule for group in groups for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] != "unknown" for rule in rules()), "all rules were looked at")
    assert not [rule for rule in rules() if rule["health"] != "ok"]


def test_what_happens_reaches_the_rules_and_a_node_that_vanishes_is_no_longer_scraped(
    demo: Demo, prometheus: PrometheusApi
) -> None:
    demo.show(of_kinds(demo, "lost", "node_gone"))
    wait_until(
        lambda: bool(prometheus.query('ALERTS{alertname="AcceleratorLost",node="h100-0001"}')),
        "the alert of the lost device is there",
    )
    prometheus.until_holds('count(up{job="accelscope"})', nodes(demo) - 1)
    demo.show(())
    prometheus.until_holds('count(up{job="accelscope"})', nodes(demo))
    wait_until(
        lambda: not prometheus.query(f"{CAUSES}{{state='lost',node='h100-0001'}}"), "the device is back"
    )


def test_a_prometheus_that_asks_the_api_servers_finds_the_same(demo: Demo, tmp_path: Path) -> None:
    """Debian's cannot; the one that is built for the cluster tests can, and it lists and watches."""
    [example] = yaml.safe_load(EXAMPLE.read_text())["scrape_configs"]
    clusters = yaml.safe_load(demo.clusters_file.read_text())["clusters"]
    told = configuration(tmp_path, clusters, fleet_port=port_of(demo.page_url), interval_seconds=1)
    for entry, job in zip(clusters, told["scrape_configs"], strict=False):
        assert job["relabel_configs"][:2] == example["relabel_configs"]
        assert job["honor_labels"] == example["honor_labels"]
        del job["file_sd_configs"]
        [discovery] = example["kubernetes_sd_configs"]
        own = {"api_server": entry["server"]["url"], "namespaces": {"names": ["accelscope-system"]}}
        job["kubernetes_sd_configs"] = [{**discovery, **own, "authorization": job["authorization"]}]
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(told))
    api = PrometheusApi(free_port())
    process = subprocess.Popen(
        [
            binaries.program("prometheus"),
            f"--config.file={tmp_path / 'prometheus.yaml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{api.port}",
            "--scrape.discovery-reload-interval=1s",
            "--log.level=error",
        ],
        stdin=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: answers(api), "Prometheus answers")
        api.until_holds('sum(up{job="accelscope"})', nodes(demo))
        demo.show(of_kinds(demo, "node_gone"))
        api.until_holds('count(up{job="accelscope"})', nodes(demo) - 1)
        demo.show(())
        api.until_holds('count(up{job="accelscope"})', nodes(demo))
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def answers(api: PrometheusApi) -> bool:
    try:
        return bool(api.query("vector(1)"))
    except OSError:
        return False
