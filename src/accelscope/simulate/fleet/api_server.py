"""The clusters of a simulated fleet and their API servers."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp import web

from accelscope.model.update import CONTENT_TYPE as UPDATE_TYPE
from accelscope.model.update import STRUCTURE_HEADER
from accelscope.model.wire import read_snapshot
from accelscope.simulate import spec
from accelscope.simulate import spec as identity
from accelscope.simulate.fleet.description import ClusterSpec
from accelscope.simulate.fleet.faults import FleetFault, FleetFaultKind, active_fault
from accelscope.simulate.fleet.node import FleetNode, compressed
from accelscope.simulate.kubernetes.api_server import (
    JSON,
    NODES,
    PODS,
    Api,
    ApiAnswer,
    ObjectHistory,
    Watch,
    failure,
)
from accelscope.simulate.kubernetes.objects import node_document, node_labels
from accelscope.simulate.spec import NodeSpec
from accelscope.simulate.vendor import CommandOutput, DriverPod, simulated_vendor

# --- clusters -------------------------------------------------------------
# One cluster of a simulated fleet: its nodes, and their objects in its API server.


AGENT_NAMESPACE, AGENT_PORT = "accelscope-system", 9400
_AGENT_LABELS = {
    "app.kubernetes.io/name": "accelscope",
    "app.kubernetes.io/component": "agent",
    "app.kubernetes.io/instance": "accelscope",
}
_AGENT = "accelscope-agent"


def agent_pod_name(node: FleetNode) -> str:
    return f"{_AGENT}-{node.tag}"


def driver_pod_name(node: FleetNode, pod: DriverPod) -> str:
    return f"{pod.daemon_set}-{node.tag}"


class NodeObjects:
    """The Node object, agent pod and driver pods of one node. The Node is kept as text, because each
    annotation writes it again."""

    def __init__(self, node: FleetNode, *, epoch: float) -> None:
        simulated, self._node, self._epoch = node.variant.node, node, epoch
        labels = {**node_labels(simulated.spec), "kubernetes.io/hostname": node.name}
        document = node_document(simulated.spec, simulated.pods, labels, epoch=epoch)
        document["metadata"] |= {"name": node.name, "uid": spec.uuid(int(node.tag), "node")}
        capacity = {**document["status"]["capacity"], **simulated.capacity()}
        document["status"] |= {"capacity": capacity, "allocatable": capacity}
        document["status"]["addresses"][1]["address"] = node.name
        self._text = json.dumps(document)

    def node(self, annotations: Mapping[str, str]) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._text)
        document["metadata"]["annotations"] |= annotations
        return document

    def agent_pod(self) -> dict[str, Any]:
        container = {
            "name": "agent",
            "image": "registry.example.com/accelscope:1.0",
            "ports": [{"name": "metrics", "containerPort": AGENT_PORT, "protocol": "TCP"}],
        }
        name = agent_pod_name(self._node)
        return self._pod(name, AGENT_NAMESPACE, _AGENT_LABELS, _AGENT, container)

    def driver_pod(self, pod: DriverPod) -> dict[str, Any]:
        container = {"name": pod.container, "image": pod.image}
        name = driver_pod_name(self._node, pod)
        return self._pod(name, pod.namespace, pod.labels, pod.daemon_set, container)

    def _pod(
        self,
        name: str,
        namespace: str,
        labels: Mapping[str, str],
        owner: str,
        container: Mapping[str, Any],
    ) -> dict[str, Any]:
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._epoch - 86_400))
        tag = int(self._node.tag)
        address = f"10.{128 + tag // 62_500}.{tag // 250 % 250}.{tag % 250 + 1}"
        conditions = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "generateName": f"{owner}-",
                "namespace": namespace,
                "uid": spec.uuid(tag, namespace, name),
                "creationTimestamp": created,
                "labels": dict(labels),
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "DaemonSet",
                        "name": owner,
                        "uid": spec.uuid(0, namespace, owner),
                        "controller": True,
                    }
                ],
            },
            "spec": {"nodeName": self._node.name, "containers": [container], "hostPID": True},
            "status": {
                "phase": "Running",
                "podIP": address,
                "podIPs": [{"ip": address}],
                "conditions": [{"type": kind, "status": "True"} for kind in conditions],
                "containerStatuses": [
                    {
                        "name": container["name"],
                        "ready": True,
                        "started": True,
                        "restartCount": 0,
                        "state": {"running": {"startedAt": created}},
                    }
                ],
            },
        }


_ANNOTATION_SECONDS = 60.0  # between two writes


class FleetCluster:
    def __init__(self, spec: ClusterSpec, nodes: Iterable[FleetNode], *, epoch: float) -> None:
        self.spec = spec
        self.token = secrets.token_urlsafe(32)
        self.nodes = {node.name: node for node in nodes}
        self.agent_urls = {  # of real agents that replace the simulated ones, by node
            name: group.agent_url
            for group in spec.groups
            if group.agent_url is not None
            for name in group.names()
        }
        self.agents: dict[str, FleetNode] = {}  # by pod
        self.drivers: dict[str, tuple[FleetNode, str, DriverPod]] = {}  # by pod, with the vendor
        self.history = ObjectHistory()
        self.api = Api(self.history)
        self.api.expired_as_status = True
        self.faults: tuple[FleetFault, ...] = ()  # of the API server
        self._epoch = epoch
        self._objects: dict[str, NodeObjects] = {}
        self.watchers = Watchers()
        for node in self.nodes.values():
            self._create(node, 0.0)

    def active_fault(self, kind: FleetFaultKind, at: float) -> FleetFault | None:
        return active_fault(self.faults, kind, at)

    def step(self, at: float, since: float) -> None:
        """Updates the objects to the time `at`, in seconds since the fleet started. The last step was at
        `since`."""
        before = self.history.version
        for node in self.nodes.values():
            gone = node.active_fault(FleetFaultKind.NODE_GONE, at) is not None
            forbidden = node.active_fault(FleetFaultKind.SINK_DOWN, at) is not None
            if gone and node.name in self._objects:
                self._delete(node)
            elif not gone and node.name not in self._objects:
                self._create(node, at)
            elif not gone and not forbidden and _is_due(node, at, since):
                self._update(node, at)
        if self.history.version != before:
            self.watchers.wake()

    def _create(self, node: FleetNode, at: float) -> None:
        objects = NodeObjects(node, epoch=self._epoch)
        self._objects[node.name] = objects
        self._update(node, at)
        if self.spec.agents:
            name = agent_pod_name(node)
            self.history.put(PODS, name, objects.agent_pod())
            self.agents[name] = node
        if self.spec.driver_pods:
            for vendor, pod in driver_pods(node.variant.spec):
                name = driver_pod_name(node, pod)
                self.history.put(PODS, name, objects.driver_pod(pod))
                self.drivers[name] = node, vendor, pod

    def _delete(self, node: FleetNode) -> None:
        del self._objects[node.name]
        self.history.remove(NODES, node.name)
        drivers = [driver_pod_name(node, pod) for _, pod in driver_pods(node.variant.spec)]
        for name in (agent_pod_name(node), *drivers):
            if self.agents.pop(name, None) is not None or self.drivers.pop(name, None) is not None:
                self.history.remove(PODS, name)

    def _update(self, node: FleetNode, at: float) -> None:
        self.history.put(NODES, node.name, self._objects[node.name].node(node.annotations(at)))


class Watchers:
    """Tasks that wait for changes of the objects."""

    def __init__(self) -> None:
        self._events: set[asyncio.Event] = set()

    @contextmanager
    def registered(self) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._events.add(event)
        try:
            yield event
        finally:
            self._events.discard(event)

    def wake(self) -> None:
        for event in self._events:
            event.set()


def _is_due(node: FleetNode, at: float, since: float) -> bool:
    """Whether the node's agent writes its annotation between `since` and `at`."""
    if not node.variant.recording.annotated:
        return False
    phase = identity.fraction(int(node.tag), "annotation") * _ANNOTATION_SECONDS
    return (at + phase) // _ANNOTATION_SECONDS > (since + phase) // _ANNOTATION_SECONDS


