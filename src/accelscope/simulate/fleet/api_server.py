"""The API server of one simulated cluster: list and watch, the proxy to its agents, exec in driver pods."""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from aiohttp import web

from accelscope.simulate.fleet.agent_proxy import (
    FOREVER,
    GARBAGE,
    AgentProxy,
    Unreachable,
    encoded,
)
from accelscope.simulate.fleet.cluster import FleetCluster
from accelscope.simulate.fleet.exec_protocol import serve_command
from accelscope.simulate.fleet.faults import FleetFault
from accelscope.simulate.fleet.objects import AGENT_NAMESPACE, AGENT_PORT
from accelscope.simulate.kubernetes.api import JSON, Answer, Watch, failure

_PROXY = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?:https?:)?(?P<pod>[^/:]+)(?::(?P<port>\w+))?/proxy(?P<path>/.*)?"
)
_EXEC = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<pod>[^/]+)/exec")
_FLOOD_CHUNK = b" " * 65_536
_FLOOD_BYTES = 1 << 40


class ClusterServer:
    """Handles requests of one cluster. `clock` tells the seconds since the fleet started."""

    def __init__(self, cluster: FleetCluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._agents = AgentProxy(cluster.agent_urls)
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
            return _failed(request, 401, "Unauthorized", "Unauthorized")
        return await self._routed(request, request.path, at)

    async def _routed(self, request: web.BaseRequest, path: str, at: float) -> web.StreamResponse:
        if match := _PROXY.fullmatch(path):
            return await self._proxy(request, match, at)
        if match := _EXEC.fullmatch(path):
            return await self._exec(request, match, at)
        answer = self._cluster.api.answer(path, request.query, time.monotonic())
        if isinstance(answer, Watch):
            return await self._follow(request, answer)
        return _response(request, answer)

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
            return _failed(request, 401, "Unauthorized", "Unauthorized")
        if cluster.trouble(FleetFault.API_FORBIDDEN, at):
            return _failed(request, 403, "Forbidden", 'User "fleet" cannot do that: it is forbidden')
        return None

    async def _proxy(self, request: web.BaseRequest, match: re.Match[str], at: float) -> web.StreamResponse:
        pod, node = match["pod"], None
        if match["namespace"] == AGENT_NAMESPACE:
            node = self._cluster.agents.get(pod)
        if node is None:
            return _failed(request, 404, "NotFound", f'pods "{pod}" not found')
        if match["port"] in (None, str(AGENT_PORT), "metrics"):
            with suppress(Unreachable):
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
        if node.has_own_agent:  # whose reading takes its time
            await asyncio.to_thread(node.document, at)
        simulated, then = node.simulated(at)
        readings = simulated.readings_at(vendor, then)
        output = pod.run(simulated.spec.vendors[vendor], readings, request.query.getall("command", []))
        ids = node.variant.recording.identities
        return await serve_command(request, replace(output, stdout=ids.of_node(output.stdout, node.tag)))

    async def _follow(self, request: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        """Until the watch ends, or until something is wrong with the API server."""
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.enable_chunked_encoding()
        await response.prepare(request)
        with self._cluster.watcher() as changed:
            while not watch.ended:
                changed.clear()
                if text := watch.news(time.monotonic()):
                    await response.write(text)
                if any(trouble.active(self._clock()) for trouble in self._cluster.troubles):
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


def _response(request: web.BaseRequest, answer: Answer) -> web.Response:
    response = encoded(request, answer.body, {"Content-Type": answer.content_type})
    response.set_status(answer.status)
    return response
