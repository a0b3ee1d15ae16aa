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
from accelscope.fleet.clusters.entry import AddressAccess
from accelscope.kube.errors import DecodeError, Reason
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
            followed = Informer(
                session,
                collection or pods_in("team"),
                decode=decode,
                key=lambda name: name,
                sleep=soon,
                **options,  # type: ignore[arg-type]
            )
            try:
                yield server, followed
            finally:
                await followed.close()
    finally:
        await asyncio.to_thread(server.close)


def names(followed: Informer[str]) -> list[str]:
    return sorted(followed.items)


def test_events_are_applied_to_the_list() -> None:
    events = watched(
        event("ADDED", pod("c", "11")),
        event("DELETED", pod("a", "12")),
        bookmark("20"),
        then="end",
    )

    async def go() -> None:
        collection = pods_in("team", "app=x,y in (z)")
        async with following(listed("10", pod("a"), pod("b")), events, collection=collection) as (
            server,
            followed,
        ):
            await followed.synced.wait()
            await until(lambda: names(followed) == ["b", "c"])
            await until(lambda: len(server.asked) == 3)
            first, second, third = server.asked
            assert first.path == "/api/v1/namespaces/team/pods"
            assert first.query == {"labelSelector": "app=x,y in (z)", "resourceVersion": "0"}
            assert second.query["resourceVersion"] == "10"
            assert second.query["allowWatchBookmarks"] == "true"
            assert second.headers["accept-encoding"] == "identity"
            assert third.query["resourceVersion"] == "20", "goes on from the bookmark, without a list"
            assert followed.error is None
            assert followed.synced.is_set()

    run(go())


def test_a_list_in_parts_is_put_together() -> None:
    def part(peer: object, asked: object) -> None:
        document = {"metadata": {"resourceVersion": "5", "continue": "t/1"}, "items": [pod("a")]}
        peer.document(200, document)  # type: ignore[attr-defined]

    async def go() -> None:
        async with following(part, listed("5", pod("b"))) as (server, followed):
            await followed.synced.wait()
            assert names(followed) == ["a", "b"]
            assert server.asked[1].query == {"continue": "t/1"}

    run(go())


@pytest.mark.parametrize(
    "gone",
    [
        refuse(410, "too old"),
        watched(event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})),
    ],
    ids=["answer", "event"],
)
def test_a_version_that_is_gone_means_a_new_list(gone: Step) -> None:
    async def go() -> None:
        async with following(listed("1", pod("a")), gone, listed("9", pod("b"))) as (_, followed):
            await until(lambda: names(followed) == ["b"])
            assert followed.error is None
            assert followed.errors == {"gone": 1}

    run(go())


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
def test_until_there_is_a_list_the_error_says_why(step: Step, reason: Reason) -> None:
    seconds = 1.0 if reason is Reason.TIMEOUT else PATIENCE_SECONDS

    async def go() -> None:
        async with following(step, step, step, most_items=20, timeout_seconds=seconds) as (_, followed):
            await until(lambda: followed.error is not None)
            assert followed.error is not None
            assert followed.error.reason is reason
            assert not followed.synced.is_set()
            assert followed.items == {}

    run(go())


def test_a_short_disconnect_is_no_error_and_a_long_one_keeps_what_was_known() -> None:
    async def go() -> None:
        cut = watched(then="cut")
        async with following(
            listed("1", pod("a")), cut, watched(event("ADDED", pod("b", "2")), then="cut")
        ) as (
            server,
            followed,
        ):
            await until(lambda: names(followed) == ["a", "b"])
            assert followed.error is None
            server.then(*[refuse(503, "away")] * 3, listed("5", pod("c")))
            await until(lambda: followed.error is not None)
            assert names(followed) == ["a", "b"]
            await until(lambda: names(followed) == ["c"])
            assert followed.error is None

    run(go())


def test_a_watch_that_adds_without_end_is_not_believed() -> None:
    async def go() -> None:
        flood = watched(*(event("ADDED", pod(f"p{n}", str(n + 2))) for n in range(50)))
        async with following(listed("1"), flood, refuse(503), refuse(503), most_items=20) as (_, followed):
            await until(lambda: followed.errors.get("too_large") == 1)

    run(go())


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"type":"ADDED"}', b"\xff\xfe", b"[" * 100_000, b'"\\ud800"']
)
def test_a_line_that_is_no_event_ends_the_watch(line: bytes) -> None:
    def bad(peer: Peer, _: Asked) -> None:
        peer.begin_chunked()
        peer.chunk(line + b"\n")
        peer.hang()

    async def go() -> None:
        async with following(listed("1", pod("a")), bad) as (server, followed):
            await until(lambda: followed.errors.get("bad_answer") == 1)
            await until(lambda: len(server.asked) == 3)
            assert names(followed) == ["a"]

    run(go())


def test_of_several_versions_the_first_that_there_is_counts() -> None:
    async def go() -> None:
        versions = Collection(("/apis/x/v1/things", "/apis/x/v1beta1/things"))
        steps = (refuse(404, "no such version"), listed("1", pod("a")))
        async with following(*steps, collection=versions) as (server, followed):
            await followed.synced.wait()
            await until(lambda: len(server.asked) == 3)
            paths = [asked.path for asked in server.asked]
            assert paths == [versions.paths[0], versions.paths[1], versions.paths[1]]

    run(go())


