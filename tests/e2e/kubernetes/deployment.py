"""The agent as the chart puts it on the cluster: a release, its pods, and what they say."""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.agent_process import Answer
from tests.e2e.kubernetes.agent_image import REGISTRY
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.errors import CommandFailed
from tests.repository import CHART
from tests.waiting import wait_until

from accelscope.config.settings import environment_name
from accelscope.model import Snapshot
from accelscope.model.wire import read_snapshot
from accelscope.simulate import SimulatedNode

NAMESPACE = "accelscope-system"
RELEASE = "accelscope"
PORT = 9400
PATIENCE_SECONDS = 180.0  # a start within a tenth of a core takes seconds, on a busy machine many
# In values, where nothing is to be seen of what an agent costs: it starts in one second and not in six.
ENOUGH_CPU = {"limits": {"cpu": "1"}}

_PAGE_SECONDS = 60.0
# The node's own, which a pod of the chart has: the tests want to see that it is used.
_NOT_SIMULATED = ("proc_root", "pod_source", "pod_resources_socket")
# Comes with every namespace.
_OF_EVERY_NAMESPACE = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_PASSING = "events,events.events.k8s.io"

Values = Mapping[str, Any]


def on_simulated(node: SimulatedNode, **settings: str) -> dict[str, Any]:
    """An entry of `agents` in the chart's values, for an agent that finds this node's drivers instead of the
    machine's."""
    simulated = {k: v for k, v in node.agent_settings().items() if k not in _NOT_SIMULATED}
    environment = {environment_name(name): value for name, value in {**simulated, **settings}.items()}
    return {"env": environment, "hostPaths": [{"path": str(node.folder)}]}


@contextmanager
def namespace(cluster: Cluster, name: str = NAMESPACE, level: str = "privileged") -> Iterator[str]:
    """One that Pod Security guards at this level: it refuses pods, and warns of what would make them. It goes
    afterwards, with all that is in it. Nobody waits for that but who wants another of the same name:
    Kubernetes lets five seconds pass before it begins."""
    cluster.wait_for(f"namespace/{name}", "delete", seconds=PATIENCE_SECONDS)
    cluster.kubectl("create", "namespace", name)
    try:
        guards = (f"pod-security.kubernetes.io/{mode}={level}" for mode in ("enforce", "warn"))
        cluster.kubectl("label", "namespace", name, *guards)
        cluster.kubectl("wait", "serviceaccount/default", f"--namespace={name}", "--for=create")  # for pods
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


@contextmanager
def labelled(cluster: Cluster, *labels: str) -> Iterator[None]:
    """The Node, with these labels (`key=value`) for as long."""
    node = f"node/{cluster.node_name}"
    cluster.kubectl("label", node, *labels)
    try:
        yield
    finally:
        cluster.kubectl("label", node, *(f"{label.partition('=')[0]}-" for label in labels))


@contextmanager
def runtime_class(cluster: Cluster, name: str) -> Iterator[None]:
    """By which the node's ordinary runtime goes here."""
    about = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
    cluster.apply({**about, "handler": "runc"})
    try:
        yield
    finally:
        cluster.kubectl("delete", "runtimeclass", name)


