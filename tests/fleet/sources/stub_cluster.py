"""A small cluster in the loop of a test: nodes and pods with their watches, agents behind the pod proxy, and
commands in pods. What each answers is the test's."""

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from tests.fleet.api_server.served import Handler, Served, served, status

from accelscope.fleet.clusters import AddressAccess, AgentsEntry
from accelscope.fleet.rows import Saying, Source, SourceOutcome

AgentAnswer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
CommandAnswer = Callable[[str, list[str]], tuple[str, int]]  # pod, command: what it prints, its exit code

AGENT_LABELS = {"app.kubernetes.io/name": "accelscope", "app.kubernetes.io/component": "agent"}

_PROXY = re.compile(r"/api/v1/namespaces/([^/]+)/pods/(?:https:)?([^/:]+):(\d+)/proxy/snapshot")
_EXEC = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/exec")
_PODS = re.compile(r"/api/v1/namespaces/([^/]+)/pods")


def node(name: str, *, gpus: int = 0, **metadata: Any) -> dict[str, Any]:
    allocatable = {"cpu": "8"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {
        "metadata": {"name": name, "uid": name, **metadata},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def agent_pod(name: str, node_name: str, *, ready: bool = True, port: int = 9400) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": AgentsEntry().namespace, "uid": name, "labels": AGENT_LABELS},
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "agent", "ports": [{"name": "metrics", "containerPort": port}]}],
        },
        "status": {
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def driver_pod(name: str, node_name: str, *, ready: bool = True) -> dict[str, Any]:
    container = "nvidia-driver-ctr"
    return {
        "metadata": {
            "name": name,
            "namespace": "gpu-operator",
            "uid": name,
            "labels": {"app": "nvidia-driver-daemonset"},
        },
        "spec": {"nodeName": node_name, "containers": [{"name": container}]},
        "status": {
            "containerStatuses": [{"name": container, "ready": ready, "state": {"running": {}}}],
        },
    }


class StubCluster:
    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}  # by name: all namespaces share them here
        self.agents: dict[str, AgentAnswer] = {}  # by pod
        self.command: CommandAnswer = lambda pod, command: ("", 1)
        self.refusal: Callable[[web.BaseRequest], web.Response | None] = lambda request: None
        self.answer: Handler = self.honest
        self.asked: list[web.BaseRequest] = []
        self.at_once = 0
        self.most_at_once = 0
        self._version = 100
        self._watchers: list[tuple[str, asyncio.Queue[dict[str, Any] | None]]] = []

    def add_agent(self, name: str, node_name: str, answer: AgentAnswer, **pod: Any) -> None:
        self.pods[name] = agent_pod(name, node_name, **pod)
        self.agents[name] = answer

    def put(self, kind: str, thing: dict[str, Any], event: str = "MODIFIED") -> None:
        """`kind`: nodes or pods. Whoever watches is told."""
        things = self.nodes if kind == "nodes" else self.pods
        self._version += 1
        thing["metadata"]["resourceVersion"] = str(self._version)
        name = thing["metadata"]["name"]
        if event == "DELETED":
            del things[name]
        else:
            things[name] = thing
        for watched, queue in self._watchers:
            if watched == kind:
                queue.put_nowait({"type": event, "object": thing})

    def end_watches(self) -> None:
        """Those that are open; others may begin."""
        for _, queue in self._watchers:
            queue.put_nowait(None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Served]:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await self.answer(request)  # of the moment: a test may change it

        async with served(handle) as server:
            yield server

    async def honest(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        if (refused := self.refusal(request)) is not None:
            return refused
        path = request.path
        if path == "/version":
            return web.json_response({"gitVersion": "v1.33.0"})
        if path == "/api/v1/nodes":
            return await self._objects(request, "nodes", list(self.nodes.values()))
        if match := _PODS.fullmatch(path):
            there = [pod for pod in self.pods.values() if pod["metadata"]["namespace"] == match[1]]
            return await self._objects(request, "pods", there)
        if match := _PROXY.fullmatch(path):
            return await self._agent(request, match[2])
        if match := _EXEC.fullmatch(path):
            return await self._exec(request, match[2])
        return status(404, "not found")

    async def _agent(self, request: web.BaseRequest, pod: str) -> web.StreamResponse:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self.agents[pod](request)
        finally:
            self.at_once -= 1

    async def _objects(
        self, request: web.BaseRequest, kind: str, things: list[dict[str, Any]]
    ) -> web.StreamResponse:
        if request.query.get("watch") != "true":
            return web.json_response(
                {"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": things}
            )
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._watchers.append((kind, queue))
        try:
            while (event := await queue.get()) is not None:
                await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self._watchers.remove((kind, queue))
        return response

    async def _exec(self, request: web.BaseRequest, pod: str) -> web.StreamResponse:
        text, code = self.command(pod, request.query.getall("command"))
        connection = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await connection.prepare(request)
        if text:
            await connection.send_bytes(b"\x01" + text.encode())
        ended: dict[str, Any] = {"kind": "Status", "status": "Success"}
        if code:
            causes = [{"reason": "ExitCode", "message": str(code)}]
            ended = {
                "status": "Failure",
                "reason": "NonZeroExitCode",
                "message": "command terminated",
                "details": {"causes": causes},
            }
        await connection.send_bytes(b"\x03" + json.dumps(ended).encode())
        await connection.close()
        return connection


def answering(
    document: object, *, tag: str | None = None, age: float | None = None, compressed: bool = True
) -> AgentAnswer:
    """An agent whose reading stays the same."""
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


async def one_round(source: Source) -> tuple[SourceOutcome, dict[str, Saying]]:
    """How it went, and the last that was said of each node."""
    said: dict[str, Saying] = {}
    outcome = await source.refresh(lambda saying: said.update({saying.node: saying}))
    return outcome, said


def access_to(server: Served) -> AddressAccess:
    return AddressAccess(url=server.url)