def driver_pods(spec: NodeSpec) -> Iterator[tuple[str, DriverPod]]:
    """The vendors of the node whose operator runs the driver in a pod, with that pod."""
    for vendor in spec.vendors:
        pod = simulated_vendor(vendor).driver_pod
        if pod is not None:
            yield vendor, pod


# --- API servers ----------------------------------------------------------
# List and watch, the proxy to the agents, exec in driver pods.


GARBAGE = b'\x00\xff<html>\r\n502 :-( {"kind": "NodeList", "items": [[[[' * 400
FOREVER = 86_400.0  # seconds, for requests that hang
_AGE_HEADER = "X-AccelScope-Age"
_TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_HEADERS = ("Accept", "Accept-Encoding", "If-None-Match", STRUCTURE_HEADER)
_RESPONSE_HEADERS = ("Content-Type", "Content-Encoding", "ETag", _AGE_HEADER, STRUCTURE_HEADER)
_TIMEOUT = aiohttp.ClientTimeout(total=30.0)  # of a real agent


class AgentUnreachable(Exception):
    pass


class AgentProxy:
    """The pod proxy of the API server. `urls` are of real agents, by node.

    It uses aiohttp itself and not the fleet's HTTP client, because the simulator does not import what it
    tests, and because a proxy passes compressed bodies and error statuses on unchanged.
    """

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = urls
        self._pages: dict[str, tuple[str, bytes]] = {}  # the last page of each node, with its ETag
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def answer(
        self, request: web.BaseRequest, node: FleetNode, path: str, at: float
    ) -> web.StreamResponse:
        """Raises AgentUnreachable."""
        if node.active_fault(FleetFaultKind.AGENT_DOWN, at):
            raise AgentUnreachable
        if path in ("/healthz", "/readyz"):
            return web.Response(text="ok")
        if path not in ("/snapshot", "/metrics"):
            return web.Response(status=HTTPStatus.NOT_FOUND, text="not found")
        if node.active_fault(FleetFaultKind.AGENT_HANG, at):
            await asyncio.sleep(FOREVER)
        if slow := node.active_fault(FleetFaultKind.AGENT_SLOW, at):
            await asyncio.sleep(slow.seconds or 0.0)
        if node.active_fault(FleetFaultKind.AGENT_GARBAGE, at):
            return web.Response(body=GARBAGE, content_type=JSON)
        if node.name in self._urls:
            return await self._forward(request, self._urls[node.name] + path)
        if node.has_own_agent:  # a reading blocks
            await asyncio.to_thread(node.document, at)
        if path == "/snapshot":
            return _snapshot(request, node, at)
        return encoded(request, self._page(node, at), {"Content-Type": _TEXT_TYPE})

    def _page(self, node: FleetNode, at: float) -> bytes:
        """The metrics of the snapshot, rendered by the agent's own code."""
        from accelscope.simulate.fleet.agent_session import metrics_page  # noqa: PLC0415 - imports the agent

        tag, page = self._pages.get(node.name, ("", b""))
        if tag != node.etag(at):
            page = metrics_page(read_snapshot(json.loads(node.readable(at))))
            self._pages[node.name] = node.etag(at), page
        return page

    async def _forward(self, request: web.BaseRequest, url: str) -> web.Response:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False, timeout=_TIMEOUT)
        headers = {name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers}
        headers.setdefault("Accept-Encoding", "identity")
        try:
            async with self._session.get(url, headers=headers) as answer:
                passed_on = {
                    name: answer.headers[name] for name in _RESPONSE_HEADERS if name in answer.headers
                }
                return web.Response(status=answer.status, body=await answer.read(), headers=passed_on)
        except (aiohttp.ClientError, TimeoutError):
            raise AgentUnreachable from None