class Deployed:
    """The DaemonSet of one agent of the chart, or of its device plugin, whoever applied it. One node: so it
    has one pod."""

    def __init__(self, cluster: Cluster, agent: str, namespace: str = NAMESPACE, port: int = PORT) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._port = port
        self.daemonset = f"{RELEASE}-{agent}"

    def until_rolled_out(self) -> dict[str, Any]:
        """The pod, once it is ready and the only one."""
        words = ("rollout", "status", f"daemonset/{self.daemonset}", f"--namespace={self.namespace}")
        try:
            self.cluster.kubectl(*words, f"--timeout={PATIENCE_SECONDS:g}s", seconds=PATIENCE_SECONDS + 30)
            wait_until(lambda: len(self._pods()) == 1, "the former pod is gone", PATIENCE_SECONDS)
        except (CommandFailed, AssertionError) as error:
            raise AssertionError(f"{error}\n{self._why_not()}") from None
        return self.pod()

    def pod(self) -> dict[str, Any]:
        [only] = self._pods()
        return only

    def ready(self) -> bool:
        return _is_ready(self.pod())

    def restarts(self) -> int:
        return sum(each["restartCount"] for each in self.pod()["status"]["containerStatuses"])

    def container_id(self) -> str:
        [status] = self.pod()["status"]["containerStatuses"]
        return str(status["containerID"]).rpartition("//")[2]

    def restart_pod(self) -> None:
        old = self.pod()["metadata"]["name"]
        self.cluster.kubectl("delete", f"pod/{old}", f"--namespace={self.namespace}", "--wait=true")

        def is_another() -> bool:
            """The DaemonSet's own status may still be about the one that is gone."""
            pods = self._pods()
            return len(pods) == 1 and pods[0]["metadata"]["name"] != old and _is_ready(pods[0])

        wait_until(is_another, "there is another pod, and it is ready", PATIENCE_SECONDS)

    def exec(self, *command: str) -> str:
        return self.cluster.exec(f"daemonset/{self.daemonset}", *command, namespace=self.namespace)

    def ask(self, path: str) -> Answer:
        """Of its page, straight from the pod. Raises OSError or http.client.HTTPException."""
        name = self.pod()["metadata"]["name"]
        with self.cluster.forward(f"pod/{name}", self._port, self.namespace) as forward:
            connection = http.client.HTTPConnection("127.0.0.1", forward.port, timeout=_PAGE_SECONDS)
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                headers = {name.lower(): value for name, value in response.getheaders()}
                return Answer(response.status, headers, response.read())
            finally:
                connection.close()

    def page(self) -> list[str]:
        answer = self.ask("/metrics")
        assert answer.status == 200, answer.body
        return answer.body.decode().splitlines()

    def snapshot(self) -> Snapshot:
        answer = self.ask("/snapshot")
        assert answer.status == 200, answer.body
        return read_snapshot(json.loads(answer.body))

    def until(self, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
        """The first snapshot that fulfils the condition."""
        seen: list[Snapshot] = []

        def fulfilled() -> bool:
            seen[:] = [self.snapshot()]
            return condition(seen[0])

        try:
            wait_until(fulfilled, what, PATIENCE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{seen}\n{self._why_not()}") from None
        return seen[0]

    def _pods(self) -> list[dict[str, Any]]:
        found = self.cluster.get("pods", self.namespace)["items"]
        return [each for each in found if each["metadata"]["name"].startswith(f"{self.daemonset}-")]

    def _why_not(self) -> str:
        where = f"--namespace={self.namespace}"
        told = []
        for words in (
            ("describe", "pods", where),
            ("logs", f"daemonset/{self.daemonset}", where, "--tail=30"),
        ):
            try:
                told.append(self.cluster.kubectl(*words))
            except CommandFailed as error:
                told.append(str(error))
        return "\n".join(told)


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class Release:
    """The chart, installed by helm."""

    def __init__(self, cluster: Cluster, folder: Path, namespace: str = NAMESPACE) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._file = folder / f"values-{namespace}.yaml"

    def agent(self, name: str) -> Deployed:
        return Deployed(self.cluster, name, self.namespace)

    def put(self, values: Values, *options: str) -> str:
        """Installed or upgraded to these values, which are all that it has. Raises CommandFailed."""
        self._file.write_text(yaml.safe_dump({"image": {"registry": REGISTRY}, **values}))
        return self.helm("upgrade", "--install", RELEASE, str(CHART), f"--values={self._file}", *options)

    def helm(self, *words: str) -> str:
        return self.cluster.helm(*words, f"--namespace={self.namespace}", seconds=PATIENCE_SECONDS)

    def remove(self) -> None:
        self.helm("uninstall", RELEASE, "--wait", "--ignore-not-found")


def objects_of_ours(cluster: Cluster) -> set[tuple[str, str]]:
    """Every object that is named or labelled as ours, or lies in our namespace; kind and name."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "--output=name").split()
    asked = ",".join(kind for kind in kinds if kind not in _PASSING.split(","))
    listed = json.loads(cluster.kubectl("get", asked, "--all-namespaces", "--output=json"))["items"]
    found = set()
    for each in listed:
        about = each["metadata"]
        names = (about["name"], *(about.get("labels") or {}).values())
        if about.get("namespace") == NAMESPACE or any(RELEASE in name for name in names):
            found.add((each["kind"], about["name"]))
    return found - _OF_EVERY_NAMESPACE
