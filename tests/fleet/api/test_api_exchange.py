"""Behaviour common to all routes: caching, compression, methods, limits and rejected requests."""

import asyncio
import gzip
import json
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web
from tests.fleet.api.serving import nvidia, report, serving, snapshot
from tests.fleet.loop import run
from tests.waiting import PATIENCE_SECONDS

from accelscope.fleet.api import request_handler
from accelscope.fleet.api.problem import DEFAULT_LIMITS, ApiLimits
from accelscope.fleet.api.request_handler import PreparedResponse, send
from accelscope.rate_limit import Rate


async def test_an_etag_is_valid_until_the_data_changes() -> None:
    async with serving() as client:
        _, headers, _ = await client.ask("/api/v1/devices?vendor=nvidia")
        shown = {"If-None-Match": headers["ETag"]}
        status, again, content = await client.ask("/api/v1/devices?vendor=nvidia", headers=shown)
        assert (status, content, again["ETag"]) == (304, b"", headers["ETag"])
        weak_among_others = {"If-None-Match": f'"other", {headers["ETag"]}'}
        assert (await client.ask("/api/v1/devices?vendor=nvidia", headers=weak_among_others))[0] == 304
        assert (await client.ask("/api/v1/devices?vendor=amd", headers=shown))[0] == 200
        client.store.take("berlin", report(snapshot("gamma", (nvidia(9),))))
        assert (await client.ask("/api/v1/devices?vendor=nvidia", headers=shown))[0] == 200


def test_an_etag_of_another_process_is_not_valid() -> None:
    async def etag() -> str:
        async with serving() as client:
            return (await client.ask("/api/v1/nodes"))[1]["ETag"]

    assert run(etag()) != run(etag())


@pytest.mark.parametrize(
    ("accept", "compressed"),
    [("gzip", True), ("br, gzip;q=0.5", True), ("*", True), ("gzip;q=0", False), ("identity", False)],
)
async def test_large_responses_are_compressed_if_the_client_accepts_gzip(
    accept: str, compressed: bool
) -> None:
    async with serving() as client, aiohttp.ClientSession(auto_decompress=False) as session:
        for path in ("/api/v1/devices", "/api/v1/gpu/nodes"):
            headers = {"Accept-Encoding": accept}
            async with session.get(client.base + path, headers=headers) as answer:
                content = await answer.read()
                assert (answer.headers.get("Content-Encoding") == "gzip") is compressed
                assert "Accept-Encoding" in answer.headers["Vary"]
                assert json.loads(gzip.decompress(content) if compressed else content)


