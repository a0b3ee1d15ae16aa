"""The API server of one simulated cluster: list and watch, the proxy to its agents, exec in driver pods."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from accelscope.simulate.fleet.agent_proxy import (
    FOREVER,
    GARBAGE,
    JSON,
    AgentProxy,
    Metrics,
    Unreachable,
    encoded,
)
from accelscope.simulate.fleet.cluster import NODES, PODS, FleetCluster
from accelscope.simulate.fleet.driver_pod import answer, serve_command
from accelscope.simulate.fleet.faults import FleetFault
from accelscope.simulate.fleet.objects import AGENT_NAMESPACE, AGENT_PORT, DRIVER_CONTAINER, DRIVER_NAMESPACE
from accelscope.simulate.fleet.selectors import BadSelector, Matches, selected_by
from accelscope.simulate.kubernetes.history import Change, Expired

_PROXY = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?:https?:)?(?P<pod>[^/:]+)(?::(?P<port>\w+))?/proxy(?P<path>/.*)?"
)
_EXEC = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<pod>[^/]+)/exec")
_LIST = re.compile(r"/api/v1/(?:namespaces/(?P<namespace>[^/]+)/)?(?P<kind>pods|nodes)(?:/(?P<name>[^/]+))?")
_VERSION = {"major": "1", "minor": "33", "gitVersion": "v1.33.4", "platform": "linux/amd64"}
_USUAL_WATCH_SECONDS = 1800.0
_BOOKMARK_SECONDS = 60.0
_FLOOD_CHUNK = b" " * 65_536
_FLOOD_BYTES = 1 << 40


class ClusterServer:
    """Handles requests of one cluster. `clock` tells the seconds since the fleet started."""

    def __init__(
        self, cluster: FleetCluster, clock: Callable[[], float], metrics: Metrics | None = None
    ) -> None:
        self._cluster = cluster
        self._agents = AgentProxy(metrics, cluster.agent_urls)
        self._clock = clock
        self._authorization = f"Bearer {cluster.token}"

    async def close(self) -> None:
        await self._agents.close()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        at = self._clock()
        if self._cluster.troubles:
            response = await self._troubled(request, at)
            if response is not None:
                return response
        if request.headers.get("Authorization") != self._authorization:
            return _failure(401, "Unauthorized", "Unauthorized")
        return await self._routed(request, request.path, at)

    async def _routed(self, request: web.BaseRequest, path: str, at: float) -> web.StreamResponse:
        if match := _PROXY.fullmatch(path):
            return await self._proxy(request, match, at)
        if match := _LIST.fullmatch(path):
            return await self._objects(request, match)
        if match := _EXEC.fullmatch(path):
            return await self._exec(request, match, at)
        if path == "/version":
            return web.json_response(_VERSION)
        if path in ("/livez", "/readyz", "/healthz"):
            return web.Response(text="ok")
        return web.Response(status=404, text="404 page not found\n")

    async def _troubled(self, request: web.BaseRequest, at: float) -> web.StreamResponse | None:
        cluster = self._cluster
        if cluster.trouble(FleetFault.API_DOWN, at) and request.transport is not None:
            request.transport.abort()
        if cluster.trouble(FleetFault.API_HANG, at):
            await asyncio.sleep(FOREVER)
        if slow := cluster.trouble(FleetFault.API_SLOW, at):
            await asyncio.sleep(slow.seconds or 0.0)
        if cluster.trouble(FleetFault.API_GARBAGE, at):
            return web.Response(body=GARBAGE, content_type=JSON)
        if cluster.trouble(FleetFault.API_FLOOD, at):
            return await _flood(request)
        if cluster.trouble(FleetFault.API_UNAUTHORIZED, at):
            return _failure(401, "Unauthorized", "Unauthorized")
        if cluster.trouble(FleetFault.API_FORBIDDEN, at):
            return _failure(403, "Forbidden", 'User "fleet" cannot do that: it is forbidden')
        return None

    async def _proxy(self, request: web.BaseRequest, match: re.Match[str], at: float) -> web.StreamResponse:
        pod, node = match["pod"], None
        if match["namespace"] == AGENT_NAMESPACE:
            node = self._cluster.agents.get(pod)
        if node is None:
            return _failure(404, "NotFound", f'pods "{pod}" not found')
        if match["port"] in (None, str(AGENT_PORT), "metrics"):
            with suppress(Unreachable):
                return await self._agents.answer(request, node, match["path"] or "/", at)
        text = "error trying to reach service: dial tcp: connect: connection refused"
        return _failure(503, "ServiceUnavailable", text)

    async def _exec(self, request: web.BaseRequest, match: re.Match[str], at: float) -> web.StreamResponse:
        node = None
        if match["namespace"] == DRIVER_NAMESPACE:
            node = self._cluster.drivers.get(match["pod"])
        if node is None:
            return _failure(404, "NotFound", f'pods "{match["pod"]}" not found')
        container = request.query.get("container", DRIVER_CONTAINER)
        if container != DRIVER_CONTAINER:
            return _failure(400, "BadRequest", f"container {container} is not valid for pod {match['pod']}")
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return _failure(400, "BadRequest", "Upgrade request required")
        return await serve_command(request, answer(node, request.query.getall("command", []), at))

    async def _objects(self, request: web.BaseRequest, match: re.Match[str]) -> web.StreamResponse:
        collection, query = (PODS if match["kind"] == "pods" else NODES), request.query
        if match["name"] is not None:
            return self._one(collection, unquote(match["name"]), match["namespace"])
        try:
            wanted = selected_by(query, match["namespace"])
        except BadSelector as error:
            return _failure(400, "BadRequest", str(error))
        if query.get("watch") in ("true", "1"):
            return await self._watch(request, collection, wanted)
        return self._list(request, collection, wanted)

    def _one(self, collection: str, name: str, namespace: str | None) -> web.Response:
        stored = self._cluster.history.get(collection, name)
        if stored is None or (namespace and stored.fields.get("metadata.namespace") != namespace):
            return _failure(404, "NotFound", f'{collection.rpartition("/")[2]} "{name}" not found')
        return web.Response(body=stored.text, content_type=JSON)

    def _list(self, request: web.BaseRequest, collection: str, wanted: Matches) -> web.Response:
        version, objects = self._cluster.history.listed(collection)
        chosen = [stored.text for stored in objects if wanted(stored.fields)]
        query, metadata = request.query, {"resourceVersion": str(version)}
        first, limit = _number(query.get("continue")), _number(query.get("limit"))
        if limit and first + limit < len(chosen):
            metadata["continue"] = str(first + limit)
        chosen = chosen[first : first + limit if limit else None]
        kind = "Pod" if collection == PODS else "Node"
        head = json.dumps({"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata}).encode()
        body = head[:-1] + b',"items":[' + b",".join(chosen) + b"]}"
        return encoded(request, body, {"Content-Type": JSON})

    async def _watch(self, request: web.BaseRequest, collection: str, wanted: Matches) -> web.StreamResponse:
        history, since = self._cluster.history, request.query.get("resourceVersion", "")
        first: list[Change] = []
        if since in ("", "0"):
            version, objects = history.listed(collection)
            first = [Change(version, collection, "ADDED", stored) for stored in objects]
        else:
            version = _number(since)
            try:
                history.check(version)
            except Expired:
                text = f"too old resource version: {version} ({history.version})"
                return _failure(410, "Expired", text)
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await _send(response, first, wanted)
        seconds = float(request.query.get("timeoutSeconds", _USUAL_WATCH_SECONDS))
        await self._follow(response, collection, wanted, version, seconds)
        await response.write_eof()
        return response

    async def _follow(
        self, response: web.StreamResponse, collection: str, wanted: Matches, version: int, seconds: float
    ) -> None:
        """Until the time is up, or until something is wrong with the API server."""
        history, end = self._cluster.history, time.monotonic() + seconds
        kind = "Pod" if collection == PODS else "Node"
        with self._cluster.watcher() as changed:
            while (left := end - time.monotonic()) > 0:
                changed.clear()
                changes = history.changes_after(collection, version)
                version = history.version
                await _send(response, changes, wanted)
                if any(trouble.active(self._clock()) for trouble in self._cluster.troubles):
                    return
                try:
                    async with asyncio.timeout(min(left, _BOOKMARK_SECONDS)):
                        await changed.wait()
                except TimeoutError:
                    await response.write(_bookmark(kind, version))


async def _send(response: web.StreamResponse, changes: list[Change], wanted: Matches) -> None:
    lines = [
        b'{"type":"' + change.kind.encode() + b'","object":' + change.object.text + b"}\n"
        for change in changes
        if wanted(change.object.fields)
    ]
    if lines:
        await response.write(b"".join(lines))


async def _flood(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": JSON})
    response.enable_chunked_encoding()
    await response.prepare(request)
    for _ in range(_FLOOD_BYTES // len(_FLOOD_CHUNK)):
        await response.write(_FLOOD_CHUNK)
    return response


def _bookmark(kind: str, version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    event: dict[str, Any] = {
        "type": "BOOKMARK",
        "object": {"kind": kind, "apiVersion": "v1", "metadata": metadata},
    }
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _failure(code: int, reason: str, text: str) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": text,
        "reason": reason,
        "code": code,
    }
    return web.json_response(status, status=code)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
