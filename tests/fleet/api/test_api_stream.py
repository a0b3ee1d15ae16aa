"""The live stream."""

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.fleet.api.serving import Client, nvidia, report, serving, snapshot, tokens_file
from tests.waiting import PATIENCE_SECONDS

from accelscope.fleet.api import app
from accelscope.fleet.api.access import AccessControl, TokensFile
from accelscope.fleet.api.app import STREAMS
from accelscope.fleet.api.problem import DEFAULT_LIMITS
from accelscope.model import Health, HealthState


@dataclass
class Message:
    event: str
    id: str
    data: Any


def opened(client: Client, query: str = "") -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    return client.session.get(f"{client.base}/api/v1/stream{query}")


async def message(answer: aiohttp.ClientResponse) -> Message:
    """The next message that is not a comment."""
    found: dict[str, str] = {}
    while True:
        line = (await asyncio.wait_for(answer.content.readline(), 10)).decode()
        assert line, "the stream has ended"
        line = line.rstrip("\n")
        if not line and "event" in found:
            return Message(found["event"], found["id"], json.loads(found["data"]))
        name, _, value = line.partition(": ")
        if name and name != "retry":
            found[name] = value


def make_unhealthy(client: Client, reason: str = "on fire", cluster: str = "berlin") -> None:
    """Makes a device unhealthy, and lets the second pass after which changes are sent."""
    device = nvidia(0, health=Health(HealthState.CRITICAL, reason))
    client.store.take(cluster, report(snapshot("alpha", (device, nvidia(1)))))
    tick(client)


def make_healthy(client: Client, cluster: str = "berlin") -> None:
    client.store.take(cluster, report(snapshot("alpha", (nvidia(0), nvidia(1)))))
    tick(client)


_seconds = [0.0]


def tick(client: Client) -> None:
    _seconds[0] += 2
    client.store.tick(time.time() + _seconds[0])


async def test_a_stream_begins_with_hello_and_sends_changes() -> None:
    async with serving() as client, opened(client) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        hello = await message(answer)
        assert hello.event == "hello"
        assert hello.data["summary"]["devices"] == 6
        make_unhealthy(client)
        event = await message(answer)
        assert (event.event, event.data["device"]) == ("event", "nvidia:GPU-0")
        change = await message(answer)
        assert change.event == "change"
        assert change.data["nodes"] == [["berlin", "alpha"]]
        assert change.data["summary"]["devices_unhealthy"] == 2
        assert change.data["generation"] > hello.data["generation"]


async def test_a_reconnecting_client_gets_missed_events() -> None:
    async with serving() as client:
        url = f"{client.base}/api/v1/stream"
        async with client.session.get(url) as answer:
            last = (await message(answer)).id
        make_unhealthy(client)
        async with client.session.get(url, headers={"Last-Event-ID": last}) as answer:
            missed = await message(answer)
            assert (missed.event, missed.data["device"]) == ("event", "nvidia:GPU-0")
            assert (await message(answer)).event == "hello"
        async with client.session.get(url, headers={"Last-Event-ID": missed.id}) as answer:
            assert (await message(answer)).event == "hello"
        for unknown in ("ffffffff-1", last.split("-")[0] + "-99999999", "rubbish", "-", "1-\u00b2"):
            async with client.session.get(url, headers={"Last-Event-ID": unknown}) as answer:
                assert (await message(answer)).event == "resync"
                assert (await message(answer)).event == "hello"


async def test_a_stream_of_one_cluster_has_no_changes_of_others() -> None:
    async with serving() as client, opened(client, "?cluster=paris") as answer:
        assert (await message(answer)).data["summary"]["devices"] == 1
        make_unhealthy(client)
        make_unhealthy(client, cluster="paris")
        assert (await message(answer)).data["nodes"] == [["paris", "alpha"]]


async def test_a_limited_token_gets_changes_of_its_clusters_only(tmp_path: Path) -> None:
    access = AccessControl(tokens=TokensFile(str(tokens_file(tmp_path))))
    async with serving(access=access, token="parisian") as client, opened(client) as answer:
        assert (await message(answer)).data["summary"]["devices"] == 1
        make_unhealthy(client)
        make_unhealthy(client, cluster="paris")
        assert (await message(answer)).data["nodes"] == [["paris", "alpha"]]


