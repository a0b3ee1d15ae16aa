"""The plain manifests on a real cluster: the API server takes them all, and what they describe runs."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.kubernetes import ascend_driver
from tests.e2e.kubernetes.agent_image import REGISTRY, agent_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import (
    NAMESPACE,
    PATIENCE_SECONDS,
    RELEASE,
    Deployed,
    labelled,
    namespace,
    objects_of_ours,
    on_simulated,
    runtime_class,
)
from tests.e2e.kubernetes.errors import CommandFailed
from tests.e2e.kubernetes.npus import make_device_nodes, on_simulated_npus
from tests.e2e.kubernetes.operator_kinds import monitor_kinds
from tests.repository import CHART, MANIFESTS
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode, load_node

RESTRICTED = "accelscope-restricted"
OF_THE_FLEET = ("accelscope-fleet", "accelscope-fleet-reader")
SERVICE_MONITOR = "servicemonitor.monitoring.coreos.com"
NETWORK_POLICY = "networkpolicy.networking.k8s.io"
PLUGIN = "accelscope-device-plugin"
NPU = "beta.furiosa.ai/npu"

FLEET_READER = "serviceaccount/accelscope-fleet-reader"
WITHOUT_DAEMONSET = {
    "fleet": "deployment.apps/accelscope-fleet",
    "fleet-reader": FLEET_READER,
    "fleet-reader-exec": FLEET_READER,
}


def text_of(manifest: str) -> str:
    """As docs/install.md says to prepare it."""
    return (MANIFESTS / f"{manifest}.yaml").read_text().replace("REGISTRY/", f"{REGISTRY}/")


@pytest.fixture(scope="module")
def ready(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that has what manifests speak of. They bring their namespaces along, and take them away; but
    what is only tried needs them to be there."""
    cluster.import_image(agent_image())
    with ExitStack() as stack:
        stack.enter_context(namespace(cluster))
        stack.enter_context(namespace(cluster, RESTRICTED, "restricted"))
        for name in (*OF_THE_FLEET, "gpu-operator"):
            stack.enter_context(namespace(cluster, name, "restricted"))
        stack.enter_context(runtime_class(cluster, "nvidia"))
        yield cluster


@pytest.fixture(scope="module")
def monitors(cluster: Cluster) -> Iterator[None]:
    with monitor_kinds(cluster):
        yield


@pytest.mark.parametrize("manifest", sorted(path.stem for path in MANIFESTS.glob("*.yaml")))
def test_api_server_takes_it(ready: Cluster, manifest: str) -> None:
    """Without a warning, of Pod Security or of an API that is to go."""
    said = ready.kubectl(
        "apply", "--dry-run=server", "--warnings-as-errors", "--filename=-", input=text_of(manifest)
    )
    assert WITHOUT_DAEMONSET.get(manifest, "daemonset.apps/accelscope-") in said


def test_api_server_warns_of_what_would_make_pods_that_it_refuses(ready: Cluster) -> None:
    """Else nothing were known from its silence above."""
    documents = [each for each in yaml.safe_load_all(text_of("agent")) if each is not None]
    [daemonset, *_] = [each for each in documents if each["kind"] == "DaemonSet"]
    daemonset["metadata"]["namespace"] = RESTRICTED
    with pytest.raises(CommandFailed, match="would violate PodSecurity"):
        ready.kubectl(
            *("apply", "--dry-run=server", "--warnings-as-errors", "--filename=-"),
            input=yaml.safe_dump(daemonset),
        )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("scrape.by=serviceMonitor", [f"{SERVICE_MONITOR}/accelscope"]),
        ("scrape.by=podMonitor", ["podmonitor.monitoring.coreos.com/accelscope"]),
        (
            "scrape.by=serviceMonitor,scrape.interval=15s,http.tls.secretName=tls,config.dialect=dcgm",
            [f"{SERVICE_MONITOR}/accelscope"],
        ),
        ("networkPolicy.enabled=true", [f"{NETWORK_POLICY}/accelscope"]),
        (
            "devicePlugin.enabled=true,scrape.by=serviceMonitor,networkPolicy.enabled=true",
            [
                f"{kind}/{name}"
                for kind in ("daemonset.apps", "service", SERVICE_MONITOR, NETWORK_POLICY)
                for name in ("accelscope-furiosa" if kind == "daemonset.apps" else "accelscope", PLUGIN)
            ],
        ),
    ],
    ids=["service-monitor", "pod-monitor", "service-monitor-https", "network-policy", "device-plugin"],
)
def test_api_server_takes_what_the_chart_can_add(
    ready: Cluster, monitors: None, options: str, expected: list[str]
) -> None:
    rendered = ready.helm(
        "template",
        "--kube-version=1.34.0",  # helm asks nobody when it renders
        RELEASE,
        str(CHART),
        f"--namespace={NAMESPACE}",
        f"--set=image.registry={REGISTRY}",
        f"--set={options}",
    )
    said = ready.kubectl("apply", "--dry-run=server", "--filename=-", input=rendered)
    for each in expected:
        assert f"{each} created (server dry run)" in said


