"""List and watch in a task, against a simulated API server and against servers that misbehave."""

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.fleet.api_server.served import session_at
from tests.fleet.loop import run
from tests.kube.kube_server import (
    Asked,
    KubeServer,
    Peer,
    Step,
    bookmark,
    event,
    listed,
    pod,
    raw,
    refuse,
    watched,
)
from tests.waiting import PATIENCE_SECONDS

from accelscope.fleet.api_server import Session
from accelscope.fleet.api_server.objects import NodeObject, decode_node
from accelscope.fleet.api_server.session import Informer
from accelscope.fleet.clusters import AddressAccess
from accelscope.kube.endpoint import DecodeError, Reason
from accelscope.kube.listwatch import Collection, all_nodes, pods_in
from accelscope.simulate import SimulatedNode, load_node
from accelscope.simulate.kubernetes.cluster import SimulatedCluster


def name_of(document: object) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        raise DecodeError("no name")
    return name


async def until(condition: Callable[[], bool], what: str = "it came to that") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS / 2
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        await asyncio.sleep(0.01)


async def soon(_: float) -> None:
    """A backoff that takes no time but lets others run."""
    await asyncio.sleep(0.01)


@asynccontextmanager
async def following(
    *steps: Step,
    collection: Collection | None = None,
    decode: Callable[[object], str] = name_of,
    timeout_seconds: float = PATIENCE_SECONDS,
    **options: object,
) -> AsyncIterator[tuple[KubeServer, Informer[str]]]:
    server = KubeServer(*steps)
    try:
        async with session_at(server.url, timeout_seconds=timeout_seconds) as session:
            informer = Informer(
                session,
                collection or pods_in("team"),
                decode=decode,
                key=lambda name: name,
                sleep=soon,
                **options,  # type: ignore[arg-type]
            )
            try:
                yield server, informer
            finally:
                await informer.close()
    finally:
        await asyncio.to_thread(server.close)


def names(informer: Informer[str]) -> list[str]:
    return sorted(informer.items)


async def test_events_are_applied_to_the_list() -> None:
    events = watched(
        event("ADDED", pod("c", "11")),
        event("DELETED", pod("a", "12")),
        bookmark("20"),
        then="end",
    )
    collection = pods_in("team", "app=x,y in (z)")
    async with following(listed("10", pod("a"), pod("b")), events, collection=collection) as (
        server,
        informer,
    ):
        await informer.synced.wait()
        await until(lambda: names(informer) == ["b", "c"])
        await until(lambda: len(server.asked) == 3)
        first, second, third = server.asked
        assert first.path == "/api/v1/namespaces/team/pods"
        assert first.query == {"labelSelector": "app=x,y in (z)", "resourceVersion": "0"}
        assert second.query["resourceVersion"] == "10"
        assert second.query["allowWatchBookmarks"] == "true"
        assert second.headers["accept-encoding"] == "identity"
        assert third.query["resourceVersion"] == "20", "goes on from the bookmark, without a list"
        assert informer.error is None
        assert informer.synced.is_set()


async def test_a_list_in_pages_is_joined() -> None:
    def part(peer: object, asked: object) -> None:
        document = {"metadata": {"resourceVersion": "5", "continue": "t/1"}, "items": [pod("a")]}
        peer.document(200, document)  # type: ignore[attr-defined]

    async with following(part, listed("5", pod("b"))) as (server, informer):
        await informer.synced.wait()
        assert names(informer) == ["a", "b"]
        assert server.asked[1].query == {"continue": "t/1"}


@pytest.mark.parametrize(
    "gone",
    [
        refuse(410, "too old"),
        watched(event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})),
    ],
    ids=["answer", "event"],
)
async def test_an_expired_resource_version_causes_a_new_list(gone: Step) -> None:
    async with following(listed("1", pod("a")), gone, listed("9", pod("b"))) as (_, informer):
        await until(lambda: names(informer) == ["b"])
        assert informer.error is None
        assert informer.errors == {"gone": 1}


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (refuse(403, "not yours"), Reason.FORBIDDEN),
        (refuse(500, "broken"), Reason.SERVER_ERROR),
        (raw(b"nonsense\r\n\r\n"), Reason.BAD_ANSWER),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"), Reason.UNREACHABLE),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), Reason.BAD_ANSWER),
        (raw(b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"items":[]}'), Reason.BAD_ANSWER),
        (lambda peer, _: peer.hang(), Reason.TIMEOUT),
        (listed("1", *(pod(f"p{n}") for n in range(50))), Reason.TOO_LARGE),
        (listed("1", *({} for _ in range(50))), Reason.TOO_LARGE),  # none of them can be decoded
    ],
)
async def test_the_error_explains_why_there_is_no_list(step: Step, reason: Reason) -> None:
    seconds = 1.0 if reason is Reason.TIMEOUT else PATIENCE_SECONDS
    async with following(step, step, step, most_items=20, timeout_seconds=seconds) as (_, informer):
        await until(lambda: informer.error is not None)
        assert informer.error is not None
        assert informer.error.reason is reason
        assert not informer.synced.is_set()
        assert informer.items == {}


