"""The API server of a simulated cluster, as a client that we did not write sees it."""

import http.client
import json
import shutil
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.certificates import make_certificates

from accelscope.serve import Tls
from accelscope.simulate import SimulatedNode, load_node, read_node
from accelscope.simulate.kubernetes import SimulatedCluster

PATIENCE_SECONDS = 30.0
NODE = """
node: worker-1
nvidia: {devices: [{model: a100-40gb, count: 2}]}
node_labels: {rack: "7"}
processes:
  - {name: vllm, device: 0, cgroup: {kind: pod, namespace: chat, pod: vllm-0, container: server}}
  - {name: late, device: 1, from: 100, until: 200, cgroup: {kind: pod, namespace: chat, pod: late}}
  - name: train
    device: 1
    from: 10
    until: 50
    memory: 1GiB
    cgroup: {kind: pod, namespace: research, owner: {kind: Job, name: train}, hami: {memory: 8GiB, cores: 30}}
"""
PODS = "/api/v1/pods?fieldSelector=spec.nodeName%3Dworker-1"
WATCH = f"{PODS}&watch=true&allowWatchBookmarks=true"


class Client:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self.settings = cluster.agent_settings()

    def connect(self, context: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
        url = urlsplit(self.settings["kube_api_url"])
        assert url.hostname == "127.0.0.1"
        if context is not None:
            return http.client.HTTPSConnection(
                url.hostname, url.port, timeout=PATIENCE_SECONDS, context=context
            )
        return http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE_SECONDS)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {Path(self.settings['kube_token_file']).read_text()}"}

    def get(self, path: str, context: ssl.SSLContext | None = None) -> tuple[int, Any]:
        with closing(self.connect(context)) as connection:
            connection.request("GET", path, headers=self.headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else text

    def pods(self) -> dict[str, str]:
        """Names and phases."""
        status, document = self.get(PODS)
        assert (status, document["kind"]) == (200, "PodList")
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in document["items"]}

    def version(self) -> str:
        return str(self.get(PODS)[1]["metadata"]["resourceVersion"])


class Watch:
    """Events of one watch, one after the other."""

    def __init__(self, client: Client, path: str) -> None:
        self.connection = client.connect()
        self.connection.request("GET", path, headers=client.headers)
        self.answer = self.connection.getresponse()

    def next(self) -> tuple[str, Any]:
        line = self.answer.readline()
        if not line:
            raise EOFError
        event = json.loads(line)
        return event["type"], event["object"]

    def rest(self) -> Iterator[tuple[str, Any]]:
        try:
            while True:
                yield self.next()
        except EOFError:
            return

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    """Not built: nothing of the cluster is in the node's folder."""
    return SimulatedNode(read_node(NODE), tmp_path / "node")


@pytest.fixture
def cluster(node: SimulatedNode, tmp_path: Path) -> Iterator[SimulatedCluster]:
    with SimulatedCluster(node, tmp_path / "kubernetes") as cluster:
        yield cluster
    assert [thread.name for thread in threading.enumerate() if "simulated" in thread.name] == []


