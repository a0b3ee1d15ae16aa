"""API, `accelscope top`, PromQL over the shipped rules, and the page show the same idle devices."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tools.demo.running
from playwright.sync_api import Browser, Page
from tests.e2e.browser.screens import WIDE
from tests.e2e.prometheus_server import PrometheusApi
from tests.waiting import PATIENCE_SECONDS, wait_until
from tools.demo.running import Demo
from tools.demo.settings import Settings
from tools.demo.story import faults_before

ACCELSCOPE = str(Path(sys.executable).with_name("accelscope"))
SETTINGS = Settings(nodes=1, scrape_seconds=1, port=0, agent_port=0, prometheus_port=0)
# In addition to the story's faults: pods on shared cards, MIG instances and whole cards.
IDLE = [
    ("berlin", "a100-0001", "vllm", 2.0),
    ("berlin", "mig-0001", "vllm", 3.0),
    ("berlin", "mig-0001", "python3", 12.0),
    ("seoul", "a100-0001", "tritonserver", 5.0),
    ("oslo", "mi300-0001", "torchrun", 1.5),
]
HOURS = "sum(accelerator_pod_device_share_ratio * (accelerator_pod_idle_seconds >= 3600)) / 3600"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (make e2e installs it)")

    def faults(description: Mapping[str, Any]) -> list[dict[str, Any]]:
        idle = [
            {"kind": "idle", "cluster": cluster, "node": node, "process": process, "from": -3600 * hours}
            for cluster, node, process, hours in IDLE
        ]
        return [*faults_before(description), *idle]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tools.demo.running, "faults_before", faults)
        with Demo(tmp_path_factory.mktemp("demo"), SETTINGS, story=False) as started:
            yield started


@pytest.fixture
def prometheus(running: Demo) -> PrometheusApi:
    assert running.prometheus_url is not None
    api = PrometheusApi(int(running.prometheus_url.rpartition(":")[2]))
    nodes = sum(cluster.node_count for cluster in running.fleet.clusters)
    api.until_holds('sum(up{job="accelscope"})', nodes)
    return api


def top(demo: Demo, *options: str) -> str:
    command = [ACCELSCOPE, "top", "--fleet", demo.page_url, *options]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    ).stdout


def tile(page: Page, title: str) -> str:
    """The value of a tile."""
    region = page.get_by_role("region", name="Idle totals")
    found = region.locator(".tile", has=page.get_by_text(title, exact=True)).locator(".tile-value")
    return found.inner_text()


def test_idle_devices_and_device_hours_agree(
    running: Demo, prometheus: PrometheusApi, browser: Browser
) -> None:
    summary = running.ask("/api/v1/summary?group_by=cluster")
    devices = summary["total"]["devices_idle"]
    assert devices != round(devices), "shared cards are partly idle"
    idle = running.ask("/api/v1/idle")
    figures = {
        "/api/v1/summary": (devices, None),
        "/api/v1/idle": (idle["devices_idle"], idle["device_hours"]),
    }
    assert idle["devices_idle"] == devices
    assert sum(pod["devices_idle"] for pod in idle["items"]) == pytest.approx(devices, abs=0.01)
    assert sum(row["devices_idle"] for row in summary["groups"]) == pytest.approx(devices, abs=0.01)
    namespaces = running.ask("/api/v1/namespaces")["items"]
    assert sum(row["devices_idle"] for row in namespaces) == pytest.approx(devices, abs=0.01)

    recorded = "sum(cluster_vendor_model:accelerator_pod_idle_1h:count)"
    wait_until(lambda: abs((prometheus.value(recorded) or 0.0) - devices) < 0.001, "the rules count the same")
    by_namespace = "sum(cluster_namespace_vendor_model:accelerator_pod_idle_1h:count)"
    wait_until(lambda: abs((prometheus.value(by_namespace) or 0.0) - devices) < 0.001, "and by namespace")
    hours = prometheus.value(HOURS)
    assert hours == pytest.approx(idle["device_hours"], abs=0.1), "within a few readings"
    figures["PromQL"] = (prometheus.value(recorded), hours)
    figures["PromQL by namespace"] = (prometheus.value(by_namespace), None)

    shown = json.loads(top(running, "--json"))["summary"]["total"]["devices_idle"]
    assert shown == devices
    figures["top --json"] = (shown, None)
    match = re.search(r"([\d.]+) idle", top(running, "--once", "--width", "200"))
    assert match is not None
    assert match[1] == f"{devices:.1f}"
    figures["top --once"] = (match[1], None)

    page = browser.new_page(**WIDE)
    page.goto(f"{running.page_url}/idle")
    wait_until(lambda: tile(page, "Idle devices") == f"{devices:.1f}", "the page shows the same")
    assert float(tile(page, "Idle device-hours")) == pytest.approx(idle["device_hours"], abs=0.1)
    figures["page"] = (tile(page, "Idle devices"), tile(page, "Idle device-hours"))
    page.screenshot(path=running.folder / "idle.png")
    page.close()
    for place, (count, sum_) in figures.items():
        print(f"{place:24} idle devices {count}   device-hours {'' if sum_ is None else sum_}")


def test_shares_of_a_card_never_exceed_the_card(running: Demo, prometheus: PrometheusApi) -> None:
    of_card = "sum by (cluster, instance, device) (accelerator_pod_device_share_ratio)"
    wait_until(lambda: (prometheus.value(f"count({of_card})") or 0) > 0, "shares are scraped")
    most = prometheus.value(f"max({of_card})")
    assert most is not None
    assert most <= 1 + 1e-9
    assert prometheus.value(
        "count(count by (cluster, instance, device) (accelerator_pod_device_share_ratio) > 1)"
    )
    rows = running.ask("/api/v1/pods?limit=1000")["items"]
    shares: dict[tuple[str, str, str], float] = {}
    for row in rows:
        place = row["cluster"], row["node"], row["device"]
        shares[place] = shares.get(place, 0.0) + (row["device_share_ratio"] or 0.0)
    assert max(shares.values()) <= 1 + 1e-9