async def test_an_idle_stream_sends_heartbeats_and_ends_with_the_token(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, heartbeat_seconds=0.2)
    path = tokens_file(tmp_path)
    access = AccessControl(tokens=TokensFile(str(path)))
    async with (
        serving(access=access, token="reader", limits=limits) as client,
        opened(client) as answer,
    ):
        assert (await message(answer)).event == "hello"
        assert await asyncio.wait_for(answer.content.readline(), 5) == b": heartbeat\n"
        path.write_text("tokens: []\n")
        rest = await asyncio.wait_for(answer.content.read(), 10)
        assert set(rest.split(b"\n")) <= {b"", b": heartbeat"}


async def test_a_stream_without_visible_changes_sends_heartbeats() -> None:
    limits = replace(DEFAULT_LIMITS, heartbeat_seconds=0.3)
    async with serving(limits=limits) as client, opened(client, "?cluster=paris") as answer:
        assert (await message(answer)).event == "hello"
        line = asyncio.ensure_future(answer.content.readline())
        async with asyncio.timeout(10):
            while not line.done():
                make_healthy(client)  # in another cluster, and more often than heartbeats are due
                await asyncio.sleep(0.02)
        assert line.result() == b": heartbeat\n"


async def test_the_id_of_a_change_does_not_cover_later_events() -> None:
    async with serving() as client, opened(client) as answer:
        assert (await message(answer)).event == "hello"
        make_healthy(client)
        make_unhealthy(client)  # before the reader takes the first
        change, event = await message(answer), await message(answer)
        assert (change.event, event.event) == ("change", "event")
        headers = {"Last-Event-ID": change.id}
        async with client.session.get(f"{client.base}/api/v1/stream", headers=headers) as again:
            assert (await message(again)).data == event.data


async def test_streams_are_limited() -> None:
    limits = replace(DEFAULT_LIMITS, streams=2, streams_of_caller=1)
    async with serving(limits=limits) as client, opened(client) as first:
        await message(first)
        status, headers, _ = await client.ask("/api/v1/stream")
        assert status == 429
        assert "Retry-After" in headers
    limits_of_all = replace(limits, streams=1, streams_of_caller=5)
    async with serving(limits=limits_of_all) as client, opened(client) as first:
        await message(first)
        assert (await client.ask("/api/v1/stream"))[0] == 503


async def test_a_closed_stream_makes_room_for_another() -> None:
    limits = replace(DEFAULT_LIMITS, streams=1)
    async with serving(limits=limits) as client:
        answer = await client.session.get(f"{client.base}/api/v1/stream")
        await message(answer)
        answer.close()
        while len(client.app[STREAMS]):
            make_unhealthy(client)
            make_healthy(client)
            await asyncio.sleep(0.02)
        async with opened(client) as another:
            await message(another)


async def test_a_slow_client_gets_resync() -> None:
    async with serving() as client, opened(client) as answer:
        assert (await message(answer)).event == "hello"
        for _ in range(10):  # without yielding: more changes than a queue stores
            make_unhealthy(client)
            make_healthy(client)
        assert (await message(answer)).event == "resync"


async def test_streams_end_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_SHUTDOWN_SECONDS", 2 * PATIENCE_SECONDS)
    async with aiohttp.ClientSession() as session:
        async with serving() as client:
            answer = await session.get(f"{client.base}/api/v1/stream")
            await message(answer)
            began = time.monotonic()
        assert time.monotonic() - began < PATIENCE_SECONDS
        assert await answer.content.read() == b""
        answer.close()


async def test_clients_with_similar_cluster_names_get_their_own_messages() -> None:
    async with (
        serving() as client,
        opened(client, "?cluster=berlin,paris") as two,
        opened(client, "?cluster=berlin%5C,paris") as none,
    ):
        assert (await message(none)).data["summary"]["devices"] == 0
        await message(two)
        make_unhealthy(client)
        assert (await message(two)).event == "event"
        client.app[STREAMS].close()
        assert b"data:" not in await asyncio.wait_for(none.content.read(), 10)