async def test_unsupported_methods_are_rejected_with_allow() -> None:
    async with serving() as client:
        status, headers, content = await client.ask("/api/v1/devices", "HEAD")
        assert (status, content) == (200, b"")
        assert int(headers["Content-Length"]) > 0
        status, headers, _ = await client.ask("/api/v1/devices", "OPTIONS")
        assert (status, headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
        assert not [name for name in headers if name.lower().startswith("access-control")]
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            status, headers, content = await client.ask("/api/v1/devices", method)
            assert (status, headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
            assert json.loads(content)["status"] == 405
        status, headers, _ = await client.ask("/api/v1/clusters/berlin/refresh")
        assert (status, headers["Allow"]) == (405, "OPTIONS, POST")


@pytest.mark.parametrize("path", ["/api/v1/devices", "/docs", "/nothing", "/api/v1/devices?limit=0"])
async def test_responses_have_security_headers(path: str) -> None:
    async with serving() as client:
        _, headers, _ = await client.ask(path, headers={"Origin": "https://elsewhere.example"})
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers


async def test_a_request_body_is_rejected() -> None:
    async with serving() as client:
        status, _, _ = await client.ask("/api/v1/clusters/berlin/refresh", "POST", data=b"x" * 100_000)
        assert status == 413
        assert client.refreshed == []


async def test_requests_of_one_caller_are_rate_limited() -> None:
    limits = replace(DEFAULT_LIMITS, requests=Rate(per_second=0.1, burst=3))
    async with serving(limits=limits) as client:
        answers = [await client.ask("/api/v1/version") for _ in range(4)]
        assert [status for status, _, _ in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[-1][1]["Retry-After"]) <= 10


async def test_too_many_concurrent_requests_get_retry_after() -> None:
    limits = replace(DEFAULT_LIMITS, concurrent_requests=0)
    async with serving(limits=limits) as client:
        status, headers, _ = await client.ask("/api/v1/version")
        assert (status, headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize(
    "limits",
    [replace(DEFAULT_LIMITS, concurrent_requests=0), replace(DEFAULT_LIMITS, unsent_bytes=0)],
    ids=["requests", "answers"],
)
async def test_a_busy_server_responds_to_probes(limits: ApiLimits) -> None:
    """A probe that fails restarts the server."""
    async with serving(limits=limits) as client:
        assert (await client.ask("/api/v1/version"))[0] == 503
        assert await client.get("/healthz") == {"status": "ok"}
        assert await client.get("/readyz") == {"status": "ready"}


async def test_unsent_responses_are_limited() -> None:
    limits = replace(DEFAULT_LIMITS, unsent_bytes=100)
    async with serving(limits=limits) as client:
        assert (await client.ask("/api/v1/devices"))[0] == 503
        assert (await client.ask("/healthz"))[0] == 200


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(DEFAULT_LIMITS, send_seconds=0.2)
    dropped = asyncio.Event()

    async def given_up(request: web.Request, ready: PreparedResponse) -> web.StreamResponse:
        try:
            return await send(request, ready)
        except asyncio.CancelledError:
            dropped.set()
            raise

    monkeypatch.setattr(request_handler, "send", given_up)
    async with serving(limits=limits) as client:
        for number in range(300):
            devices = tuple(nvidia(1000 + 20 * number + place) for place in range(20))
            client.store.take("berlin", report(snapshot(f"node-{number}", devices)))
        host, port = client.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        # Several requests, because the kernel buffers some MiB.
        writer.write(b"GET /api/v1/gpu/nodes HTTP/1.1\r\nHost: x\r\n\r\n" * 8)
        await reader.readexactly(100)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await dropped.wait()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(18_000_000)
        writer.close()


def test_a_client_that_disconnects_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """Browsers do this with every request that is no longer needed."""

    async def body() -> None:
        async with serving() as client:
            for number in range(300):
                devices = tuple(nvidia(1000 + 20 * number + place) for place in range(20))
                client.store.take("berlin", report(snapshot(f"node-{number}", devices)))
            host, port = client.base.removeprefix("http://").split(":")
            for taken in (0, 100):
                _, writer = await asyncio.open_connection(host, int(port), limit=1024)
                writer.write(b"GET /api/v1/gpu/nodes HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
                await asyncio.sleep(taken / 1000)
                writer.transport.abort()
            await asyncio.sleep(0.5)
            await client.get("/api/v1/version")

    run(body())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Large: " + b"x" * 40_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    ],
)
async def test_invalid_http_returns_a_problem(request_bytes: bytes) -> None:
    async with serving() as client:
        host, port = client.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request_bytes)
        answer = await reader.read()
        writer.close()
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
        assert b"application/problem+json" in answer
        await client.get("/api/v1/version")


async def test_connections_are_limited() -> None:
    limits = replace(DEFAULT_LIMITS, connections=2)
    async with serving(limits=limits) as client:
        host, port = client.base.removeprefix("http://").split(":")
        connections = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        assert await asyncio.wait_for(connections[2][0].read(), 5) == b""
        connections[0][1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await asyncio.wait_for(connections[0][0].readline(), 5)
        for _, writer in connections:
            writer.close()


async def test_an_idle_connection_is_closed() -> None:
    limits = replace(DEFAULT_LIMITS, idle_seconds=0.2)
    async with serving(limits=limits) as client:
        host, port = client.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /healthz HTTP/1.1\r\nHo")
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


async def test_probes_and_api_documents_work_without_data() -> None:
    async with serving(unready="no cluster has been tried yet") as client:
        assert await client.get("/healthz") == {"status": "ok"}
        problem = await client.get("/readyz", 503)
        assert problem["detail"] == "no cluster has been tried yet"
        assert (await client.get("/openapi.json"))["openapi"] == "3.1.0"
        status, headers, page = await client.ask("/docs")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"/api/v1/gpu/nodes" in page
        assert b"<script" not in page
    async with serving() as client:
        assert await client.get("/readyz") == {"status": "ready"}
        assert (await client.ask("/metrics"))[2] == b"accelscope_fleet_up 1\n"


@pytest.mark.parametrize("bound", ["age_seconds_min=100", "age_seconds_max=100"])
@pytest.mark.parametrize(
    "path", ["/api/v1/devices", "/api/v1/devices/columns", "/api/v1/summary", "/api/v1/idle"]
)
async def test_a_filter_by_age_has_no_etag(path: str, bound: str) -> None:
    async with serving() as client:
        _, headers, _ = await client.ask(f"{path}?{bound}")
        assert "ETag" not in headers
        assert headers["Cache-Control"] == "no-store"
