"""What the pod proxy of a simulated API server brings back from agents."""

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus

import aiohttp
from aiohttp import web

from accelscope.model.wire import read_snapshot
from accelscope.simulate.fleet.faults import FleetFault
from accelscope.simulate.fleet.fleet_node import FleetNode, compressed
from accelscope.simulate.kubernetes.api import JSON

GARBAGE = b'\x00\xff<html>\r\n502 :-( {"kind": "NodeList", "items": [[[[' * 400
FOREVER = 86_400.0  # for what hangs: longer than anybody waits
_AGE_HEADER = "X-AccelScope-Age"
_TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ASKED = ("Accept", "Accept-Encoding", "If-None-Match")
_TOLD = ("Content-Type", "Content-Encoding", "ETag", _AGE_HEADER)
_SECONDS = aiohttp.ClientTimeout(total=30.0)  # that a real agent may take


class Unreachable(Exception):
    """Nobody answers where the agent should be."""


class AgentProxy:
    """`urls` are of real agents, by node."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = urls
        self._pages: dict[str, tuple[str, bytes]] = {}  # the last one of each node, with its tag
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def answer(
        self, request: web.BaseRequest, node: FleetNode, path: str, at: float
    ) -> web.StreamResponse:
        """Raises Unreachable."""
        if node.trouble(FleetFault.AGENT_DOWN, at):
            raise Unreachable
        if path in ("/healthz", "/readyz"):
            return web.Response(text="ok")
        if path not in ("/snapshot", "/metrics"):
            return web.Response(status=HTTPStatus.NOT_FOUND, text="not found")
        if node.trouble(FleetFault.AGENT_HANG, at):
            await asyncio.sleep(FOREVER)
        if slow := node.trouble(FleetFault.AGENT_SLOW, at):
            await asyncio.sleep(slow.seconds or 0.0)
        if node.trouble(FleetFault.AGENT_GARBAGE, at):
            return web.Response(body=GARBAGE, content_type=JSON)
        if node.name in self._urls:
            return await self._forward(request, self._urls[node.name] + path)
        if node.has_own_agent:  # whose reading takes its time
            await asyncio.to_thread(node.document, at)
        if path == "/snapshot":
            return _snapshot(request, node, at)
        return encoded(request, self._page(node, at), {"Content-Type": _TEXT_TYPE})

    def _page(self, node: FleetNode, at: float) -> bytes:
        """Made by the agent's own code of what `/snapshot` says."""
        from accelscope.simulate.fleet.agent_session import metrics_page  # noqa: PLC0415 - imports the agent

        tag, page = self._pages.get(node.name, ("", b""))
        if tag != node.etag(at):
            page = metrics_page(read_snapshot(json.loads(node.readable(at))))
            self._pages[node.name] = node.etag(at), page
        return page

    async def _forward(self, request: web.BaseRequest, url: str) -> web.Response:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False, timeout=_SECONDS)
        asked = {name: request.headers[name] for name in _ASKED if name in request.headers}
        asked.setdefault("Accept-Encoding", "identity")
        try:
            async with self._session.get(url, headers=asked) as answer:
                told = {name: answer.headers[name] for name in _TOLD if name in answer.headers}
                return web.Response(status=answer.status, body=await answer.read(), headers=told)
        except (aiohttp.ClientError, TimeoutError):
            raise Unreachable from None


def _snapshot(request: web.BaseRequest, node: FleetNode, at: float) -> web.Response:
    headers = {"ETag": node.etag(at), _AGE_HEADER: f"{node.age(at):.3f}"}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    return encoded(request, node.document(at), {**headers, "Content-Type": JSON})


def encoded(request: web.BaseRequest, body: bytes, headers: Mapping[str, str]) -> web.Response:
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=compressed(body), headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=body, headers=headers)
