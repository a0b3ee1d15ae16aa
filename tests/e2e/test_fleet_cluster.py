"""The fleet and a real cluster: every source with no more rights than the manifests give, every kind of
credentials, and what is said when something of it is missing."""

import base64
import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.agent_process import AgentProcess
from tests.e2e.kubernetes import fleet_reader, images
from tests.e2e.kubernetes.accounts import PATCH_NODES, account, put_token
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
from tests.e2e.kubernetes.driver_pods import driver_pod, operand
from tests.e2e.kubernetes.fleet_reader import Readers, Right
from tests.e2e.kubernetes.pki import write_kubeconfig_of
from tests.fleet_process import FleetProcess, SimulatedClusters, simulated_clusters
from tests.waiting import until_passes, wait_until

from accelscope.model import Snapshot
from accelscope.simulate import SimulatedNode
from accelscope.simulate.description import read_node
from accelscope.vendors.ascend import NPU_METRICS

OPERATOR, NO_TOOL, NO_DRIVER, NOT_READY = "gpu-operator", "operator-a", "operator-b", "operator-c"
GPUS = {
    "node": "gpus",
    "nvidia": {"devices": [{"model": "a100-40gb", "count": 2}]},
    "processes": [{"name": "train", "device": 1, "pid": 4242}],
}
NPUS = {"node": "npus", "ascend": {"devices": [{"model": "910b3", "count": 2}]}}
AT = 1000.0  # seconds of simulated time: nothing that is read changes
BY_CERTIFICATE = "fleet-by-certificate"

AGENTS = {"agents": {"namespace": NAMESPACE}}
EXEC: dict[str, Any] = {"exec": {"namespaces": [OPERATOR]}}
ANNOTATIONS: dict[str, Any] = {"annotations": {}}
ALL = {**AGENTS, **EXEC, **ANNOTATIONS}


@dataclass(frozen=True)
class Lesser:
    """An account without one of the rights, and what that takes away."""

    id: str
    without: Right
    sources: dict[str, Any]
    fails: str
    refused: str  # what the API server says that it may not


LESSER = (
    Lesser("less-nodes", Right("nodes"), ALL, "annotations", 'list resource "nodes"'),
    Lesser("less-agents", Right("pods", NAMESPACE), ALL, "agents", 'list resource "pods"'),
    Lesser("less-proxy", Right("pods/proxy", NAMESPACE), ALL, "agents", 'get resource "pods/proxy"'),
    Lesser("less-drivers", Right("pods", OPERATOR), ALL, "exec", 'list resource "pods"'),
    # Where an agent tells of a node, no command is run there: so none is asked.
    Lesser(
        "less-exec", Right("pods/exec", OPERATOR), {**EXEC, **ANNOTATIONS}, "exec", 'resource "pods/exec"'
    ),
)


def built(description: dict[str, Any], folder: Path) -> SimulatedNode:
    node = SimulatedNode(read_node(yaml.safe_dump(description)), folder)
    node.build(at=AT)
    return node


@pytest.fixture(scope="module")
def gpus(folder: Path) -> SimulatedNode:
    return built(GPUS, folder / "gpus")


@pytest.fixture(scope="module")
def agent(cluster: Cluster, gpus: SimulatedNode, folder: Path) -> Iterator[Deployed]:
    """Of the node's GPUs, as the chart runs it."""
    cluster.import_image(agent_image())
    with ExitStack() as stack:
        stack.enter_context(namespace(cluster))
        stack.enter_context(labelled(cluster, "agents.accelscope.io/nvidia=true"))
        stack.enter_context(runtime_class(cluster, "nvidia"))
        release = Release(cluster, folder)
        stack.callback(release.remove)
        release.put(
            {
                "agents": {"nvidia": {**on_simulated(gpus), "resources": ENOUGH_CPU}},
                "config": {"collectionInterval": "1s"},
            }
        )
        deployed = release.agent("nvidia")
        deployed.until_rolled_out()
        deployed.until(lambda s: len(s.devices) == 2 and len(s.processes) == 1, "all is read")
        yield deployed


