"""The real cluster that other end-to-end tests stand on does what they need of it. That it leaves nothing
behind is seen to where it is taken down (conftest.py)."""

import secrets
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.kubernetes import images
from tests.e2e.kubernetes.cluster import PATIENCE_SECONDS, Cluster
from tests.e2e.kubernetes.errors import CommandFailed
from tests.e2e.kubernetes.node import NAME
from tests.waiting import wait_until

from accelscope.attribution.pod_resources import PodResourcesClient
from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint
from accelscope.kube.informer import BlockingInformer, watch_pods
from accelscope.kube.objects import KubePod

SAYS_HELLO_AND_SERVES = """\
import http.server, os
os.write(1, b"hello from " + os.environ["WHO"].encode() + b"\\n")
http.server.test(http.server.SimpleHTTPRequestHandler, port=8000)
"""
POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: own-node-only}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [nodes]}
  matchConditions:
    - {name: accounts, expression: "request.userInfo.username == 'system:serviceaccount:default:writer'"}
  validations:
    - expression: >-
        request.userInfo.extra[?'authentication.kubernetes.io/node-name'][?0].orValue('')
        == object.metadata.name
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: own-node-only}
spec: {policyName: own-node-only, validationActions: [Deny]}
"""
CUSTOM_RESOURCE = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def pod_named(name: str, image: str, command: list[str] | None = None, **more: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": image, "imagePullPolicy": "Never"}
    if command is not None:
        container["command"] = command
    container |= more
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


@contextmanager
def running(cluster: Cluster, pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """As the API server has it once it is ready."""
    resource = f"pod/{pod['metadata']['name']}"
    cluster.apply(pod)
    try:
        cluster.wait_for(resource, "condition=Ready")
        yield cluster.get(resource)
    finally:
        cluster.kubectl("delete", resource, "--wait=false")
        cluster.wait_for(resource, "delete")


@pytest.fixture(scope="module")
def base(cluster: Cluster) -> str:
    """The tag of an image with Python that the cluster has."""
    image = images.base_image()
    cluster.import_image(image)
    return image.tag


@pytest.fixture(scope="module")
def python_pod(cluster: Cluster, base: str) -> Iterator[dict[str, Any]]:
    command = ["python3", "-c", SAYS_HELLO_AND_SERVES]
    limits = {"resources": {"limits": {"cpu": "200m", "memory": "64Mi"}}}
    pod = pod_named("python", base, command, env=[{"name": "WHO", "value": "a pod"}], **limits)
    with running(cluster, pod) as made:
        yield made


def test_node_is_ready_and_knows_its_version(cluster: Cluster) -> None:
    node = cluster.get(f"node/{cluster.node_name}")
    addresses = {each["type"]: each["address"] for each in node["status"]["addresses"]}
    assert addresses["InternalIP"] == cluster.node_address
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.34.4"


def test_pod_of_the_pause_image_runs(cluster: Cluster) -> None:
    with running(cluster, pod_named("paused", images.PAUSE_TAG)) as pod:
        assert pod["spec"]["nodeName"] == cluster.node_name


def test_exec_gives_output_input_and_exit_codes(cluster: Cluster, python_pod: dict[str, Any]) -> None:
    assert cluster.exec("python", "cat", input="to and fro") == "to and fro"
    assert cluster.exec("python", "python3", "-c", "print(6 * 7)") == "42\n"
    with pytest.raises(CommandFailed) as caught:
        cluster.exec("python", "sh", "-c", "echo why >&2; exit 3")
    assert caught.value.status == 3
    assert "why" in caught.value.stderr


def test_logs_are_the_pods_own(cluster: Cluster, python_pod: dict[str, Any]) -> None:
    assert "hello from a pod" in cluster.logs("python")


def test_pods_and_services_are_reached_from_outside(cluster: Cluster, python_pod: dict[str, Any]) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "python"},
        "spec": {"selector": {"app": "python"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    cluster.apply(service)
    for target, port in (("pod/python", 8000), ("service/python", 80)):
        with cluster.forward(target, port) as forward:

            def answers(address: str = forward.address) -> bool:
                try:
                    with urllib.request.urlopen(f"http://{address}/etc/hostname", timeout=30) as response:
                        return bool(response.read() == b"python\n")
                except OSError:
                    return False  # it has not begun to listen, or has no endpoint yet

            wait_until(answers, f"{target} answers", PATIENCE_SECONDS)


def test_cgroup_of_a_pods_process_names_the_pod(cluster: Cluster, python_pod: dict[str, Any]) -> None:
    pids = cluster.processes_of("python", "main")
    assert pids
    for pid in pids:
        assert b"http.server" in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert f"pod{python_pod['metadata']['uid']}/" in Path(f"/proc/{pid}/cgroup").read_text()


def test_kubelet_lists_what_containers_hold(cluster: Cluster, python_pod: dict[str, Any]) -> None:
    client = PodResourcesClient(str(cluster.pod_resources_socket), timeout_seconds=30)
    assert client.list() == ()  # there are pods, none of which holds a device
    assert client.version == "v1"


@contextmanager
def watching(cluster: Cluster) -> Iterator[BlockingInformer[KubePod]]:
    endpoint = Endpoint(cluster.api_url, str(cluster.admin_token_file), str(cluster.ca_file))
    client = Client(endpoint)
    watch = watch_pods(client, cluster.node_name)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        assert watch.synced.wait(PATIENCE_SECONDS), watch.state
        yield watch
    finally:
        watch.stop()
        thread.join()
        client.close()


def names(watch: BlockingInformer[KubePod]) -> set[str]:
    return {pod.name for pod in watch.items.values()}


def test_watch_sees_pods_come_and_go_also_after_the_api_server_was_away(cluster: Cluster) -> None:
    with watching(cluster) as watch:
        with running(cluster, pod_named("seen-before", images.PAUSE_TAG)):
            wait_until(lambda: "seen-before" in names(watch), "the pod is seen", PATIENCE_SECONDS)
        wait_until(lambda: "seen-before" not in names(watch), "it is seen to go", PATIENCE_SECONDS)

        cluster.stop_api_server()
        try:
            wait_until(lambda: not watch.state.up, "the watch says that it is cut off", PATIENCE_SECONDS)
        finally:
            cluster.start_api_server()

        with running(cluster, pod_named("seen-after", images.PAUSE_TAG)):
            wait_until(lambda: "seen-after" in names(watch), "the later pod is seen", PATIENCE_SECONDS)
        assert watch.state.up


def test_kubelet_restarts_and_pods_stay(cluster: Cluster, python_pod: dict[str, Any]) -> None:
    before = cluster.processes_of("python", "main")
    cluster.restart_kubelet()
    assert cluster.processes_of("python", "main") == before
    client = PodResourcesClient(str(cluster.pod_resources_socket), timeout_seconds=30)
    assert client.list() == ()
    with running(cluster, pod_named("later", images.PAUSE_TAG)):
        pass


def test_token_of_a_pods_account_names_its_node(cluster: Cluster, python_pod: dict[str, Any]) -> None:
    token = cluster.token_for("default", "--bound-object-kind=Pod", "--bound-object-name=python")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    reply = cluster.api.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert reply.status == 201, reply
    status = reply.json()["status"]
    assert status["user"]["username"] == "system:serviceaccount:default:default"
    assert status["user"]["extra"]["authentication.kubernetes.io/node-name"] == [NAME]


def test_strangers_are_refused(cluster: Cluster) -> None:
    assert cluster.api.request("GET", "/api/v1/nodes", token=secrets.token_hex(8)).status == 401
    assert cluster.api.request("GET", "/api/v1/nodes", token=cluster.token_for("default")).status == 403


def test_admission_policy_sees_the_node_that_a_token_names(cluster: Cluster, base: str) -> None:
    cluster.apply(
        POLICY,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "writer"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "another"}},
    )
    cluster.kubectl("create", "clusterrole", "writer", "--verb=get,patch,update", "--resource=nodes")
    cluster.kubectl(
        "create", "clusterrolebinding", "writer", "--clusterrole=writer", "--serviceaccount=default:writer"
    )
    pod = pod_named("writer", images.PAUSE_TAG)
    pod["spec"]["serviceAccountName"] = "writer"
    try:
        with running(cluster, pod):
            token = cluster.token_for("writer", "--bound-object-kind=Pod", "--bound-object-name=writer")

            def patch(node: str) -> int:
                change = {"metadata": {"annotations": {"example.com/written": secrets.token_hex(4)}}}
                kind = "application/merge-patch+json"
                path = f"/api/v1/nodes/{node}"
                return cluster.api.request("PATCH", path, change, token=token, content_type=kind).status

            wait_until(lambda: patch("another") == 422, "the policy is in force", PATIENCE_SECONDS)
            assert patch(NAME) == 200
    finally:
        cluster.kubectl("delete", "node/another", "clusterrole/writer", "clusterrolebinding/writer")
        cluster.kubectl("delete", "--filename=-", input=POLICY)
        cluster.kubectl("delete", "serviceaccount/writer")


def test_custom_resources_are_kept(cluster: Cluster) -> None:
    cluster.apply(CUSTOM_RESOURCE)
    try:
        cluster.wait_for("crd/things.example.com", "condition=Established")
        cluster.apply(
            {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}, "of": "mine"}
        )
        assert cluster.get("thing/one")["of"] == "mine"
    finally:
        cluster.kubectl("delete", "--filename=-", input=CUSTOM_RESOURCE)


def test_image_is_built_from_a_dockerfile_and_runs(cluster: Cluster, base: str, tmp_path: Path) -> None:
    (tmp_path / "greeting").write_text(f"{secrets.token_hex(8)}\n")
    dockerfile = """\