def _snapshot(request: web.BaseRequest, node: FleetNode, at: float) -> web.Response:
    headers = {"ETag": node.etag(at), _AGE_HEADER: f"{node.age(at):.3f}"}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    wanted, update = request.headers.get(STRUCTURE_HEADER), node.update(at)
    if wanted is not None and update is not None:
        headers[STRUCTURE_HEADER], body = update
        if wanted == headers[STRUCTURE_HEADER]:
            return web.Response(body=body, headers={**headers, "Content-Type": UPDATE_TYPE})
    return encoded(request, node.document(at), {**headers, "Content-Type": JSON})


def encoded(request: web.BaseRequest, body: bytes, headers: Mapping[str, str]) -> web.Response:
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=compressed(body), headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=body, headers=headers)


PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STDERR, _STATUS = b"\x01", b"\x02", b"\x03"


async def serve_command(request: web.BaseRequest, output: CommandOutput) -> web.WebSocketResponse:
    """Sends the output of a command in a pod over WebSocket, in the newest protocol that the client
    supports."""
    socket = web.WebSocketResponse(protocols=PROTOCOLS)
    await socket.prepare(request)
    if output.stdout:
        await socket.send_bytes(_STDOUT + output.stdout.encode())
    if output.stderr:
        await socket.send_bytes(_STDERR + output.stderr.encode())
    await socket.send_bytes(_STATUS + _status(output.exit_code))
    await socket.close()
    return socket


def _status(exit_code: int) -> bytes:
    status: dict[str, object] = {"metadata": {}, "status": "Success"}
    if exit_code:
        status = {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }
    return json.dumps(status).encode()


_PROXY = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?:https?:)?(?P<pod>[^/:]+)(?::(?P<port>\w+))?/proxy(?P<path>/.*)?"
)
_EXEC = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<pod>[^/]+)/exec")
_FLOOD_CHUNK = b" " * 65_536
_FLOOD_BYTES = 1 << 40