@pytest.fixture(scope="module")
def driver_pods(cluster: Cluster, gpus: SimulatedNode, folder: Path) -> Iterator[None]:
    """In four namespaces, as if the node had four GPU operators, of which three are in trouble."""
    cluster.import_image(images.base_image())
    unloaded = built({**GPUS, "faults": [{"kind": "driver_not_loaded"}]}, folder / "unloaded")
    pods = [
        driver_pod(OPERATOR, gpus),
        operand(OPERATOR, "nvidia-dcgm-exporter"),
        driver_pod(NO_TOOL, None),
        driver_pod(NO_DRIVER, unloaded),
        driver_pod(NOT_READY, gpus, ready=False),
    ]
    with ExitStack() as stack:
        for name in (OPERATOR, NO_TOOL, NO_DRIVER, NOT_READY):
            stack.enter_context(namespace(cluster, name))
        cluster.apply(*pods)
        for pod in pods:
            name, where = pod["metadata"]["name"], pod["metadata"]["namespace"]
            condition = "Initialized" if where == NOT_READY else "Ready"
            cluster.wait_for(
                f"pod/{name}", f"condition={condition}", namespace=where, seconds=PATIENCE_SECONDS
            )
        yield


@pytest.fixture(scope="module")
def npus(cluster: Cluster, folder: Path) -> Iterator[Snapshot]:
    """Of which another agent writes on the same Node."""
    node = built(NPUS, folder / "npus")
    file = folder / "npus.yaml"
    file.write_text("npuAnnotation: true\n")
    with account(cluster, "annotator", [PATCH_NODES]) as writer:
        settings = {**node.agent_settings(), **writer.settings(folder / "annotator.token")}
        with AgentProcess({**settings, "config_file": str(file)}, folder / "annotator") as running:
            about = f"node/{cluster.node_name}"
            wait_until(
                lambda: NPU_METRICS in cluster.get(about)["metadata"]["annotations"],
                "the annotation is there",
                PATIENCE_SECONDS,
            )
            yield running.settled()
            cluster.kubectl("annotate", about, f"{NPU_METRICS}-")


@pytest.fixture(scope="module")
def readers(cluster: Cluster, agent: Deployed, driver_pods: None, folder: Path) -> Iterator[Readers]:
    with fleet_reader.readers(cluster) as made:
        put_token(folder / "full.token", made.secret_token())
        for each in LESSER:
            made.add_account(each.id, each.without, folder / f"{each.id}.token")
        made.add_user(BY_CERTIFICATE)
        made.until_known(BY_CERTIFICATE)
        yield made


@pytest.fixture(scope="module")
def simulated(folder: Path) -> Iterator[SimulatedClusters]:
    """Clusters beside the real one."""
    with simulated_clusters(folder / "simulated", "--clusters=5", "--nodes=2", "--interval=2") as running:
        yield running


@pytest.fixture(scope="module")
def fleet(
    cluster: Cluster, readers: Readers, npus: Snapshot, simulated: SimulatedClusters, folder: Path
) -> Iterator[FleetProcess]:
    """One for all: to it, the cluster is as many as there are ways to read it."""

    def server(token: str) -> dict[str, Any]:
        files = {"tokenFile": str(folder / f"{token}.token"), "caFile": str(cluster.ca_file)}
        return {"server": {"url": cluster.api_url, **files}}

    admin = {"kubeconfig": {"path": str(cluster.kubeconfig), "context": "e2e"}}
    troubles = {
        "no-tool": NO_TOOL,
        "no-driver": NO_DRIVER,
        "not-ready": NOT_READY,
        "no-operator": "operator-d",
    }
    entries: list[dict[str, Any]] = [
        {"id": "full", "sources": ALL, **server("full")},
        {"id": "only-agents", "sources": AGENTS, **server("full")},
        {"id": "only-exec", "sources": EXEC, **server("full")},
        {"id": "only-annotations", "sources": ANNOTATIONS, **server("full")},
        *({"id": each.id, "sources": each.sources, **server(each.id)} for each in LESSER),
        {"id": "plugin", "sources": AGENTS, "kubeconfig": {"path": str(plugin_kubeconfig(cluster, folder))}},
        {
            "id": "certificate",
            "sources": ALL,
            "kubeconfig": {"path": str(certificate_kubeconfig(cluster, folder))},
        },
        *({"id": id_, "sources": {"exec": {"namespaces": [n]}}, **admin} for id_, n in troubles.items()),
        {"id": "no-gpus", "capabilities": {"gpu": "false"}, **admin},
        *simulated.entries,
    ]
    settings = {"refresh_interval": "3s", "request_timeout": "5s"}
    with FleetProcess(entries, folder / "fleet", settings) as running:
        yield running