def test_a_server_that_ends_every_watch_at_once_is_an_error_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "accelscope.kube.listwatch._SHORT_WATCH_SECONDS", PATIENCE_SECONDS
    )  # also of a busy machine

    async def go() -> None:
        steps = (listed("1", pod("a")), *[watched(then="end")] * 3)
        async with following(*steps) as (_, followed):
            await until(lambda: followed.errors.get("unreachable") == 3)
            assert names(followed) == ["a"]

    run(go())


def test_a_token_file_that_comes_later_is_taken(tmp_path: Path) -> None:
    async def go() -> None:
        server = KubeServer(listed("1", pod("a")))
        try:
            access = AddressAccess(url=server.url, token_file=str(tmp_path / "token"))
            async with session_at(access) as session:
                followed = session.follow(pods_in("team"), decode=name_of, key=lambda name: name)
                await until(lambda: followed.error is not None)
                (tmp_path / "token").write_text("here")
                await followed.synced.wait()
                await followed.close()
        finally:
            await asyncio.to_thread(server.close)

    run(go())


def test_an_object_that_cannot_be_read_costs_itself_only() -> None:
    async def go() -> None:
        async with following(listed("1", {"metadata": {}}, pod("a"))) as (_, followed):
            await followed.synced.wait()
            assert names(followed) == ["a"]
            assert followed.errors == {"bad_object": 1}

    run(go())


def test_a_refusal_ends_when_there_is_another_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def go() -> None:
        server = KubeServer(refuse(401, "Unauthorized"), listed("1", pod("a")))
        try:
            async with session_at(AddressAccess(url=server.url, token_file=str(token))) as session:
                followed = session.follow(pods_in("team"), decode=name_of, key=lambda name: name)
                await until(lambda: followed.error is not None)
                assert followed.error is not None
                assert followed.error.reason is Reason.UNAUTHORIZED
                token.write_text("new")
                await followed.synced.wait()
                assert server.asked[1].headers["authorization"] == "Bearer new"
                assert followed.error is None
                await followed.close()
        finally:
            await asyncio.to_thread(server.close)

    run(go())


LABELS = {f"example.com/label-{n}": f"value-{n}" for n in range(40)}


@pytest.mark.parametrize(
    ("items", "whole"),
    [
        ([{"metadata": {"name": f"node-{n}", "labels": LABELS}} for n in range(5_000)], 5_000),
        ([0] * 40_000, 0),
    ],
    ids=["long", "mean"],
)
def test_the_loop_goes_on_while_a_list_of_many_is_read(items: list[object], whole: int) -> None:
    """How long anybody else waits is told by a clock that ticks."""
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
                followed: Informer[NodeObject] = session.follow(
                    all_nodes(), decode=decode_node, key=lambda node: node.name
                )
                await followed.synced.wait()
                ticking.cancel()
                assert len(followed.items) == whole
                await followed.close()
        finally:
            await asyncio.to_thread(server.close)

    longest: list[float] = []
    while len(longest) < 3 and min(longest, default=1.0) >= 0.05:  # the CPU itself is slow at times
        waits.clear()
        gc.freeze()  # what other tests left is not gone through while this one counts
        try:
            run(go())
        finally:
            gc.unfreeze()
        assert len(waits) > 100
        longest.append(max(waits))
    assert min(longest) < 0.05, longest


def test_a_fault_of_ours_is_logged_and_does_not_pass_for_current(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: object) -> str:
        raise TypeError("a fault")

    async def go() -> None:
        server = KubeServer(listed("1", pod("a")))
        try:
            async with session_at(server.url) as session:
                followed = session.follow(pods_in("team"), decode=broken, key=lambda name: name)
                await until(lambda: followed.error is not None)
                assert "TypeError" in str(followed.error)
                assert "a fault" not in str(followed.error), "a message may contain a secret"
                await followed.close()  # raises nothing: it would take the place of a cancellation
        finally:
            await asyncio.to_thread(server.close)

    run(go())
    assert any(record.exc_info for record in caplog.records)


def test_an_error_during_the_pause_after_a_refusal_does_not_end_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(_: Session) -> None:
        raise RuntimeError("no credentials")

    monkeypatch.setattr(Session, "credentials", broken)

    async def go() -> None:
        async with following(refuse(401, "Unauthorized"), listed("1", pod("a")), watched()) as (_, followed):
            await until(lambda: names(followed) == ["a"], "it goes on")

    run(go())


def test_after_a_fault_of_ours_it_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    faults = [TypeError("one"), TypeError("two"), ValueError("three")]

    def faulty(document: object) -> str:
        if faults:
            raise faults.pop(0)
        return name_of(document)

    async def go() -> None:
        lists = [listed("1", pod("a"))] * 4
        async with following(*lists, watched(), decode=faulty) as (_, followed):
            await until(lambda: set(followed.items) == {"a"}, "it goes on")
            assert followed.errors["internal"] == 3
            await until(lambda: followed.error is None, "what is held is current")

    run(go())
    logged = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert logged == [TypeError, ValueError]


def test_a_simulated_cluster_is_followed_through_what_befalls_it(tmp_path: Path) -> None:
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
            for number, befall in enumerate((cluster.disconnect, cluster.forget, cluster.rotate_token)):
                await asyncio.to_thread(befall)
                await asyncio.to_thread(cluster.disconnect)
                await asyncio.to_thread(cluster.label_node, {"example.com/turn": str(number)})
                await until(lambda turn=str(number): nodes.items[name].labels.get("example.com/turn") == turn)  # type: ignore[misc]
            assert nodes.error is None
            await nodes.close()

    with SimulatedCluster(node, tmp_path / "kubernetes") as cluster:
        run(go(cluster))