def test_pods_are_those_that_the_node_runs_now(node: SimulatedNode, cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    assert client.pods() == {"vllm-0": "Running"}
    node.write(20)
    [train] = client.pods().keys() - {"vllm-0"}
    assert client.pods() == {"vllm-0": "Running", train: "Running"}
    node.write(150)
    assert client.pods() == {"vllm-0": "Running", train: "Succeeded", "late": "Running"}  # a Job's pod stays
    node.write(250)
    assert client.pods() == {"vllm-0": "Running", train: "Succeeded"}


def test_a_pod_has_what_real_ones_have(node: SimulatedNode, cluster: SimulatedCluster) -> None:
    node.write(20)
    _, document = Client(cluster).get(PODS)
    vllm, train = document["items"]
    [box] = node.pods[0].containers
    assert vllm["metadata"]["uid"] == node.pods[0].uid
    assert vllm["spec"]["nodeName"] == "worker-1"
    assert vllm["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert vllm["status"]["containerStatuses"][0]["containerID"] == f"containerd://{box.id}"
    assert "ownerReferences" not in vllm["metadata"]
    owner = train["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "train", True)
    card = node.pods[2].containers[0].grants[0].device.id
    assert train["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] == f"{card},NVIDIA,8192,30:;"


def test_a_deployments_pod_is_its_replica_sets(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-shared"), tmp_path / "node")
    with SimulatedCluster(node, tmp_path / "kubernetes") as cluster:
        _, document = Client(cluster).get("/api/v1/pods")
    metadata = document["items"][0]["metadata"]
    hash_label = metadata["labels"]["pod-template-hash"]
    assert metadata["ownerReferences"][0]["kind"] == "ReplicaSet"
    assert metadata["ownerReferences"][0]["name"] == f"chat-{hash_label}"
    assert metadata["name"].startswith(f"chat-{hash_label}-")


def test_pods_may_be_many_and_big(node: SimulatedNode, tmp_path: Path) -> None:
    with SimulatedCluster(node, tmp_path / "k", pod_bytes=20_000, extra_pods=109) as cluster:
        _, document = Client(cluster).get(PODS)
    sizes = [len(json.dumps(pod)) for pod in document["items"]]
    assert len(sizes) == 110
    assert all(19_000 < size < 23_000 for size in sizes)
    assert len({pod["metadata"]["uid"] for pod in document["items"]}) == 110


def test_a_watch_goes_on_where_a_list_ended(node: SimulatedNode, cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    watch = Watch(client, f"{WATCH}&resourceVersion={client.version()}")
    with closing(watch):
        node.write(120)
        seen = [watch.next() for _ in range(2)]
        node.write(220)
        seen.append(watch.next())
    assert [(kind, pod["metadata"]["name"], pod["status"]["phase"]) for kind, pod in seen] == [
        ("ADDED", "late", "Pending"),
        ("MODIFIED", "late", "Running"),
        ("DELETED", "late", "Running"),
    ]
    versions = [int(pod["metadata"]["resourceVersion"]) for _, pod in seen]
    assert versions == sorted(set(versions))
    resumed = Watch(client, f"{WATCH}&resourceVersion={versions[1]}&timeoutSeconds=1")
    with closing(resumed):
        assert [kind for kind, _ in resumed.rest()] == ["DELETED", "BOOKMARK"]


def test_a_watch_without_a_version_begins_with_what_is_there(cluster: SimulatedCluster) -> None:
    for since in ("", "&resourceVersion=0"):
        with closing(Watch(Client(cluster), f"{PODS}&watch=1&timeoutSeconds=0{since}")) as watch:
            assert [kind for kind, _ in watch.rest()] == ["ADDED"]


def test_bookmarks_come_where_they_are_wanted(node: SimulatedNode, tmp_path: Path) -> None:
    with SimulatedCluster(node, tmp_path / "k", bookmark_seconds=0.05) as cluster:
        client = Client(cluster)
        version = client.version()
        with closing(Watch(client, f"{WATCH}&resourceVersion={version}")) as watch:
            kind, bookmark = watch.next()
        with closing(Watch(client, f"{PODS}&watch=true&resourceVersion={version}&timeoutSeconds=1")) as plain:
            assert list(plain.rest()) == []
    assert (kind, bookmark["metadata"]["resourceVersion"]) == ("BOOKMARK", version)


def test_an_expired_version_is_answered_with_410(cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    version = client.version()
    cluster.expire_versions()
    with closing(Watch(client, f"{WATCH}&resourceVersion={version}")) as watch:
        assert watch.answer.status == 200
        [(kind, status)] = watch.rest()
    assert (kind, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
    cluster.expire_versions(as_status=True)
    code, status = client.get(f"{WATCH}&resourceVersion={version}")
    assert (code, status["code"]) == (410, 410)
    with closing(Watch(client, f"{WATCH}&resourceVersion={client.version()}&timeoutSeconds=0")) as watch:
        assert [kind for kind, _ in watch.rest()] == ["BOOKMARK"]  # after a new list all is well


def test_a_watch_ends_when_it_is_disconnected(cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    with closing(Watch(client, f"{WATCH}&resourceVersion={client.version()}")) as watch:
        cluster.disconnect()
        with pytest.raises((http.client.IncompleteRead, EOFError, ConnectionError)):
            watch.next()
    assert client.pods() == {"vllm-0": "Running"}


def test_an_api_server_that_is_down_comes_back_at_its_address(cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    with closing(Watch(client, f"{WATCH}&resourceVersion={client.version()}")) as watch:
        cluster.api_down()
        with pytest.raises((http.client.IncompleteRead, EOFError, ConnectionError)):
            watch.next()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            client.pods()
    cluster.api_up()
    assert client.pods() == {"vllm-0": "Running"}


def test_only_the_current_token_is_accepted(cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    old = client.headers
    cluster.rotate_token()
    for headers in ({}, old, {"Authorization": "Bearer no"}):
        with closing(client.connect()) as connection:
            connection.request("GET", PODS, headers=headers)
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["reason"]) == (401, "Unauthorized")
    assert client.get(PODS)[0] == 200


def test_the_node_has_its_labels(cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    path = "/api/v1/nodes?fieldSelector=metadata.name%3Dworker-1"
    _, document = client.get(path)
    [node] = document["items"]
    assert node["metadata"]["labels"]["rack"] == "7"
    assert node["metadata"]["labels"]["nvidia.com/gpu.present"] == "true"
    version = document["metadata"]["resourceVersion"]
    with closing(Watch(client, f"{path}&watch=true&resourceVersion={version}")) as watch:
        cluster.label_node({"rack": "8", "nvidia.com/gpu.present": None})
        kind, node = watch.next()
    assert (kind, node["metadata"]["labels"]["rack"]) == ("MODIFIED", "8")
    assert "nvidia.com/gpu.present" not in node["metadata"]["labels"]
    assert client.get("/api/v1/nodes/worker-1")[1]["kind"] == "Node"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dother", 200),
        ("/api/v1/pods?fieldSelector=spec.colour%3Dblue", 400),
        ("/api/v1/pods?labelSelector=a%20b", 400),
        ("/api/v1/pods?watch=true&resourceVersion=new", 400),
        ("/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=soon", 400),
        ("/api/v1/nodes/other", 404),
        ("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dworker-1", 404),
    ],
)
def test_unknown_paths_are_not_found(cluster: SimulatedCluster, path: str, status: int) -> None:
    code, document = Client(cluster).get(path)
    assert code == status
    assert isinstance(document, bytes) or not document.get("items")
    assert cluster.requests() == (path,)


def test_with_tls_it_shows_its_certificate(node: SimulatedNode, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl: certificates cannot be made")
    made = make_certificates(tmp_path)
    tls = Tls(str(made.server), str(made.server_key))
    with SimulatedCluster(node, tmp_path / "k", tls=tls, ca_file=made.ca) as cluster:
        client = Client(cluster)
        assert client.settings["kube_api_url"].startswith("https://127.0.0.1:")
        trust = ssl.create_default_context(cafile=client.settings["kube_ca_file"])
        assert client.get(PODS, trust)[0] == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            client.get(PODS, ssl.create_default_context())
        with closing(client.connect(trust)) as connection:
            connection.request("GET", f"{WATCH}&resourceVersion=0", headers=client.headers)
            answer = connection.getresponse()
            assert json.loads(answer.readline())["type"] == "ADDED"
            cluster.disconnect()
            with pytest.raises((http.client.HTTPException, OSError)):
                answer.read()


def test_clients_that_go_away_leave_no_thread(cluster: SimulatedCluster) -> None:
    client = Client(cluster)
    for _ in range(3):
        Watch(client, f"{WATCH}&resourceVersion={client.version()}").close()
    end = time.monotonic() + PATIENCE_SECONDS
    while any("connection" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_it_may_be_entered_and_left_again(node: SimulatedNode, tmp_path: Path) -> None:
    for _ in range(2):
        with SimulatedCluster(node, tmp_path / "k") as cluster:
            assert Client(cluster).pods() == {"vllm-0": "Running"}
    node.write(150)  # nobody follows it any longer