class ClusterServer:
    """Handles requests to one cluster. `clock` returns the seconds since the fleet started."""

    def __init__(self, cluster: FleetCluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._agents = AgentProxy(cluster.agent_urls)
        self._clock = clock
        self._authorization = f"Bearer {cluster.token}"

    async def close(self) -> None:
        await self._agents.close()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        at = self._clock()
        if self._cluster.faults:
            response = await self._with_faults(request, at)
            if response is not None:
                return response
        if request.headers.get("Authorization") != self._authorization:
            return _failed(request, 401, "Unauthorized", "Unauthorized")
        return await self._routed(request, request.path, at)

    async def _routed(self, request: web.BaseRequest, path: str, at: float) -> web.StreamResponse:
        if match := _PROXY.fullmatch(path):
            return await self._proxy(request, match, at)
        if match := _EXEC.fullmatch(path):
            return await self._exec(request, match, at)
        answer = self._cluster.api.answer(path, request.query, time.monotonic())
        if isinstance(answer, Watch):
            return await send_watch(request, answer, self._cluster.watchers, stopped=self._has_fault)
        return _response(request, answer)

    def _has_fault(self) -> bool:
        return any(fault.active(self._clock()) for fault in self._cluster.faults)

    async def _with_faults(self, request: web.BaseRequest, at: float) -> web.StreamResponse | None:
        cluster = self._cluster
        if cluster.active_fault(FleetFaultKind.API_DOWN, at) and request.transport is not None:
            request.transport.abort()
        if cluster.active_fault(FleetFaultKind.API_HANG, at):
            await asyncio.sleep(FOREVER)
        if slow := cluster.active_fault(FleetFaultKind.API_SLOW, at):
            await asyncio.sleep(slow.seconds or 0.0)
        if cluster.active_fault(FleetFaultKind.API_GARBAGE, at):
            return web.Response(body=GARBAGE, content_type=JSON)
        if cluster.active_fault(FleetFaultKind.API_FLOOD, at):
            return await _flood(request)
        if cluster.active_fault(FleetFaultKind.API_UNAUTHORIZED, at):
            return _failed(request, 401, "Unauthorized", "Unauthorized")
        if cluster.active_fault(FleetFaultKind.API_FORBIDDEN, at):
            return _failed(request, 403, "Forbidden", 'User "fleet" cannot do that: it is forbidden')
        return None

    async def _proxy(self, request: web.BaseRequest, match: re.Match[str], at: float) -> web.StreamResponse:
        pod, node = match["pod"], None
        if match["namespace"] == AGENT_NAMESPACE:
            node = self._cluster.agents.get(pod)
        if node is None:
            return _failed(request, 404, "NotFound", f'pods "{pod}" not found')
        if match["port"] in (None, str(AGENT_PORT), "metrics"):
            with suppress(AgentUnreachable):
                return await self._agents.answer(request, node, match["path"] or "/", at)
        text = "error trying to reach service: dial tcp: connect: connection refused"
        return _failed(request, 503, "ServiceUnavailable", text)

    async def _exec(self, request: web.BaseRequest, match: re.Match[str], at: float) -> web.StreamResponse:
        found = self._cluster.drivers.get(match["pod"])
        if found is None or found[2].namespace != match["namespace"]:
            return _failed(request, 404, "NotFound", f'pods "{match["pod"]}" not found')
        node, vendor, pod = found
        container = request.query.get("container", pod.container)
        if container != pod.container:
            return _failed(
                request, 400, "BadRequest", f"container {container} is not valid for pod {match['pod']}"
            )
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return _failed(request, 400, "BadRequest", "Upgrade request required")
        if node.has_own_agent:  # a reading blocks
            await asyncio.to_thread(node.document, at)
        simulated, then = node.simulated(at)
        readings = simulated.readings_at(vendor, then)
        output = pod.run(simulated.spec.vendors[vendor], readings, request.query.getall("command", []))
        ids = node.variant.recording.identities
        return await serve_command(request, replace(output, stdout=ids.of_node(output.stdout, node.tag)))


async def send_watch(
    request: web.BaseRequest, watch: Watch, watchers: Watchers, *, stopped: Callable[[], bool]
) -> web.StreamResponse:
    """Sends events until the watch ends, or until `stopped` when the watchers are woken."""
    response = web.StreamResponse(headers={"Content-Type": JSON})
    response.enable_chunked_encoding()
    await response.prepare(request)
    with watchers.registered() as changed:
        while not watch.ended:
            changed.clear()
            if text := watch.new_events(time.monotonic()):
                await response.write(text)
            if stopped():
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(watch.wait(time.monotonic())):
                    await changed.wait()
    await response.write_eof()
    return response


async def _flood(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": JSON})
    response.enable_chunked_encoding()
    await response.prepare(request)
    for _ in range(_FLOOD_BYTES // len(_FLOOD_CHUNK)):
        await response.write(_FLOOD_CHUNK)
    return response


def _failed(request: web.BaseRequest, code: int, reason: str, text: str) -> web.Response:
    return _response(request, failure(code, reason, text))


def _response(request: web.BaseRequest, answer: ApiAnswer) -> web.Response:
    response = encoded(request, answer.body, {"Content-Type": answer.content_type})
    response.set_status(answer.status)
    return response
