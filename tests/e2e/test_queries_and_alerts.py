"""A real Prometheus with the demo's agents and our rules: every query of every dashboard finds something, and
alerts fire for what goes wrong and for nothing else."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from tests.agent_process import AgentProcess
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.running_plugin import settings_of
from tests.e2e.prometheus_server import PrometheusServer
from tests.monitoring.grafana_queries import PanelQuery, Store, choices, unanswered, variable_queries
from tests.ports import free_port
from tests.repository import CHART
from tests.waiting import PATIENCE_SECONDS, wait_until
from tools.demo import Demo, Settings, prometheus
from tools.demo.scenes import SCENES, Scene
from tools.demo.story import PlayedScene, Story
from tools.monitoring.rules.document import ALERTS

from accelscope.simulate import SimulatedNode, load_node

DASHBOARDS = {
    path.stem: json.loads(path.read_text()) for path in sorted((CHART / "dashboards").glob("*.json"))
}
NODES = 48  # two of each kind at least, so that one is well while the other is not
EVALUATED_SECONDS = 15.0  # how often the demo's Prometheus scrapes and evaluates, at most
SETTLED_SECONDS = 240.0  # rates need several scrapes

# The demo has no device plugin: that row is asked for on a Prometheus of its own.
PLUGIN_PANELS = {"Registered", "Devices", "Allocations"}
# Of a round of the demo, what takes away that which others are to be seen on.
TAKEN_AWAY = {"node_gone", "api_down", "reset"}

# In the demo one pod has left its share of a GPU idle for more than an hour from the beginning.
FROM_THE_BEGINNING = {"AcceleratorIdleAllocation"}

# What the demo does not show, and panels and alerts do.
MORE = tuple(
    Scene(begin=0, until=1, cluster=cluster, group=group, first=1, kind=kind, begins="", ends="")
    for cluster, group, kind in (
        ("seoul", "ascend", "sink_down"),
        ("oslo", "warboy", "source_down"),
        ("seoul", "a100", "reader_garbage"),
    )
)

# What happens -> alerts of it.
EXPECTED = {
    "lost": {"AcceleratorLost"},
    "hot": {"AcceleratorDegraded"},
    "ecc_storm": {"AcceleratorDegraded"},
    "xid": {"AcceleratorUnhealthy", "AcceleratorErrorReported"},  # of the hardware, of an application
    "hang": {"AcceleratorNotAnswering"},
    "reader_hang": {"AccelScopeReaderFailing"},
    "agent_down": {"AccelScopeAgentDown"},
    "source_down": {"AccelScopeAttributionFailing"},
    "sink_down": {"AccelScopeSinkFailing"},
    "api_down": {"AccelScopeFleetClusterUnreachable"},
}


def at_once(folder: Path) -> list[str]:
    """Our rules, but that an alert fires without having lasted, and by the samples of a minute: how long it
    must, promtool tries."""
    found = []
    for file in sorted((CHART / "rules").glob("*.yaml")):
        document = yaml.safe_load(file.read_text())
        for group in document["groups"]:
            for rule in group["rules"]:
                rule.pop("for", None)
                rule["expr"] = re.sub(r"(count_over_time\([^\[]+\[)1[05]m\]", r"\g<1>1m]", rule["expr"])
        (folder / file.name).write_text(yaml.safe_dump(document))
        found.append(str(folder / file.name))
    return found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """At first with nothing that goes wrong."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (make e2e installs it)")
    folder = tmp_path_factory.mktemp("demo")
    rules = tmp_path_factory.mktemp("rules")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prometheus, "rule_files", lambda: at_once(rules))
        settings = Settings(nodes=NODES, port=0, agent_port=0, prometheus_port=0)
        with Demo(folder, settings, story=False) as running:
            yield running
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def store(demo: Demo) -> Store:
    assert demo.prometheus_url is not None
    return Store(demo.prometheus_url)


def firing(store: Store) -> dict[str, set[str]]:
    """Alert -> places."""
    found: dict[str, set[str]] = {}
    for alert in store.alerts():
        labels = alert["labels"]
        places = (labels.get(name, "") for name in ("cluster", "node", "source", "sink"))
        found.setdefault(labels["alertname"], set()).add(" ".join(filter(None, places)))
    return found


def round_of(demo: Demo) -> tuple[PlayedScene, ...]:
    return Story(demo.fleet, (*SCENES, *MORE)).of_round(0)


def place(happening: PlayedScene) -> str:
    """As `firing` tells it."""
    return f"{happening.scene.cluster} {happening.node}"


# In the order of the story: first all is well, then much is not, at last a cluster is gone.


def test_nothing_fires_while_all_is_well(demo: Demo, store: Store) -> None:
    demo.show(())
    wait_until(lambda: store.fresh("count(up == 1)") > 0, "agents are scraped")
    wait_until(lambda: not store.fresh("up == 0"), "all are", SETTLED_SECONDS)
    wait_until(lambda: store.fresh("cluster_vendor_model:accelerator_info:count") > 0, "rules were evaluated")
    time.sleep(2 * EVALUATED_SECONDS)  # for alerts that compare with a moment ago
    # A scrape may have failed.
    wait_until(lambda: firing(store).keys() == FROM_THE_BEGINNING, "nothing else fires", SETTLED_SECONDS)