def simulated(manifest: str, node: SimulatedNode, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Its objects, with the simulated driver's folder and settings in every DaemonSet."""
    objects = [each for each in yaml.safe_load_all(text_of(manifest)) if each is not None]
    for each in objects:
        if each["kind"] == "DaemonSet":
            spec = each["spec"]["template"]["spec"]
            [container] = spec["containers"]
            kept = [each for each in container["env"] if each["name"] not in environment]
            container["env"] = kept + [{"name": name, "value": value} for name, value in environment.items()]
            mount = {"name": "simulated", "mountPath": str(node.folder), "readOnly": True}
            container["volumeMounts"].append(mount)
            spec["volumes"].append({"name": "simulated", "hostPath": {"path": str(node.folder)}})
    return objects


def test_agents_of_two_vendors_run_until_they_are_deleted(ready: Cluster, tmp_path: Path) -> None:
    node = SimulatedNode(load_node("mixed"), tmp_path / "mixed")
    node.build(at=1000.0)
    objects = simulated("agent", node, on_simulated(node)["env"])
    file = tmp_path / "agent.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    with labelled(ready, "agents.accelscope.io/nvidia=true", "agents.accelscope.io/furiosa=true"):
        ready.kubectl("apply", f"--filename={file}")
        for vendor in ("nvidia", "furiosa"):
            agent = Deployed(ready, vendor)
            agent.until_rolled_out()
            snapshot = agent.until(lambda s: len(s.devices) == 2, f"{vendor}'s two devices are read")
            assert {device.vendor.value for device in snapshot.devices} == {vendor}
        unwanted = ready.get(f"daemonset/{RELEASE}-amd", NAMESPACE)
        assert unwanted["status"]["desiredNumberScheduled"] == 0, "no label says that there is an AMD GPU"
        ready.kubectl("delete", f"--filename={file}", "--wait=true")
        others = {("Namespace", name) for name in (RESTRICTED, *OF_THE_FLEET)}
        wait_until(lambda: objects_of_ours(ready) == others, "nothing is left", PATIENCE_SECONDS)


def test_restricted_agent_runs_where_nothing_is_allowed(ready: Cluster, tmp_path: Path) -> None:
    """The driver is not simulated: a folder of the node is what level `restricted` forbids."""
    with labelled(ready, "agents.accelscope.io/furiosa=true"):
        ready.kubectl("apply", "--filename=-", input=text_of("agent-restricted"))
        agent = Deployed(ready, "furiosa", RESTRICTED)
        agent.until_rolled_out()
        status = agent.exec("cat", "/proc/self/status").splitlines()
        assert any(line.split() == ["Uid:", *["65532"] * 4] for line in status)
        snapshot = agent.snapshot()
        assert (snapshot.devices, [reader.found for reader in snapshot.readers]) == ((), [False])
        ready.kubectl("delete", "--filename=-", "--wait=true", input=text_of("agent-restricted"))


def test_device_plugin_offers_npus_until_it_is_deleted(ready: Cluster, tmp_path: Path) -> None:
    node = SimulatedNode(load_node("furiosa-warboy"), tmp_path / "npus")
    node.build(at=1000.0)
    make_device_nodes(node)
    file = tmp_path / "device-plugin.yaml"
    file.write_text(yaml.safe_dump_all(simulated("device-plugin", node, on_simulated_npus(node)["env"])))

    def allocatable() -> str:
        status = ready.get(f"node/{ready.node_name}")["status"]
        return str(status["allocatable"].get(NPU, "0"))

    with labelled(ready, "agents.accelscope.io/furiosa=true"):
        ready.kubectl("apply", f"--filename={file}")
        Deployed(ready, "device-plugin", port=9401).until_rolled_out()
        wait_until(lambda: allocatable() == "2", "two cards are offered", PATIENCE_SECONDS)
        ready.kubectl("delete", f"--filename={file}", "--wait=true")
        wait_until(lambda: allocatable() == "0", "none is offered", PATIENCE_SECONDS)


def test_npu_annotation_comes_from_the_drivers_usual_places(ready: Cluster, tmp_path: Path) -> None:
    """The manifest as it is: the simulated driver lies where the vendor's installer would put it."""
    node = SimulatedNode(load_node("ascend-910b-x8"), tmp_path / "npus")
    node.build(at=300.0)
    with ascend_driver.installed(ready, node), labelled(ready, "agents.accelscope.io/ascend=true"):
        ready.kubectl("apply", "--filename=-", input=text_of("npu-annotation"))
        agent = Deployed(ready, "npu-annotation-ascend")
        agent.until_rolled_out()
        key = "k8s-monitor.io/npu-metrics"
        about = f"node/{ready.node_name}"
        wait_until(
            lambda: '"npu":7' in ready.get(about)["metadata"]["annotations"].get(key, ""),
            "eight chips stand on the Node",
            PATIENCE_SECONDS,
        )
        ready.kubectl("delete", "--filename=-", "--wait=true", input=text_of("npu-annotation"))
        ready.kubectl("annotate", about, f"{key}-")
