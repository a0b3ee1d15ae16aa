"""A cluster of one simulated node, with the pods that the node currently runs.

with SimulatedCluster(node, "/tmp/node/kubernetes") as cluster:
    node.write(at=60.0)
    cluster.agent_settings()
"""

import math
import secrets
import socket
import ssl
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from accelscope.serve import Tls
from accelscope.simulate import spec as identity
from accelscope.simulate.kubernetes import kubelet, objects
from accelscope.simulate.kubernetes.api_server import (
    NODES,
    PODS,
    Api,
    ApiServer,
    Listener,
    ObjectHistory,
    bound_to_loopback,
)
from accelscope.simulate.kubernetes.kubelet import GrpcServer
from accelscope.simulate.node import SimulatedNode
from accelscope.simulate.pods import SimulatedContainer, SimulatedPod, derived_pod_name
from accelscope.simulate.spec import PodOwner, PodQos

_LONGEST_SOCKET_PATH = 107


class SimulatedCluster:
    """Serves while the context is entered. `folder` contains the token, and the kubelet's socket if its path
    is short enough.

    With `tls` the API server uses TLS, and its clients trust `ca_file`. Each pod is padded to about
    `pod_bytes`; `extra_pods` is the number of pods without devices."""

    def __init__(
        self,
        node: SimulatedNode,
        folder: Path | str,
        *,
        tls: Tls | None = None,
        ca_file: Path | str | None = None,
        pod_bytes: int = 0,
        extra_pods: int = 0,
        bookmark_seconds: float = 60.0,
    ) -> None:
        self._node = node
        self._folder = Path(folder).absolute()
        self._tls = tls
        self._ca_file = ca_file
        self._pod_bytes = pod_bytes
        self._pods = (*node.pods, *(_bystander(node.spec.seed, number) for number in range(extra_pods)))
        self._phases: dict[str, str] = {}  # by uid, of existing pods
        self._lock = threading.Lock()
        self._history = ObjectHistory()
        self._labels = objects.node_labels(node.spec)
        self._token_file = self._folder / "token"
        self._bookmark_seconds = bookmark_seconds
        self._stack = ExitStack()
        self._socket_path = self._folder / "kubelet.sock"
        self._kubelet: Listener | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder.mkdir(parents=True, exist_ok=True)
            self.rotate_token()
            self._place_socket(stack)
            self._show_node()
            self._refresh()
            stack.enter_context(self._node.notifying(self._refresh))
            api = Api(self._history, bookmark_seconds=self._bookmark_seconds)
            self._api = ApiServer(api, self._token_file, tls=_context(self._tls))
            listener = bound_to_loopback()
            self._port: int = listener.getsockname()[1]
            self._api_listener = Listener(listener, self._api.serve, "simulated API server")
            stack.callback(self._api_listener.close)
            self._api_listener.listen()
            stack.callback(self.kubelet_down)
            self.kubelet_up()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def agent_settings(self) -> dict[str, str]:
        """The agent's settings that point it at this cluster."""
        settings = {
            "node_name": self._node.spec.name,
            "pod_source": "api-server",
            "kube_api_url": f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}",
            "kube_token_file": str(self._token_file),
            "pod_resources_socket": str(self._socket_path),
        }
        if self._ca_file is not None:
            settings["kube_ca_file"] = str(self._ca_file)
        return settings

    def requests(self) -> tuple[str, ...]:
        """The paths of all requests to the API server, with their queries, in order."""
        return self._api.requests()

    def api_down(self) -> None:
        """Refuses connections, and ends the existing ones."""
        self._api_listener.silence()

    def api_up(self) -> None:
        self._api_listener.listen()

    def disconnect(self) -> None:
        """Ends all connections to the API server at once."""
        self._api_listener.drop_connections()

    def expire_versions(self, *, as_status: bool = False) -> None:
        """Expires all resource versions: a watch from one gets an event with 410, or 410 as the status of the
        response. Open watches continue."""
        self._api.api.expired_as_status = as_status
        self._history.expire_versions()

    def rotate_token(self) -> None:
        """Invalidates the old token."""
        scratch = self._token_file.with_suffix(".new")
        scratch.write_text(secrets.token_urlsafe(32))
        scratch.replace(self._token_file)

    def label_node(self, labels: Mapping[str, str | None]) -> None:
        """Sets labels of the Node; None removes one."""
        changed = {**self._labels, **labels}
        self._labels = {name: value for name, value in changed.items() if value is not None}
        self._show_node()

    def kubelet_down(self) -> None:
        """Removes the socket, as during a restart of the kubelet."""
        if self._kubelet is not None:
            self._kubelet.close()
            self._socket_path.unlink(missing_ok=True)
            self._kubelet = None

    def kubelet_up(self) -> None:
        if self._kubelet is None:
            self._socket_path.unlink(missing_ok=True)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.bind(str(self._socket_path))
            self._kubelet = Listener(sock, GrpcServer(self._pod_resources).serve, "simulated kubelet")
            self._kubelet.listen()

    def _place_socket(self, stack: ExitStack) -> None:
        if len(str(self._socket_path).encode()) > _LONGEST_SOCKET_PATH:
            short = stack.enter_context(tempfile.TemporaryDirectory(prefix="kubelet-"))
            self._socket_path = Path(short) / "kubelet.sock"

    def _pod_resources(self, method: str) -> bytes | None:
        if method != kubelet.LIST:
            return None
        with self._lock:
            return kubelet.list_response(pod for pod in self._pods if pod.uid in self._phases)

    def _show_node(self) -> None:
        spec = self._node.spec
        document = objects.node_document(spec, self._pods, self._labels, epoch=self._node.epoch)
        self._history.put(NODES, spec.name, document)

    def _refresh(self) -> None:
        """Updates the pods to what the node currently runs."""
        at = self._node.at
        with self._lock:
            for pod in self._pods:
                before = self._phases.get(pod.uid)
                if pod.runs_at(at):
                    if before is None and math.isfinite(pod.begin):
                        self._show(pod, "Pending")  # pods that start while the node runs
                    if before != "Running":
                        self._show(pod, "Running")
                elif pod.done_at(at):
                    if before == "Running":
                        self._show(pod, "Succeeded")
                elif before is not None:
                    del self._phases[pod.uid]
                    self._history.remove(PODS, pod.uid)

    def _show(self, pod: SimulatedPod, phase: str) -> None:
        spec = self._node.spec
        document = objects.pod_document(
            spec, pod, phase, epoch=self._node.epoch, wanted_bytes=self._pod_bytes
        )
        self._phases[pod.uid] = phase
        self._history.put(PODS, pod.uid, document)


def _context(tls: Tls | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    return context


def _bystander(seed: int, number: int) -> SimulatedPod:
    owner = PodOwner("Deployment", f"web-{number}")
    return SimulatedPod(
        namespace="web",
        name=derived_pod_name(seed, owner, ("bystander", number)),
        uid=identity.uuid(seed, "bystander", number),
        qos=PodQos.BURSTABLE,
        labels=(("app.kubernetes.io/name", f"web-{number}"),),
        owner=owner,
        containers=(
            SimulatedContainer(name="web", id=identity.hex_id(seed, "bystander", number), grants=()),
        ),
        begin=-math.inf,
        until=math.inf,
    )