def test_rules_are_evaluated_without_an_error(store: Store) -> None:
    wait_until(lambda: all(rule["health"] != "unknown" for rule in store.rules()), "all were looked at")
    rules = store.rules()
    assert {rule["name"] for rule in rules if rule["type"] == "alerting"} == {alert.name for alert in ALERTS}
    assert not [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"]


def test_alerts_fire_for_what_goes_wrong(demo: Demo, store: Store) -> None:
    happenings = tuple(each for each in round_of(demo) if each.scene.kind not in TAKEN_AWAY)
    wanted = set().union(*(EXPECTED.get(each.scene.kind, set()) for each in happenings))
    assert len(wanted) > 6
    demo.show(happenings)
    seen: set[str] = set()

    def all_fired() -> bool:
        seen.update(firing(store))
        return wanted <= seen

    try:
        wait_until(all_fired, "they fire", SETTLED_SECONDS)
    except AssertionError:
        raise AssertionError(f"did not fire: {sorted(wanted - seen)}") from None
    lost = {place(each) for each in happenings if each.scene.kind == "lost"}
    wait_until(
        lambda: firing(store).get("AcceleratorLost", set()) == lost,
        "it fires for each that is lost and for no other",
        SETTLED_SECONDS,
    )
    may_fire = set().union(*EXPECTED.values()) | FROM_THE_BEGINNING
    # A scrape that failed makes an alert, too, as none must last here.
    wait_until(lambda: firing(store).keys() <= may_fire, f"nothing fires but {may_fire}", SETTLED_SECONDS)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_variable_offers_something(store: Store, name: str) -> None:
    document = DASHBOARDS[name]
    values = next(choices(store, document))
    assert values.keys() >= variable_queries(document).keys()
    assert all(values.values())


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_finds_something(store: Store, name: str) -> None:
    left: list[PanelQuery] = []

    def answered() -> bool:
        found = unanswered(store.without_cache(), name, DASHBOARDS[name])
        left[:] = [each for each in found if not (name == "agents" and each.panel in PLUGIN_PANELS)]
        return not left

    try:
        wait_until(answered, "every query finds something", SETTLED_SECONDS)
    except AssertionError:
        raise AssertionError("\n".join(["nothing found:", *map(str, left)])) from None


def test_a_cluster_that_is_gone_is_told(demo: Demo, store: Store) -> None:
    [gone] = [each for each in round_of(demo) if each.scene.kind == "api_down"]
    demo.show((gone,))
    [wanted] = EXPECTED["api_down"]
    wait_until(lambda: firing(store).get(wanted) == {gone.scene.cluster}, "it fires", SETTLED_SECONDS)


# --- a Prometheus that puts no names of its own on series -------------------------------------------------


def test_neither_cluster_nor_node_need_be_labels_of_targets(moving_node: SimulatedNode, folder: Path) -> None:
    settings = {**moving_node.agent_settings(), "node_name": "node-7"}
    with AgentProcess(settings, folder / "agent") as agent:
        jobs = {"accelscope": (agent.port, {"honor_labels": True})}
        with PrometheusServer(folder / "plain", jobs) as server:
            for name in ("node", "device"):
                answers_without_names(Store(f"http://127.0.0.1:{server.port}"), name)


def answers_without_names(store: Store, name: str) -> None:
    """What the first section asks, which a single node without pods can answer."""
    document: Any = dict(DASHBOARDS[name])
    _, second, *_ = (at for at, panel in enumerate(document["panels"]) if panel["type"] == "row")
    document["panels"] = document["panels"][1:second]
    wait_until(lambda: not unanswered(store.without_cache(), name, document), f"{name}: what there is now")


# --- the device plugin ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plugin_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A Prometheus with a device plugin that has handed out a device, and refused another."""
    folder = tmp_path_factory.mktemp("plugin")
    sockets = tmp_path_factory.mktemp("k") / "p"
    sockets.mkdir()
    node = SimulatedNode(load_node("furiosa-rngd"), folder / "node")
    node.build(60.0)
    port = free_port()
    settings = {
        **settings_of(node),
        "exporter_host": "127.0.0.1",
        "exporter_port": port,
        "node_name": "node-7",
        "plugin_dir": sockets,
        "pod_resources_socket": sockets.parent / "pod-resources.sock",
    }
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    kubelet = FakeKubelet(sockets)
    kubelet.start()
    command = [str(Path(sys.executable).with_name("accelscope")), "device-plugin", *flags]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        allocate_and_be_refused(kubelet)
        with PrometheusServer(folder / "prometheus", {"accelscope-device-plugin": (port, {})}) as server:
            yield Store(f"http://127.0.0.1:{server.port}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)
        kubelet.stop()
        shutil.rmtree(folder)


def allocate_and_be_refused(kubelet: FakeKubelet) -> None:
    wait_until(lambda: any(kubelet.lists.values()), "the plugin offers devices")
    [(resource, devices)] = kubelet.lists.items()
    with kubelet.client(resource) as client:
        client.allocate([next(iter(devices))])
        with pytest.raises(grpc.RpcError):
            client.allocate(["no-such-device"])


def test_every_query_about_device_plugins_finds_something(plugin_store: Store) -> None:
    document: Any = dict(DASHBOARDS["agents"])
    titles = [panel["title"] for panel in document["panels"]]
    begins, ends = titles.index("Device plugins"), titles.index("Fleet")
    document["panels"] = document["panels"][begins + 1 : ends]
    assert {panel["title"] for panel in document["panels"]} == PLUGIN_PANELS
    left: list[PanelQuery] = []

    def answered() -> bool:
        left[:] = unanswered(plugin_store.without_cache(), "agents", document)
        return not left

    try:
        wait_until(answered, "every query finds something")
    except AssertionError:
        raise AssertionError("\n".join(["nothing found:", *map(str, left)])) from None
