"""List and watch against a real server over TLS: bookmarks, 410 in both forms, disconnects, refusals."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Certificates, make_certificates
from tests.kube.kube_server import (
    Asked,
    KubeServer,
    Peer,
    bookmark,
    event,
    hang,
    listed,
    pod,
    raw,
    refuse,
    watched,
)
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.kube.client import Client
from accelscope.kube.endpoint import DecodeError, Endpoint
from accelscope.kube.informer import (
    LIST_SECONDS,
    BlockingInformer,
    poll_kubelet_pods,
    watch_node,
    watch_pods,
    watch_resource_slices,
)
from accelscope.kube.listwatch import ItemStore, ListWatch, pods_of
from accelscope.kube.objects import KubePod, decode_pod

Serve = Callable[..., KubeServer]
Follow = Callable[..., Any]

GONE = event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def serve_tls(serve: Serve, certificates: Certificates) -> Serve:
    pair = (str(certificates.server), str(certificates.server_key))
    return lambda *steps: serve(*steps, certificate=pair)


class Waits:
    """In the place of sleeping: remembers how long, and comes back at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def start() -> Iterator[Callable[[Any], Any]]:
    """Runs what follows something, in a thread that must end with the test."""
    running: list[tuple[Any, threading.Thread]] = []

    def begin(follower: Any) -> Any:
        thread = threading.Thread(target=follower.run, daemon=True)
        running.append((follower, thread))
        thread.start()
        return follower

    yield begin
    for follower, thread in running:
        follower.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "stop() must end every wait"
        assert (follower.state.up, follower.state.reason) == (False, "stopped")


@pytest.fixture
def follow(start: Callable[[Any], Any], certificates: Certificates, waits: Waits) -> Follow:
    def begin(
        server: KubeServer,
        token_file: Path | None = None,
        decode: Callable[[object], KubePod] = lambda document: decode_pod(document, frozenset()),
        wait: Callable[[float], object] = waits,
        **options: Any,
    ) -> BlockingInformer[KubePod]:
        endpoint = Endpoint(
            server.url, None if token_file is None else str(token_file), ca_file=str(certificates.ca)
        )
        machine = ListWatch(
            pods_of("node-1"),
            ItemStore(decode, key=lambda found: found.name, keep=lambda found: not found.ended),
            list_seconds=LIST_SECONDS,
            random=lambda: 0.5,
            clock=lambda: 1000.0,
            **options,
        )
        watch = BlockingInformer(Client(endpoint), machine, wait=wait)
        started: BlockingInformer[KubePod] = start(watch)
        return started

    return begin