def plugin_kubeconfig(cluster: Cluster, folder: Path) -> Path:
    """The plugin gives what is in the account's token file, and tells a file what it was told."""
    shown = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"token": "@"},
    }
    before, after = json.dumps(shown).split("@")
    script = folder / "plugin"
    script.write_text(
        "#!/bin/sh\n"
        f'printf "%s" "$KUBERNETES_EXEC_INFO" >{shlex.quote(str(folder / "told.json"))}\n'
        f'printf "%s%s%s" {shlex.quote(before)} "$(cat {shlex.quote(str(folder))}/full.token)" '
        f"{shlex.quote(after)}\n"
    )
    command = {
        "apiVersion": shown["apiVersion"],
        "command": "sh",
        "args": [str(script)],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    path = folder / "plugin.kubeconfig"
    return write_kubeconfig_of(path, cluster.api_url, cluster.ca_file, {"exec": command})


def certificate_kubeconfig(cluster: Cluster, folder: Path) -> Path:
    """With the certificate in it, as kubeadm writes it."""
    shown = cluster.client_certificate(BY_CERTIFICATE)
    user = {
        "client-certificate-data": base64.b64encode(shown.certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(shown.key.read_bytes()).decode(),
    }
    return write_kubeconfig_of(folder / "certificate.kubeconfig", cluster.api_url, cluster.ca_file, user)


def up(fleet: FleetProcess, cluster: str) -> dict[str, bool]:
    """Sources, and whether they are."""
    return {each["kind"]: each["up"] for each in fleet.cluster(cluster)["sources"]}


# --- what each source tells -----------------------------------------------------------------------------


def test_agents_are_read_through_the_api_servers_proxy(fleet: FleetProcess, agent: Deployed) -> None:
    fleet.until("only-agents", lambda view: view["devices"] == 2, "both GPUs are there")
    expected = {device.id: device for device in agent.snapshot().devices}
    for row in fleet.devices("only-agents"):
        device = expected.pop(row["id"])
        assert (row["uuid"], row["memory_total_bytes"]) == (device.uuid, device.memory_total_bytes)
        assert (row["source"], row["state"]) == ("agents", "fresh")
        assert 0 <= row["age_seconds"] < 60
    assert expected == {}
    where = f"/api/v1/nodes/only-agents/{agent.cluster.node_name}"
    wait_until(lambda: bool(fleet.get(where)["labels"]), "the Node object is there")
    node = fleet.get(where)
    assert node["labels"]["kubernetes.io/hostname"] == agent.cluster.node_name
    assert node["agent"]["version"] == agent.snapshot().agent.version


def test_nvidia_smi_is_run_in_the_drivers_container(fleet: FleetProcess, agent: Deployed) -> None:
    """And says what the agent says: both read one simulated driver."""
    node, same = (node_with_gpus(fleet, name) for name in ("only-exec", "only-agents"))
    assert (node["source"], same["source"]) == ("exec", "agents")
    assert node["labels"] == same["labels"]
    for by_exec, by_agent in zip(node["gpus"], same["gpus"], strict=True):
        for field in (
            "index",
            "uuid",
            "name",
            "driver_version",
            "memory_total_mb",
            "temperature_celsius",
            "id",
        ):
            assert by_exec[field] == by_agent[field], field
    [process] = fleet.get("/api/v1/gpu/processes?cluster_id=only-exec")
    assert (process["pid"], process["gpu_index"], process["command"]) == (4242, 1, "train")


def node_with_gpus(fleet: FleetProcess, cluster: str) -> Any:
    """As soon as both GPUs and the Node object are there."""
    fleet.until(cluster, lambda view: view["devices"] == 2, "both GPUs are there")
    where = f"/api/v1/gpu/nodes?cluster_id={cluster}"
    wait_until(lambda: all(node["labels"] for node in fleet.get(where)), "the Node object is there")
    [node] = fleet.get(where)
    return node


def test_annotations_are_read_from_node_objects(fleet: FleetProcess, npus: Snapshot) -> None:
    fleet.until("only-annotations", lambda view: view["devices"] == 2, "both NPUs are there")
    rows = fleet.devices("only-annotations")
    assert {(row["vendor"], row["source"]) for row in rows} == {("ascend", "annotations")}
    for field in ("memory_total_bytes", "temperature_celsius", "power_watts"):
        assert [row[field] for row in rows] == [getattr(device, field) for device in npus.devices], field
    assert fleet.get("/api/v1/gpu/nodes?cluster_id=only-annotations") == [], "they are no GPUs"


def test_of_several_sources_each_adds_what_the_others_do_not_tell(fleet: FleetProcess) -> None:
    wanted = [("ascend", "annotations")] * 2 + [("nvidia", "agents")] * 2
    wait_until(
        lambda: sorted((row["vendor"], row["source"]) for row in fleet.devices("full")) == wanted,
        "GPUs and NPUs are there, each by one source",
    )
    wait_until(
        lambda: fleet.source("full", "exec")["expected"] == 0,
        "an agent tells of the node: no command is run there",
    )
    [node] = fleet.get("/api/v1/nodes?cluster=full")["items"]
    assert (node["state"], node["source"]) == ("fresh", "agents,annotations")


# --- what it may do -------------------------------------------------------------------------------------


def test_the_manifests_give_the_rights_that_are_tried_here(readers: Readers) -> None:
    assert readers.rights() == {each.without for each in LESSER}


@pytest.mark.parametrize("lesser", LESSER, ids=lambda lesser: lesser.id)
def test_without_one_right_one_source_fails_and_says_so(fleet: FleetProcess, lesser: Lesser) -> None:
    def check() -> None:
        assert up(fleet, lesser.id) == {kind: kind != lesser.fails for kind in lesser.sources}
        failed = fleet.source(lesser.id, lesser.fails)
        assert failed["reason"] == "forbidden"
        assert lesser.refused in failed["text"]
        view = fleet.cluster(lesser.id)
        assert view["reachable"] is True
        assert view["devices"] > 0

    until_passes(check, PATIENCE_SECONDS)


def test_where_agents_cannot_be_read_commands_take_their_place(fleet: FleetProcess) -> None:
    for cluster in ("less-agents", "less-proxy"):
        fleet.until(cluster, lambda view: view["devices"] == 4, "GPUs and NPUs are there")
        told = {(row["vendor"], row["source"]) for row in fleet.devices(cluster)}
        assert told == {("ascend", "annotations"), ("nvidia", "exec")}


def test_all_rights_make_every_source_work(fleet: FleetProcess) -> None:
    everything = dict.fromkeys(ALL, True)
    for cluster in ("full", "certificate"):
        fleet.until(
            cluster,
            lambda view: view["devices"] == 4 and all(each["up"] for each in view["sources"]),
            "GPUs and NPUs are there, and every source works",
        )
        assert up(fleet, cluster) == everything
        assert (fleet.cluster(cluster)["reachable"], fleet.cluster(cluster)["reason"]) == (True, None)


# --- who it is ------------------------------------------------------------------------------------------


def test_a_credential_plugin_is_asked_who_it_is(fleet: FleetProcess, cluster: Cluster, folder: Path) -> None:
    fleet.until("plugin", lambda view: view["devices"] == 2, "both GPUs are there")
    told = json.loads((folder / "told.json").read_text())
    assert told["spec"]["interactive"] is False
    assert told["spec"]["cluster"]["server"] == cluster.api_url


def test_no_secret_is_told(fleet: FleetProcess, cluster: Cluster, folder: Path) -> None:
    tokens = [path.read_text().strip() for path in folder.glob("*.token")]
    assert len(tokens) > len(LESSER)
    everything = (
        fleet.log() + fleet.ask("/api/v1/clusters").body.decode() + fleet.ask("/metrics").body.decode()
    )
    assert not [token for token in (*tokens, cluster.admin_token) if token in everything]


# --- where there is nothing to be read ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id_", "reason", "text"),
    [
        ("no-tool", "not_found", '"nvidia-smi": executable file not found'),
        ("no-driver", "driver_not_loaded", "couldn't communicate with the NVIDIA driver"),
        ("not-ready", "not_ready", f"{NOT_READY}/nvidia-driver-daemonset-x7k2p is not ready"),
    ],
)
def test_a_driver_pod_in_trouble_says_which(fleet: FleetProcess, id_: str, reason: str, text: str) -> None:
    def check() -> None:
        source = fleet.source(id_, "exec")
        assert (source["up"], source["expected"], source["answered"]) == (False, 1, 0)
        assert source["reason"] == reason
        assert text in source["text"]
        assert fleet.cluster(id_)["reachable"] is True
        nodes = fleet.get(f"/api/v1/nodes?cluster={id_}")["items"]
        assert [(node["state"], text in (node["reason"] or "")) for node in nodes] == [("unread", True)]

    until_passes(check, PATIENCE_SECONDS)
    answer = fleet.ask(f"/api/v1/gpu/nodes?cluster_id={id_}")
    assert answer.status == 503, "its GPUs are not known, which an empty list would hide"
    assert json.loads(answer.body)["type"] == "urn:accelscope:problem:not-read-yet"


def test_without_the_gpu_operator_the_list_is_empty(fleet: FleetProcess) -> None:
    fleet.until("no-operator", lambda view: view["sources"][0]["up"], "it was tried", PATIENCE_SECONDS)
    assert fleet.get("/api/v1/gpu/nodes?cluster_id=no-operator") == []
    assert fleet.get("/api/v1/gpu/processes?cluster_id=no-operator") == []


def test_a_cluster_that_is_declared_without_gpus_is_a_bad_question(fleet: FleetProcess) -> None:
    for what in ("nodes", "processes", "summary"):
        answer = fleet.ask(f"/api/v1/gpu/{what}?cluster_id=no-gpus")
        assert answer.status == 400
        assert answer.headers["content-type"] == "application/problem+json"
        assert json.loads(answer.body)["type"] == "urn:accelscope:problem:no-gpu-capability"
    assert fleet.cluster("no-gpus")["sources"] == [], "nothing is asked of it"


# --- when others fail -----------------------------------------------------------------------------------


def test_clusters_that_hang_lie_or_take_their_time_cost_the_others_nothing(
    fleet: FleetProcess, simulated: SimulatedClusters
) -> None:
    """One of the simulated is well; the real one is read as before."""
    well, hangs, lies, floods, slow = (entry["id"] for entry in simulated.entries)
    others = (well, "full")
    for name in (well, hangs, lies, floods, slow):
        fleet.until(
            name, lambda view: view["devices"] > 0 and view["reachable"], "it is read", PATIENCE_SECONDS
        )
    for name, kind in ((hangs, "api_hang"), (lies, "api_garbage"), (floods, "api_flood")):
        simulated.fault(kind, f"--cluster={name}")
    simulated.fault("api_slow", f"--cluster={slow}", "--seconds=20")
    reasons = {hangs: "timeout", lies: "bad_answer", floods: "too_large", slow: "timeout"}
    for name in reasons:
        fleet.until(
            name,
            lambda view: view["reachable"] is False or view["reason"],
            f"{name} is in trouble",
            PATIENCE_SECONDS,
        )
    before = {name: fleet.cluster(name)["succeeded_at"] for name in others}
    for name in others:
        was = before[name]
        fleet.until(
            name,
            lambda view, was=was: view["succeeded_at"] > was + 6 and all(s["up"] for s in view["sources"]),  # type: ignore[misc]
            f"{name} is read",
            PATIENCE_SECONDS,
        )
    wait_until(
        lambda: {name: fleet.cluster(name)["reason"] for name in reasons} == reasons,
        "each is in trouble of its own kind",
        PATIENCE_SECONDS,
    )
    wait_until(lambda: all(row["state"] == "fresh" for row in fleet.devices("full")), "nothing there is old")
    assert fleet.most_memory_bytes() < 400 << 20
    simulated.fault("--clear")
    for name in (hangs, lies, slow):  # agents that sent far too much are left alone for minutes
        fleet.until(
            name,
            lambda view: view["reachable"] and all(s["up"] for s in view["sources"]),
            "it is back",
            PATIENCE_SECONDS,
        )


def test_a_revoked_token_makes_its_cluster_unreachable_and_no_other(
    fleet: FleetProcess, cluster: Cluster, readers: Readers, folder: Path
) -> None:
    """Last, since it takes the account's token away, as docs/fleet.md tells how to."""
    cluster.kubectl("delete", fleet_reader.SECRET, f"--namespace={fleet_reader.NAMESPACE}")
    view = fleet.until(
        "full",
        lambda view: (view["reachable"], view["reason"]) == (False, "unauthorized"),
        "the token is refused",
        PATIENCE_SECONDS,
    )
    fleet.until("full", lambda view: not any(s["up"] for s in view["sources"]), "no source goes on")
    assert view["devices"] == 4, "what was last known stays, with its age"
    summary = fleet.get("/api/v1/gpu/summary?cluster_id=full")
    assert (summary["stale"], summary["gpu_count"]) == (True, 2)
    for other in ("certificate", "no-operator", "less-nodes"):
        fleet.until(other, lambda view: view["reachable"] is True, f"{other} is read as before")
    events = fleet.get("/api/v1/events?cluster=full&limit=100")["items"]
    assert "cluster_unreachable" in {event["kind"] for event in events}
    # With another token it is back, without a restart.
    put_token(
        folder / "full.token", cluster.token_for(fleet_reader.ACCOUNT, namespace=fleet_reader.NAMESPACE)
    )
    fleet.until(
        "full",
        lambda view: view["reachable"] and all(s["up"] for s in view["sources"]),
        "the new token is shown",
        PATIENCE_SECONDS,
    )