ARG BASE
FROM ${BASE}
COPY greeting /greeting
RUN python3 -c "print('built', file=open('/built', 'w'))"
USER 1000
CMD ["python3", "-c", "import signal; signal.pause()"]
"""
    image = images.build_image(dockerfile, tmp_path, "localhost/greeter:1", {"BASE": base})
    assert images.build_image(dockerfile, tmp_path, "localhost/greeter:1", {"BASE": base}) == image
    cluster.import_image(image)
    with running(cluster, pod_named("greeter", image.tag)):
        said = cluster.exec("greeter", "sh", "-c", "cat /greeting /built; id -u")
    assert said == f"{(tmp_path / 'greeting').read_text()}built\n1000\n"


def test_wrong_manifest_is_an_error_with_the_servers_words(cluster: Cluster) -> None:
    with pytest.raises(CommandFailed) as caught:
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "No_Name"}})
    assert "No_Name" in caught.value.stderr


def test_helm_reaches_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: tiny\nversion: 0.1.0\n")
    template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tiny}\ndata: {word: {{ .Values.word }}}\n"
    (tmp_path / "templates" / "map.yaml").write_text(template)
    cluster.helm("install", "tiny", str(tmp_path), "--set=word=spoken")
    try:
        assert cluster.get("configmap/tiny")["data"] == {"word": "spoken"}
    finally:
        cluster.helm("uninstall", "tiny", "--wait")