@pytest.fixture
def short_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that a server ends at once is a short one, however long that takes on a busy machine."""
    monkeypatch.setattr("accelscope.kube.listwatch._SHORT_WATCH_SECONDS", PATIENCE_SECONDS)


def names(watch: BlockingInformer[KubePod]) -> str:
    return " ".join(sorted(watch.items))


def kinds(server: KubeServer) -> list[str]:
    """What was asked, shortly: L0 a list from the cache, L one from the store, W7 a watch from version 7."""
    return [
        f"W{asked.query['resourceVersion']}"
        if asked.watches
        else f"L{asked.query.get('resourceVersion', '')}"
        for asked in server.asked
    ]


def test_a_list_and_then_events(serve_tls: Serve, follow: Follow) -> None:
    server = serve_tls(
        listed("5", pod("a"), pod("b"), pod("done", status={"phase": "Succeeded"})),
        watched(
            event("ADDED", pod("c", "6")),
            event("MODIFIED", pod("a", "7", status={"phase": "Failed"})),
            event("DELETED", pod("b", "8")),
            bookmark("9"),
        ),
    )
    watch = follow(server)
    assert watch.synced.wait(PATIENCE_SECONDS)
    wait_until(lambda: names(watch) == "c")
    assert watch.version == 4
    state = watch.state
    assert (state.up, state.reason, state.error, state.last_success) == (True, None, None, 1000.0)
    assert state.errors == {}
    list_query, watch_query = (asked.query for asked in server.asked)
    assert list_query == {"fieldSelector": "spec.nodeName=node-1", "resourceVersion": "0"}
    assert watch_query == {
        "fieldSelector": "spec.nodeName=node-1",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "300",
    }


@pytest.mark.parametrize("then", ["cut", "cut in a line", "end"])
def test_after_a_disconnect_it_goes_on_where_it_was(
    serve_tls: Serve, follow: Follow, waits: Waits, short_watches: None, then: str
) -> None:
    server = serve_tls(
        listed("5", pod("a")),
        watched(event("ADDED", pod("b", "6")), bookmark("70"), then=then),
        watched(event("ADDED", pod("c", "71"))),
    )
    watch = follow(server)
    wait_until(lambda: names(watch) == "a b c")
    assert kinds(server) == ["L0", "W5", "W70"]
    assert watch.state.up
    assert waits.seconds == [1.5]


@pytest.mark.parametrize("gone", [refuse(410, "too old"), watched(GONE, then="end")])
def test_where_the_version_is_gone_it_lists_anew(
    serve_tls: Serve, follow: Follow, waits: Waits, gone: Any
) -> None:
    server = serve_tls(
        listed("5", pod("a"), pod("b")), gone, listed("90", pod("b"), pod("c")), watched(bookmark("95"))
    )
    watch = follow(server)
    wait_until(lambda: names(watch) == "b c")
    wait_until(lambda: kinds(server) == ["L0", "W5", "L0", "W90"])
    assert (watch.state.up, dict(watch.state.errors)) == (True, {"gone": 1})
    assert waits.seconds == []


def test_a_cache_that_is_behind_is_not_asked_again(serve_tls: Serve, follow: Follow, waits: Waits) -> None:
    server = serve_tls(
        listed("5"), refuse(410), listed("5"), refuse(410), listed("90", pod("a")), watched(bookmark("95"))
    )
    watch = follow(server)
    wait_until(lambda: names(watch) == "a")
    wait_until(lambda: len(server.asked) == 6)
    assert kinds(server) == ["L0", "W5", "L0", "W5", "L", "W90"]
    assert waits.seconds == [1.5], "a version that is gone twice in a row is worth a pause"


def test_while_it_is_down_the_last_known_stay(serve_tls: Serve, follow: Follow, waits: Waits) -> None:
    up_again = threading.Event()

    def later(peer: Peer, asked: Asked) -> None:
        assert up_again.wait(PATIENCE_SECONDS)
        watched(event("ADDED", pod("b", "6")))(peer, asked)

    server = serve_tls(
        listed("5", pod("a")),
        refuse(500, "first"),
        refuse(503, "second"),
        later,
    )
    watch = follow(server)
    wait_until(lambda: len(server.asked) == 4)
    state = watch.state
    assert (state.up, state.reason, names(watch)) == (False, "server_error", "a")
    assert "503 second" in (state.error or "")
    up_again.set()
    wait_until(lambda: names(watch) == "a b")
    assert (watch.state.up, watch.state.reason) == (True, None)
    assert "503 second" in (watch.state.error or ""), "the last error is kept"
    assert waits.seconds == [1.5, 3.0]


def test_an_error_during_a_pause_does_not_end_the_thread(serve_tls: Serve, follow: Follow) -> None:
    faults = [RuntimeError("once")]

    def wait(_: float) -> None:
        if faults:
            raise faults.pop()

    follower = follow(serve_tls(refuse(401, "Unauthorized"), listed("1", pod("a")), watched()), wait=wait)
    wait_until(lambda: set(follower.items) == {"a"})
    assert follower.state.errors["internal"] == 1


def test_the_pauses_grow_to_a_minute(serve_tls: Serve, follow: Follow, waits: Waits) -> None:
    server = serve_tls(*[refuse(500)] * 9, listed("5", pod("a")), watched(bookmark("6")))
    watch = follow(server)
    wait_until(watch.synced.is_set)
    assert waits.seconds == [1.5, 3.0, 6.0, 12.0, 24.0, 45.0, 45.0, 45.0, 45.0]
    wait_until(lambda: len(server.asked) == 11)
    assert dict(watch.state.errors) == {"server_error": 9}


def test_pauses_begin_anew_after_a_success(serve_tls: Serve, follow: Follow, waits: Waits) -> None:
    server = serve_tls(
        refuse(500), refuse(500), listed("5"), watched(bookmark("6"), then="cut"), watched(bookmark("7"))
    )
    follow(server)
    wait_until(lambda: len(server.asked) == 5)
    assert waits.seconds == [1.5, 3.0, 1.5]


def test_a_version_that_the_server_chokes_on_is_given_up(serve_tls: Serve, follow: Follow) -> None:
    server = serve_tls(listed("5"), *[refuse(504, "Too large resource version")] * 3, listed("3", pod("a")))
    watch = follow(server)
    wait_until(lambda: names(watch) == "a")
    assert kinds(server)[:5] == ["L0", "W5", "W5", "W5", "L0"]


def test_who_is_throttled_waits_as_long_as_he_is_told(serve_tls: Serve, follow: Follow, waits: Waits) -> None:
    server = serve_tls(
        refuse(429, "slow down", "Retry-After: 17"),
        refuse(429, "slow down", "Retry-After: 99999"),
        refuse(503, "starting", "Retry-After: 1"),
        listed("5"),
    )
    watch = follow(server)
    wait_until(watch.synced.is_set)
    assert waits.seconds == [17.0, 600.0, 6.0]
    assert dict(watch.state.errors) == {"throttled": 2, "server_error": 1}


@pytest.mark.parametrize(
    ("status", "reason", "pauses"),
    [
        (401, "unauthorized", [52.5] * 7),
        (403, "forbidden", [1.5, 3, 6, 12, 24, 45, 45]),
        (404, "not_found", [1.5, 3, 6, 12, 24, 45, 45]),
    ],
)
def test_who_is_refused_asks_more_and_more_seldom(
    serve_tls: Serve, follow: Follow, waits: Waits, status: int, reason: str, pauses: list[float]
) -> None:
    server = serve_tls(*[refuse(status, "pods is refused")] * 7, hang)
    watch = follow(server)
    wait_until(lambda: len(server.asked) == 8)
    assert sum(waits.seconds) == sum(pauses)
    assert (watch.state.up, watch.state.reason) == (False, reason)
    assert f"{status} pods is refused" in (watch.state.error or "")


def test_a_server_that_forbids_after_its_restart_is_asked_again_soon(
    serve_tls: Serve, follow: Follow, waits: Waits
) -> None:
    server = serve_tls(
        listed("5", pod("a")), *[refuse(503, "starting")] * 6, refuse(403, "roles are not read yet"), hang
    )
    watch = follow(server)
    wait_until(lambda: len(server.asked) == 9)
    assert sum(waits.seconds) == 1.5 + 3 + 6 + 12 + 24 + 45 + 1.5
    assert dict(watch.state.errors) == {"server_error": 6, "forbidden": 1}


def test_a_refusal_counts_at_once_though_a_list_was_allowed(serve_tls: Serve, follow: Follow) -> None:
    server = serve_tls(listed("5", pod("a")), refuse(403, "may not watch"))
    watch = follow(server)
    wait_until(lambda: watch.state.reason == "forbidden")
    assert (watch.state.up, names(watch)) == (False, "a")


def failing(*faults: Exception | None) -> Callable[[object], KubePod]:
    """Decodes pods, but for these faults; None: none of them this time."""
    left = list(faults)

    def decode(document: object) -> KubePod:
        if left and (fault := left.pop(0)) is not None:
            raise fault
        return decode_pod(document, frozenset())

    return decode


def test_after_a_fault_of_ours_it_lists_anew(
    serve_tls: Serve, follow: Follow, waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    faulty = failing(TypeError("one"), TypeError("two"), None, ValueError("three"))
    up_again = threading.Event()

    def later(peer: Peer, asked: Asked) -> None:
        assert up_again.wait(PATIENCE_SECONDS)
        listed("9", pod("a"), pod("b"))(peer, asked)

    server = serve_tls(
        *[listed("5", pod("a"))] * 3, watched(event("ADDED", pod("b", "6"))), later, watched(bookmark("10"))
    )
    watch = follow(server, decode=faulty)
    wait_until(lambda: watch.state.error == "ValueError: three")
    assert (watch.state.up, watch.state.reason, names(watch)) == (False, "internal", "a")
    up_again.set()
    wait_until(lambda: names(watch) == "a b")
    wait_until(lambda: len(server.asked) == 6)
    assert kinds(server) == ["L0", "L0", "L0", "W5", "L0", "W9"]
    assert (watch.state.up, watch.state.reason, dict(watch.state.errors)) == (True, None, {"internal": 3})
    assert waits.seconds == [1.5, 3.0, 6.0]
    logged = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert logged == [TypeError, ValueError]


def test_after_a_fault_of_ours_the_kubelet_is_asked_no_sooner_than_usual(
    serve: Serve, start: Callable[[Any], Any], waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = failing(TypeError("one"))
    monkeypatch.setattr("accelscope.kube.informer.decode_pod", lambda document, _: faulty(document))
    server = serve(listed("1", pod("a")), listed("2", pod("a")), hang)
    open_streams: list[object] = []

    def wait(seconds: float) -> None:
        waits(seconds)
        open_streams.append(poll._stream)

    poll = poll_kubelet_pods(Client(Endpoint(server.url)), random=lambda: 0.5, wait=wait)
    start(poll)
    wait_until(lambda: len(server.asked) == 3)
    assert open_streams == [None, None]
    assert (poll.state.up, dict(poll.state.errors)) == (True, {"internal": 1})
    assert waits.seconds == [10.0, 10.0]


def test_a_new_token_is_tried_at_once(serve_tls: Serve, follow: Follow, waits: Waits, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("old-token")

    def wait(seconds: float) -> None:
        waits(seconds)
        if len(waits.seconds) == 3:
            token_file.write_text("new-token")

    server = serve_tls(refuse(401), listed("5", pod("a")), hang)
    watch = follow(server, token_file, wait=wait)
    wait_until(lambda: names(watch) == "a")
    assert waits.seconds == [1.0, 1.0, 1.0]
    assert [asked.headers["authorization"] for asked in server.asked[:2]] == [
        "Bearer old-token",
        "Bearer new-token",
    ]


def test_a_token_file_that_comes_later(serve_tls: Serve, follow: Follow, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    server = serve_tls(listed("5", pod("a")), hang)
    watch = follow(server, token_file, wait=lambda _: token_file.write_text("here"))
    wait_until(lambda: names(watch) == "a")
    assert dict(watch.state.errors) == {"unauthorized": 1}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (raw(b"garbage\n"), "bad_answer"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", cut=False), "bad_answer"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", cut=False), "bad_answer"),
        (raw(b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"items":[]}', cut=False), "bad_answer"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + b'{"items":['), "unreachable"),
        (raw(b""), "unreachable"),
    ],
)
def test_a_list_that_is_none_takes_nothing_away(
    serve_tls: Serve, follow: Follow, bad: Any, reason: str
) -> None:
    server = serve_tls(listed("5", pod("a")), refuse(410), bad, bad, hang)
    watch = follow(server)
    wait_until(lambda: len(server.asked) == 5)
    assert (watch.state.up, watch.state.reason, names(watch)) == (False, reason, "a")


@pytest.mark.parametrize(
    "line", [b"not json\n", b"[]\n", b'{"type":"ADDED"}\n', b'{"type":"WHAT","object":{}}\n', b"\xff\xfe\n"]
)
def test_a_watch_that_is_none(serve_tls: Serve, follow: Follow, line: bytes) -> None:
    def bad(peer: Peer, _: Asked) -> None:
        peer.begin_chunked()
        peer.chunk(line)
        peer.hang()

    server = serve_tls(listed("5", pod("a")), bad, watched(event("ADDED", pod("b", "6"))))
    watch = follow(server)
    wait_until(lambda: names(watch) == "a b")
    assert dict(watch.state.errors) == {"bad_answer": 1}


def test_an_object_that_is_none_costs_itself_only(serve_tls: Serve, follow: Follow) -> None:
    junk = {"metadata": {"resourceVersion": "6"}}
    server = serve_tls(
        listed("5", pod("a"), {"metadata": 7}, "junk"),
        watched(event("ADDED", junk), event("ADDED", pod("b", "7"))),
    )
    watch = follow(server)
    wait_until(lambda: names(watch) == "a b")
    assert (watch.state.up, dict(watch.state.errors)) == (True, {"bad_object": 3})


def test_a_server_that_ends_every_watch_is_not_run_down(
    serve_tls: Serve, follow: Follow, waits: Waits, short_watches: None
) -> None:
    server = serve_tls(listed("5"), *[watched(then="end")] * 4, hang)
    watch = follow(server)
    wait_until(lambda: len(server.asked) == 6)
    assert waits.seconds == [1.5, 3.0, 6.0, 12.0]
    assert (watch.state.up, watch.state.reason) == (False, "unreachable")


def test_a_watch_that_is_silent_for_too_long_is_made_anew(serve_tls: Serve, follow: Follow) -> None:
    # As often as may be needed: where the machine is busy, also an event may come too late.
    told = [watched(event("ADDED", pod("a", "6")))] * 50
    server = serve_tls(listed("5"), watched(then="hang"), *told)
    watch = follow(server, watch_seconds=(0, 0), idle_margin_seconds=0.3)
    wait_until(lambda: names(watch) == "a")
    assert watch.state.errors["timeout"] >= 1


def test_a_list_in_several_answers(serve_tls: Serve, follow: Follow) -> None:
    def first(peer: Peer, _: Asked) -> None:
        peer.document(200, {"items": [pod("a")], "metadata": {"continue": "x/y", "resourceVersion": "5"}})

    server = serve_tls(first, listed("5", pod("b")), hang)
    watch = follow(server)
    wait_until(lambda: names(watch) == "a b")
    assert server.asked[1].query == {"fieldSelector": "spec.nodeName=node-1", "continue": "x/y"}


def test_a_long_list_in_small_pieces(serve_tls: Serve, follow: Follow) -> None:
    pods = [pod(f"p{number}", note="x" * 20_000) for number in range(110)]
    server = serve_tls(listed("5", *pods, piece_bytes=5000), hang)
    watch = follow(server)
    assert watch.synced.wait(PATIENCE_SECONDS)
    assert (len(watch.items), watch.version) == (110, 1)


def test_nobody_is_there_at_first(start: Callable[[Any], Any], waits: Waits) -> None:
    client = Client(Endpoint("http://127.0.0.1:1"), timeout_seconds=2)
    watch = start(watch_pods_with(client, waits))
    wait_until(lambda: watch.state.errors.get("unreachable", 0) > 2)
    assert (watch.state.up, watch.synced.is_set(), dict(watch.items)) == (False, False, {})


def watch_pods_with(client: Client, waits: Waits) -> BlockingInformer[KubePod]:
    store = ItemStore(lambda document: decode_pod(document, frozenset()), key=lambda found: found.uid)
    machine = ListWatch(pods_of("node-1"), store, list_seconds=LIST_SECONDS)
    return BlockingInformer(client, machine, wait=waits)


def test_before_it_runs_it_is_starting(waits: Waits) -> None:
    watch = watch_pods_with(Client(Endpoint("http://127.0.0.1:1")), waits)
    assert (watch.state.up, watch.state.reason, watch.version, dict(watch.items)) == (
        False,
        "starting",
        0,
        {},
    )


class TestReadyMade:
    def test_pods(self, serve: Serve, start: Callable[[Any], Any]) -> None:
        ended = pod("b", status={"phase": "Failed"})
        server = serve(listed("5", pod("a"), ended), hang)
        watch = start(watch_pods(Client(Endpoint(server.url)), "node-1", frozenset({"app"})))
        assert watch.synced.wait(PATIENCE_SECONDS)
        assert set(watch.items) == {"uid-a"}

    def test_the_node(self, serve: Serve, start: Callable[[Any], Any]) -> None:
        node = {"metadata": {"name": "node-1", "labels": {"zone": "a", "x": "y"}, "resourceVersion": "5"}}
        server = serve(listed("5", node), hang)
        watch = start(watch_node(Client(Endpoint(server.url)), "node-1", frozenset({"zone"})))
        assert watch.synced.wait(PATIENCE_SECONDS)
        assert watch.items["node-1"].labels == (("zone", "a"),)
        assert server.asked[0].query["fieldSelector"] == "metadata.name=node-1"

    @staticmethod
    def decode_slice(document: object) -> str:
        if not isinstance(document, dict):
            raise DecodeError("no slice")
        return str(document["name"])

    def test_resource_slices_in_the_version_that_there_is(
        self, serve: Serve, start: Callable[[Any], Any]
    ) -> None:
        server = serve(refuse(404), refuse(404), listed("5", {"name": "s"}, 7), hang)
        client = Client(Endpoint(server.url))
        watch = start(watch_resource_slices(client, "n", decode=self.decode_slice, key=str))
        wait_until(lambda: len(server.asked) == 4)
        assert dict(watch.items) == {"s": "s"}
        assert [asked.path.split("/")[3] for asked in server.asked] == ["v1", "v1beta2", "v1beta1", "v1beta1"]
        assert server.asked[3].query["fieldSelector"] == "spec.nodeName=n"
        assert dict(watch.state.errors) == {"bad_object": 1}

    def test_no_resource_slices_at_all(self, serve: Serve, start: Callable[[Any], Any]) -> None:
        server = serve(refuse(404), refuse(404))
        client = Client(Endpoint(server.url))
        watch = start(
            watch_resource_slices(client, "n", decode=self.decode_slice, key=str, versions=("v1", "v1beta2"))
        )
        wait_until(lambda: watch.state.reason == "not_found")
        assert dict(watch.state.errors) == {"not_found": 1}


class TestKubelet:
    @staticmethod
    def poll(server: KubeServer, certificates: Certificates, waits: Waits) -> BlockingInformer[KubePod]:
        endpoint = Endpoint(server.url, ca_file=str(certificates.ca))
        return poll_kubelet_pods(Client(endpoint), random=lambda: 0.5, wait=waits, clock=lambda: 1000.0)

    def test_polls(
        self, serve_tls: Serve, start: Callable[[Any], Any], certificates: Certificates, waits: Waits
    ) -> None:
        def pods(*documents: object) -> Callable[[Peer, Asked], None]:
            content: dict[str, object] = {"kind": "PodList", "metadata": {}, "items": list(documents) or None}
            return lambda peer, _: peer.document(200, content)

        ended = pod("b", status={"phase": "Succeeded"})
        server = serve_tls(
            pods(pod("a"), ended), pods(pod("a"), ended), pods(pod("a"), pod("c")), pods(), hang
        )
        poll = start(self.poll(server, certificates, waits))
        wait_until(lambda: len(server.asked) == 5)
        assert poll.synced.is_set()
        assert (dict(poll.items), poll.version, waits.seconds) == ({}, 3, [10.0] * 4)
        assert (poll.state.up, poll.state.last_success) == (True, 1000.0)
        assert {asked.target for asked in server.asked} == {"/pods"}

    @pytest.mark.parametrize(
        ("status", "reason", "said", "pause"),
        [
            (403, "forbidden", "grant `get` on `nodes/pods`", 10.0),  # as often as when all is well
            (401, "unauthorized", "webhook authentication", 52.5),
        ],
    )
    def test_a_right_that_is_missing_is_named(
        self,
        serve_tls: Serve,
        start: Callable[[Any], Any],
        certificates: Certificates,
        waits: Waits,
        status: int,
        reason: str,
        said: str,
        pause: float,
    ) -> None:
        server = serve_tls(
            listed("", pod("a")),
            lambda peer, _: peer.answer(status, b"Forbidden (user=agent, verb=get, resource=nodes)"),
            hang,
        )
        poll = start(self.poll(server, certificates, waits))
        wait_until(lambda: len(server.asked) == 3)
        assert (poll.state.up, poll.state.reason, names(poll)) == (False, reason, "uid-a")
        assert said in (poll.state.error or "")
        assert "nodes/pods" in (poll.state.error or "")
        assert sum(waits.seconds[1:]) == pause

    def test_a_kubelet_that_restarts(
        self, serve_tls: Serve, start: Callable[[Any], Any], certificates: Certificates, waits: Waits
    ) -> None:
        server = serve_tls(listed("", pod("a")), raw(b""), raw(b""), listed("", pod("b")), hang)
        poll = start(self.poll(server, certificates, waits))
        wait_until(lambda: names(poll) == "uid-b")
        wait_until(lambda: len(server.asked) == 5)
        assert (poll.state.up, dict(poll.state.errors)) == (True, {"unreachable": 2})


def test_a_thread_that_dies_says_that_it_is_down(serve: Serve, waits: Waits) -> None:
    def broken(_: object) -> str:
        raise SystemExit

    server = serve(listed("5", pod("a")))
    machine = ListWatch(pods_of("n"), ItemStore(broken, key=str), list_seconds=LIST_SECONDS)
    watch = BlockingInformer(Client(Endpoint(server.url)), machine, wait=waits)
    with pytest.raises(SystemExit):
        watch.run()
    assert (watch.state.up, watch.state.reason) == (False, "stopped")


def test_events_in_great_number(serve_tls: Serve, follow: Follow) -> None:
    events = [
        event("MODIFIED", pod(f"p{n % 50}", str(n), status={"phase": f"Phase{n}"})) for n in range(1000)
    ]

    def all_at_once(peer: Peer, _: Asked) -> None:
        peer.begin_chunked()
        peer.chunk(b"".join(json.dumps(change).encode() + b"\n" for change in events))
        peer.hang()

    server = serve_tls(listed("5"), all_at_once)
    watch = follow(server)
    wait_until(lambda: watch.version == 1000)
    assert (len(watch.items), watch.items["p49"].phase) == (50, "Phase999")
