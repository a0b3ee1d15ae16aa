"""NVIDIA's agent as the chart runs it by default, on a node whose simulated GPUs real pods use: what it may
do, whom it names, how a real Prometheus finds it, what it costs."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.kubernetes.agent_image import agent_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import (
    ENOUGH_CPU,
    NAMESPACE,
    PATIENCE_SECONDS,
    Deployed,
    Release,
    labelled,
    namespace,
    on_simulated,
    runtime_class,
)
from tests.e2e.kubernetes.errors import CommandFailed
from tests.e2e.kubernetes.footprint import footprint
from tests.e2e.kubernetes.gpus import WORKLOADS
from tests.e2e.kubernetes.prometheus import discovering
from tests.e2e.prometheus_server import PrometheusApi
from tests.repository import CHART
from tests.waiting import wait_until

from accelscope.model import Snapshot
from accelscope.simulate import SimulatedNode


def values(gpus: SimulatedNode, **attribution: str) -> dict[str, Any]:
    return {
        "agents": {"nvidia": on_simulated(gpus)},
        "attribution": {"podLabels": ["team"], **attribution},
        "config": {"collectionInterval": "1s"},
    }


@pytest.fixture(scope="module")
def release(cluster: Cluster, used_gpus: SimulatedNode, folder: Path) -> Iterator[Release]:
    cluster.import_image(agent_image())
    with ExitStack() as stack:
        stack.enter_context(namespace(cluster))
        stack.enter_context(labelled(cluster, "agents.accelscope.io/nvidia=true"))
        stack.enter_context(runtime_class(cluster, "nvidia"))
        made = Release(cluster, folder)
        stack.callback(made.remove)
        made.put(values(used_gpus))
        until_told(made.agent("nvidia"))
        yield made


def until_told(agent: Deployed) -> None:
    agent.until_rolled_out()
    agent.until(
        lambda s: len(s.allocations) == 2 and all(state.up for state in s.attribution), "all sources tell"
    )


@pytest.fixture(scope="module")
def agent(release: Release) -> Deployed:
    return release.agent("nvidia")


@pytest.fixture(scope="module")
def prometheus(cluster: Cluster, agent: Deployed, folder: Path) -> Iterator[PrometheusApi]:
    example = yaml.safe_load((CHART / "examples" / "scrape-config.yaml").read_text())
    assert "static_configs" not in str(example)
    config = {"global": {"scrape_interval": "5s"}, **example}  # for an agent with a tenth of a processor
    with discovering(cluster, folder / "prometheus", config, NAMESPACE) as running:
        wait_until(
            lambda: running.holds('up{job="accelscope"}', 1), "it has found the agent", PATIENCE_SECONDS
        )
        yield running


# --- what it may do -------------------------------------------------------------------------------------


def test_it_runs_with_no_capability_and_no_way_to_more(agent: Deployed) -> None:
    lines = agent.exec("cat", "/proc/self/status").splitlines()
    status = {name: text.split() for name, _, text in (line.partition(":") for line in lines)}
    assert {int(status[name][0], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])
    assert set(status["Uid"]) == {"0"}, "the kubelet's socket is root's"


def test_it_can_write_nowhere_but_in_its_state_folder(agent: Deployed) -> None:
    agent.until(
        lambda s: any(sink.sink == "idle-state" and sink.up for sink in s.sinks), "idle times are kept"
    )
    assert '"version"' in agent.exec("cat", "/var/lib/accelscope/idle.json")
    for path in (
        "/",
        "/tmp",
        "/opt/accelscope",
        "/var/lib/kubelet/pod-resources",
        "/etc/accelscope/settings",
    ):
        with pytest.raises(CommandFailed, match="Read-only file system"):
            agent.exec("touch", f"{path}/file")


def test_its_token_ends_within_the_hour_or_so_and_names_its_node(agent: Deployed) -> None:
    token = agent.exec("cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token.strip()},
    }
    reply = agent.cluster.api.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    user = reply.json()["status"]["user"]
    assert user["username"] == f"system:serviceaccount:{NAMESPACE}:accelscope"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == [agent.cluster.node_name]
    [sources] = [
        volume["projected"]["sources"]
        for volume in agent.pod()["spec"]["volumes"]
        if volume["name"] == "api-token"
    ]
    assert sources[0]["serviceAccountToken"]["expirationSeconds"] <= 3600


# --- whom it names --------------------------------------------------------------------------------------


def test_processes_are_put_down_to_containers(agent: Deployed) -> None:
    check_owners(agent.snapshot())


def check_owners(snapshot: Snapshot) -> None:
    named = {(p.owner.namespace, p.owner.pod, p.owner.container) for p in snapshot.processes if p.owner}
    assert named == {(WORKLOADS, "train", "main"), (WORKLOADS, "guest", "peek")}


def test_the_kubelet_tells_who_holds_what(agent: Deployed) -> None:
    check_holders(agent.snapshot())


def check_holders(snapshot: Snapshot) -> None:
    held = {(a.namespace, a.pod, a.container) for a in snapshot.allocations}
    assert held == {(WORKLOADS, "train", "main"), (WORKLOADS, "idle", "main")}
    usages = {(u.pod, u.container): (u.allocated, u.processes) for u in snapshot.pod_usages}
    assert usages == {("train", "main"): (1, 1), ("idle", "main"): (1, 0), ("guest", "peek"): (0, 1)}
    assert {pod.labels for pod in snapshot.pods} == {(("team", "research"),), ()}


def test_sources_are_up(agent: Deployed) -> None:
    wanted = dict.fromkeys(("processes", "pods", "pod-resources"), (True, None))
    agent.until(
        lambda s: {state.source: (state.up, state.error) for state in s.attribution} == wanted, "all are"
    )


def test_doctor_has_no_complaint_about_kubernetes(agent: Deployed) -> None:
    """The exit code is not asked for: a simulated driver has no kernel module, which doctor remarks upon."""
    said = agent.exec("sh", "-c", "accelscope doctor --json || true")
    checks = yaml.safe_load(said)["checks"]
    about = [check for check in checks if check["area"] in ("attribution", "kubernetes", "processes", "pods")]
    assert [check for check in about if check["severity"] in ("warning", "error")] == []


# --- how Prometheus finds it ----------------------------------------------------------------------------


def test_prometheus_finds_it_through_the_api_server(agent: Deployed, prometheus: PrometheusApi) -> None:
    wait_until(
        lambda: prometheus.targets()["accelscope"]["health"] == "up", "it is scraped", PATIENCE_SECONDS
    )
    target = prometheus.targets()["accelscope"]
    pod = agent.pod()
    assert target["discoveredLabels"]["__meta_kubernetes_pod_name"] == pod["metadata"]["name"]
    assert target["labels"]["instance"] == f"{pod['status']['podIP']}:9400"
    assert target["labels"]["node"] == agent.cluster.node_name


def test_pod_is_the_workload_and_not_the_agent(prometheus: PrometheusApi) -> None:
    everything = prometheus.series('{__name__=~"accelerator_pod_processes"}', 3)
    assert {
        (each.labels["namespace"], each.labels["pod"], each.labels["container"]) for each in everything
    } == {
        (WORKLOADS, "train", "main"),
        (WORKLOADS, "idle", "main"),
        (WORKLOADS, "guest", "peek"),
    }
    [named] = prometheus.series('count by (namespace) ({job="accelscope", namespace!=""})', 1)
    assert named.labels["namespace"] == WORKLOADS
    assert prometheus.query('{exported_pod!=""}') == []


def test_what_nobody_holds_is_nobodys(prometheus: PrometheusApi) -> None:
    for device in prometheus.series("accelerator_up", 2):
        assert not {"pod", "namespace", "container"} & device.labels.keys()


# --- what it costs --------------------------------------------------------------------------------------


def test_it_stays_small_as_the_kubelet_sees_it(agent: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    cost = footprint(agent.cluster, NAMESPACE, agent.pod()["metadata"]["name"])
    page = agent.page()
    told = [
        line
        for line in page
        if line.startswith(("accelscope_collection_overruns_total", "accelscope_resident"))
    ]
    with capsys.disabled():
        print(
            f"\ne2e: the agent's pod at an interval of 1 s and a limit of 100m: working set "
            f"{cost.working_set_bytes / 2**20:.1f} MiB, anonymous {cost.resident_bytes / 2**20:.1f} MiB, "
            f"{cost.cores * 1000:.1f} m of CPU; {'; '.join(told)}"
        )
    assert cost.working_set_bytes < 64 << 20
    assert cost.cores < 0.11  # what its limit leaves it, and an inexact clock
    assert agent.restarts() == 0


# --- when it moves --------------------------------------------------------------------------------------


def test_prometheus_follows_it_to_another_pod(agent: Deployed, prometheus: PrometheusApi) -> None:
    """After the others, since it ends the pod."""
    agent.restart_pod()
    instance = f"{agent.pod()['status']['podIP']}:9400"
    wait_until(
        lambda: prometheus.holds(f'up{{job="accelscope", instance="{instance}"}}', 1),
        "the new pod is scraped",
        PATIENCE_SECONDS,
    )


# --- when it asks the kubelet ---------------------------------------------------------------------------


def test_kubelet_names_pods_where_the_api_server_is_not_asked(
    cluster: Cluster, release: Release, agent: Deployed, used_gpus: SimulatedNode
) -> None:
    """Last, since it is another agent. Its account may not even list pods."""
    release.put({**values(used_gpus, pods="kubelet"), "resources": ENOUGH_CPU})
    until_told(agent)
    snapshot = agent.until(
        lambda s: len([p for p in s.processes if p.owner and p.owner.pod]) == 2, "both processes have a pod"
    )
    check_owners(snapshot)
    check_holders(snapshot)
    rules = cluster.get(f"clusterrole/accelscope.{NAMESPACE}")["rules"]
    assert {each for rule in rules for each in rule["resources"]} == {"nodes/pods", "resourceslices"}