async def test_a_short_disconnect_is_no_error_and_a_long_one_keeps_the_items() -> None:
    cut = watched(then="cut")
    async with following(listed("1", pod("a")), cut, watched(event("ADDED", pod("b", "2")), then="cut")) as (
        server,
        informer,
    ):
        await until(lambda: names(informer) == ["a", "b"])
        assert informer.error is None
        server.then(*[refuse(503, "away")] * 3, listed("5", pod("c")))
        await until(lambda: informer.error is not None)
        assert names(informer) == ["a", "b"]
        await until(lambda: names(informer) == ["c"])
        assert informer.error is None


async def test_a_watch_with_too_many_items_is_rejected() -> None:
    flood = watched(*(event("ADDED", pod(f"p{n}", str(n + 2))) for n in range(50)))
    async with following(listed("1"), flood, refuse(503), refuse(503), most_items=20) as (_, informer):
        await until(lambda: informer.errors.get("too_large") == 1)


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"type":"ADDED"}', b"\xff\xfe", b"[" * 100_000, b'"\\ud800"']
)
async def test_an_invalid_event_ends_the_watch(line: bytes) -> None:
    def bad(peer: Peer, _: Asked) -> None:
        peer.begin_chunked()
        peer.chunk(line + b"\n")
        peer.hang()

    async with following(listed("1", pod("a")), bad) as (server, informer):
        await until(lambda: informer.errors.get("bad_answer") == 1)
        await until(lambda: len(server.asked) == 3)
        assert names(informer) == ["a"]


async def test_the_first_available_api_version_is_used() -> None:
    versions = Collection(("/apis/x/v1/things", "/apis/x/v1beta1/things"))
    steps = (refuse(404, "no such version"), listed("1", pod("a")))
    async with following(*steps, collection=versions) as (server, informer):
        await informer.synced.wait()
        await until(lambda: len(server.asked) == 3)
        paths = [asked.path for asked in server.asked]
        assert paths == [versions.paths[0], versions.paths[1], versions.paths[1]]


async def test_a_server_that_closes_every_watch_becomes_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "accelscope.kube.listwatch._SHORT_WATCH_SECONDS", PATIENCE_SECONDS
    )  # also on a busy machine
    steps = (listed("1", pod("a")), *[watched(then="end")] * 3)
    async with following(*steps) as (_, informer):
        await until(lambda: informer.errors.get("unreachable") == 3)
        assert names(informer) == ["a"]


async def test_a_token_file_that_is_created_later_is_used(tmp_path: Path) -> None:
    server = KubeServer(listed("1", pod("a")))
    try:
        access = AddressAccess(url=server.url, token_file=str(tmp_path / "token"))
        async with session_at(access) as session:
            informer = session.informer(pods_in("team"), decode=name_of, key=lambda name: name)
            await until(lambda: informer.error is not None)
            (tmp_path / "token").write_text("here")
            await informer.synced.wait()
            await informer.close()
    finally:
        await asyncio.to_thread(server.close)


async def test_an_invalid_object_does_not_affect_others() -> None:
    async with following(listed("1", {"metadata": {}}, pod("a"))) as (_, informer):
        await informer.synced.wait()
        assert names(informer) == ["a"]
        assert informer.errors == {"bad_object": 1}


async def test_a_rejection_ends_with_a_new_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server = KubeServer(refuse(401, "Unauthorized"), listed("1", pod("a")))
    try:
        async with session_at(AddressAccess(url=server.url, token_file=str(token))) as session:
            informer = session.informer(pods_in("team"), decode=name_of, key=lambda name: name)
            await until(lambda: informer.error is not None)
            assert informer.error is not None
            assert informer.error.reason is Reason.UNAUTHORIZED
            token.write_text("new")
            await informer.synced.wait()
            assert server.asked[1].headers["authorization"] == "Bearer new"
            assert informer.error is None
            await informer.close()
    finally:
        await asyncio.to_thread(server.close)


