"""A cluster in the event loop of a test: the simulated Kubernetes API with objects of the test, and hooks for
the responses of agents behind the pod proxy, for the output of commands in pods, and for rejected requests.
"""

import gzip
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from aiohttp import web
from tests.fleet.api_server.served import Handler, Served, served

from accelscope.fleet.clusters import AddressAccess, AgentsEntry
from accelscope.fleet.rows import ClusterSource, NodeUpdate, SourceOutcome
from accelscope.simulate.fleet.api_server import Watchers, send_watch, serve_command
from accelscope.simulate.kubernetes.api_server import NODES, PODS, Api, ObjectHistory, Watch
from accelscope.simulate.vendor import CommandOutput

AgentAnswer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
CommandAnswer = Callable[[str, list[str]], tuple[str, int]]  # of pod and command: output and exit code

AGENT_LABELS = {"app.kubernetes.io/name": "accelscope", "app.kubernetes.io/component": "agent"}

_PROXY = re.compile(r"/api/v1/namespaces/([^/]+)/pods/(?:https:)?([^/:]+):(\d+)/proxy/snapshot")
_EXEC = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/exec")


def node(name: str, *, gpus: int = 0, **metadata: Any) -> dict[str, Any]:
    allocatable = {"cpu": "8"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {}, **metadata},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def agent_pod(name: str, node_name: str, *, ready: bool = True, port: int = 9400) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": AgentsEntry().namespace, "uid": name, "labels": AGENT_LABELS},
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "agent", "ports": [{"name": "metrics", "containerPort": port}]}],
        },
        "status": {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def driver_pod(name: str, node_name: str, *, ready: bool = True) -> dict[str, Any]:
    container = "nvidia-driver-ctr"
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "gpu-operator",
            "uid": name,
            "labels": {"app": "nvidia-driver-daemonset"},
        },
        "spec": {"nodeName": node_name, "containers": [{"name": container}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": container, "ready": ready, "state": {"running": {}}}],
        },
    }


class Objects(dict[str, dict[str, Any]]):
    """The objects of one collection by name, which are written to the simulated API."""

    def __init__(self, history: ObjectHistory, collection: str) -> None:
        self._history = history
        self._collection = collection

    def __setitem__(self, name: str, document: dict[str, Any]) -> None:
        super().__setitem__(name, document)
        self._history.put(self._collection, name, document)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._history.remove(self._collection, name)


class StubCluster:
    def __init__(self) -> None:
        self._api = Api(ObjectHistory())
        self._watchers = Watchers()
        self._stops = 0
        self.nodes = Objects(self._api.history, NODES)
        self.pods = Objects(self._api.history, PODS)
        self.agents: dict[str, AgentAnswer] = {}  # by pod
        self.command: CommandAnswer = lambda pod, command: ("", 1)
        self.refusal: Callable[[web.BaseRequest], web.Response | None] = lambda request: None
        self.answer: Handler = self.honest
        self.requests: list[web.BaseRequest] = []
        self.at_once = 0
        self.most_at_once = 0

    def add_agent(self, name: str, node_name: str, answer: AgentAnswer, **pod: Any) -> None:
        self.pods[name] = agent_pod(name, node_name, **pod)
        self.agents[name] = answer

    def put(self, kind: str, document: dict[str, Any], event: str = "MODIFIED") -> None:
        """Changes a document of `kind` nodes or pods, and notifies watches."""
        objects, name = self.nodes if kind == "nodes" else self.pods, document["metadata"]["name"]
        if event == "DELETED":
            del objects[name]
        else:
            objects[name] = document
        self._watchers.wake()

    def end_watches(self) -> None:
        """Ends the open watches; new ones may begin."""
        self._stops += 1
        self._watchers.wake()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Served]:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await self.answer(request)  # looked up for each request: a test may replace it

        async with served(handle) as server:
            yield server

    async def honest(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        if (refused := self.refusal(request)) is not None:
            return refused
        if match := _PROXY.fullmatch(request.path):
            return await self._agent(request, match[2])
        if match := _EXEC.fullmatch(request.path):
            text, code = self.command(match[2], request.query.getall("command"))
            return await serve_command(request, CommandOutput(stdout=text, exit_code=code))
        answer = self._api.answer(request.path, request.query, monotonic())
        if isinstance(answer, Watch):
            stops = self._stops
            return await send_watch(request, answer, self._watchers, stopped=lambda: self._stops != stops)
        return web.Response(
            status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type}
        )

    async def _agent(self, request: web.BaseRequest, pod: str) -> web.StreamResponse:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self.agents[pod](request)
        finally:
            self.at_once -= 1


def answering(
    document: object, *, tag: str | None = None, age: float | None = None, compressed: bool = True
) -> AgentAnswer:
    """An agent whose document does not change."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    headers = {} if tag is None else {"ETag": tag}
    if age is not None:
        headers["X-AccelScope-Age"] = str(age)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if tag is not None and request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        if compressed:
            return web.Response(body=gzip.compress(body, 1), headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=body, headers=headers)

    return answer


async def one_round(source: ClusterSource) -> tuple[SourceOutcome, dict[str, NodeUpdate]]:
    """The outcome of a refresh, and the last update of each node."""
    updates: dict[str, NodeUpdate] = {}
    outcome = await source.refresh(lambda update: updates.update({update.node: update}))
    return outcome, updates


def access_to(server: Served) -> AddressAccess:
    return AddressAccess(url=server.url)