LABELS = {f"example.com/label-{n}": f"value-{n}" for n in range(40)}


@pytest.mark.parametrize(
    ("items", "whole"),
    [
        ([{"metadata": {"name": f"node-{n}", "labels": LABELS}} for n in range(5_000)], 5_000),
        ([0] * 40_000, 0),
    ],
    ids=["long", "mean"],
)
def test_the_event_loop_is_not_blocked_by_a_long_list(items: list[object], whole: int) -> None:
    """A ticking clock measures how long other tasks wait."""
    content = json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
    waits: list[float] = []

    async def clock() -> None:
        while True:
            began = time.thread_time()  # CPU of this thread: what others on the machine do is not counted
            await asyncio.sleep(0)
            waits.append(time.thread_time() - began)

    async def go() -> None:
        server = KubeServer(lambda peer, _: peer.answer(200, content))
        try:
            async with session_at(server.url) as session:
                ticking = asyncio.create_task(clock())
                informer: Informer[NodeObject] = session.informer(
                    all_nodes(), decode=decode_node, key=lambda node: node.name
                )
                await informer.synced.wait()
                ticking.cancel()
                assert len(informer.items) == whole
                await informer.close()
        finally:
            await asyncio.to_thread(server.close)

    longest: list[float] = []
    while len(longest) < 3 and min(longest, default=1.0) >= 0.05:  # the CPU itself is slow at times
        waits.clear()
        gc.freeze()  # so that objects of other tests are not visited
        try:
            run(go())
        finally:
            gc.unfreeze()
        assert len(waits) > 100
        longest.append(max(waits))
    assert min(longest) < 0.05, longest


def test_an_unexpected_error_is_logged_and_items_are_not_current(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: object) -> str:
        raise TypeError("a fault")

    async def go() -> None:
        server = KubeServer(listed("1", pod("a")))
        try:
            async with session_at(server.url) as session:
                informer = session.informer(pods_in("team"), decode=broken, key=lambda name: name)
                await until(lambda: informer.error is not None)
                assert "TypeError" in str(informer.error)
                assert "a fault" not in str(informer.error), "a message may contain a secret"
                await informer.close()  # must not raise, because that would replace a cancellation
        finally:
            await asyncio.to_thread(server.close)

    run(go())
    assert any(record.exc_info for record in caplog.records)


async def test_an_error_during_the_backoff_does_not_end_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(_: Session) -> None:
        raise RuntimeError("no credentials")

    monkeypatch.setattr(Session, "credentials", broken)
    async with following(refuse(401, "Unauthorized"), listed("1", pod("a")), watched()) as (_, informer):
        await until(lambda: names(informer) == ["a"], "it goes on")


def test_an_informer_restarts_after_an_unexpected_error(caplog: pytest.LogCaptureFixture) -> None:
    faults = [TypeError("one"), TypeError("two"), ValueError("three")]

    def faulty(document: object) -> str:
        if faults:
            raise faults.pop(0)
        return name_of(document)

    async def go() -> None:
        lists = [listed("1", pod("a"))] * 4
        async with following(*lists, watched(), decode=faulty) as (_, informer):
            await until(lambda: set(informer.items) == {"a"}, "it goes on")
            assert informer.errors["internal"] == 3
            await until(lambda: informer.error is None, "items are current")

    run(go())
    logged = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert logged == [TypeError, ValueError]


def test_an_informer_follows_a_simulated_cluster_through_faults(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-shared"), tmp_path / "node")

    async def go(cluster: SimulatedCluster) -> None:
        settings = cluster.agent_settings()
        access = AddressAccess(url=settings["kube_api_url"], token_file=settings["kube_token_file"])
        async with session_at(access) as session:
            nodes = Informer(
                session, all_nodes(), decode=decode_node, key=lambda found: found.name, sleep=soon
            )
            await nodes.synced.wait()
            (name,) = nodes.items
            assert nodes.items[name].ready
            assert nodes.items[name].accelerators
            for number, befall in enumerate(
                (cluster.disconnect, cluster.expire_versions, cluster.rotate_token)
            ):
                await asyncio.to_thread(befall)
                await asyncio.to_thread(cluster.disconnect)
                await asyncio.to_thread(cluster.label_node, {"example.com/turn": str(number)})
                await until(lambda turn=str(number): nodes.items[name].labels.get("example.com/turn") == turn)  # type: ignore[misc]
            assert nodes.error is None
            await nodes.close()

    with SimulatedCluster(node, tmp_path / "kubernetes") as cluster:
        run(go(cluster))
