"""List and watch without I/O: the store of objects, and the state machine."""

import json
from collections import deque
from typing import Any

import pytest
from tests.kube.kube_server import bookmark, event, pod

from accelscope.kube.endpoint import KubeError, Reason
from accelscope.kube.listwatch import Collection, ItemStore, ListWatch, Pause, Request
from accelscope.kube.objects import KubePod, decode_pod

PODS = Collection(("/pods",))


def put(store: ItemStore[KubePod], version: str, *documents: object) -> None:
    found: dict[str, KubePod] = {}
    for document in documents:
        store.read(document, found)
    store.replace(found, version)


@pytest.fixture
def store() -> ItemStore[KubePod]:
    store = ItemStore(
        lambda document: decode_pod(document, frozenset()),
        key=lambda found: found.name,
        keep=lambda found: not found.ended,
    )
    put(store, "10", pod("a"), pod("b"))
    return store


def test_a_list_counts_as_one_change(store: ItemStore[KubePod]) -> None:
    assert (set(store.items), store.version, store.resource_version) == ({"a", "b"}, 1, "10")
    put(store, "11", pod("a"), pod("b"))
    assert (store.version, store.resource_version) == (1, "11")
    put(store, "12", pod("a"))
    assert (set(store.items), store.version) == ({"a"}, 2)


@pytest.mark.parametrize(
    ("change", "names", "changed"),
    [
        (event("ADDED", pod("c", "11")), {"a", "b", "c"}, True),
        (event("MODIFIED", pod("a", "11", status={"phase": "Pending"})), {"a", "b"}, True),
        (event("MODIFIED", pod("a", "11")), {"a", "b"}, False),
        (event("ADDED", pod("a", "11")), {"a", "b"}, False),
        (event("DELETED", pod("a", "11")), {"b"}, True),
        (event("DELETED", pod("c", "11")), {"a", "b"}, False),
        (event("MODIFIED", pod("a", "11", status={"phase": "Succeeded"})), {"b"}, True),
        (event("ADDED", pod("c", "11", status={"phase": "Failed"})), {"a", "b"}, False),
        (bookmark("11"), {"a", "b"}, False),
    ],
)
def test_events(store: ItemStore[KubePod], change: object, names: set[str], changed: bool) -> None:
    before, items = store.version, store.items
    held = dict(items)
    store.apply(change)
    assert (set(store.items), store.version - before) == (names, int(changed))
    assert store.resource_version == "11"
    assert items == held, "what a reader holds is never changed under it"


def test_an_object_that_cannot_be_decoded_costs_itself_only(store: ItemStore[KubePod]) -> None:
    store.apply(event("ADDED", {"metadata": {"resourceVersion": "11"}}))
    assert (set(store.items), store.rejected, store.resource_version) == ({"a", "b"}, 1, "11")
    put(store, "12", pod("a"), "junk", None)
    assert (set(store.items), store.rejected) == ({"a"}, 3)


@pytest.mark.parametrize(
    ("junk", "reason"),
    [
        (event("ERROR", {"kind": "Status", "code": 410, "message": "too old"}), Reason.GONE),
        (event("ERROR", {"kind": "Status", "code": 500, "message": "etcd"}), Reason.SERVER_ERROR),
        (event("ERROR", {"kind": "Status"}), Reason.BAD_ANSWER),
        (event("ERROR", None), Reason.BAD_ANSWER),
        (event("RENAMED", pod("a")), Reason.BAD_ANSWER),
        (event("ADDED", None), Reason.BAD_ANSWER),
        ({"object": pod("a")}, Reason.BAD_ANSWER),
        ([], Reason.BAD_ANSWER),
        (None, Reason.BAD_ANSWER),
    ],
)
def test_what_ends_a_watch(store: ItemStore[KubePod], junk: object, reason: Reason) -> None:
    with pytest.raises(KubeError) as caught:
        store.apply(junk)
    assert caught.value.reason is reason
    assert (set(store.items), store.resource_version) == ({"a", "b"}, "10")


@pytest.mark.parametrize(
    "message",
    [
        "denied: Bearer abcdefgh12345678",
        "denied: bearer  abcdefgh12345678",
        "token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.abcdefgh12345678 is no good",
        "token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0 is no good",
    ],
)
def test_what_looks_like_a_token_is_in_no_error(store: ItemStore[KubePod], message: str) -> None:
    with pytest.raises(KubeError) as caught:
        store.apply({"type": "ERROR", "object": {"code": 500, "message": message}})
    assert "abcdefgh" not in caught.value.text
    assert "eyJ" not in caught.value.text
    assert "[token]" in caught.value.text


def name_of(document: object) -> str:
    assert isinstance(document, dict)
    return str(document["metadata"]["name"])


def machine(collection: Collection = PODS, **options: Any) -> ListWatch[str]:
    store = ItemStore(name_of, key=str)
    return ListWatch(collection, store, list_seconds=60.0, random=lambda: 0.5, **options)


def request(machine: ListWatch[str]) -> str:
    """The path of the next request, which must be due at once."""
    step = machine.next_step()
    assert isinstance(step, Request)
    return step.path


def pause(machine: ListWatch[str]) -> float:
    step = machine.next_step()
    assert isinstance(step, Pause)
    return step.seconds


def respond(machine: ListWatch[str], content: bytes) -> None:
    machine.opened()
    deque(machine.feed(content), maxlen=0)
    deque(machine.end(), maxlen=0)


def page(*names: str, version: str | None = "5", more: str | None = None) -> bytes:
    metadata = {"resourceVersion": version, "continue": more}
    return json.dumps({"metadata": metadata, "items": [pod(name) for name in names]}).encode()


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in events)


class TestListWatch:
    def test_lists_all_pages_and_then_watches(self) -> None:
        informer = machine()
        assert request(informer) == "/pods?resourceVersion=0"
        respond(informer, page("a", more="x/y"))
        assert not informer.synced
        assert request(informer) == "/pods?continue=x%2Fy"
        respond(informer, page("b"))
        assert (informer.synced, informer.status.up, set(informer.store.items)) == (True, True, {"a", "b"})
        assert "watch=true&allowWatchBookmarks=true&resourceVersion=5" in request(informer)

    def test_resumes_from_the_last_bookmark_after_a_disconnect(self) -> None:
        informer = machine()
        request(informer)
        respond(informer, page("a"))
        request(informer)
        informer.opened()
        deque(informer.feed(lines(event("ADDED", pod("b", "6")), bookmark("9"))), maxlen=0)
        informer.failed(KubeError(Reason.UNREACHABLE, "cut"))
        assert (informer.status.up, pause(informer)) == (True, 1.5)
        assert "resourceVersion=9" in request(informer)

    def test_lists_again_at_once_after_410_and_from_the_store_after_another(self) -> None:
        informer = machine()
        request(informer)
        respond(informer, page("a"))
        request(informer)
        informer.failed(KubeError(Reason.GONE, "too old"))
        assert request(informer) == "/pods?resourceVersion=0"
        respond(informer, page("a"))
        request(informer)
        informer.failed(KubeError(Reason.GONE, "too old"))
        assert pause(informer) == 1.5
        assert request(informer) == "/pods"

    def test_a_failed_page_restarts_the_list(self) -> None:
        informer = machine()
        request(informer)
        respond(informer, page("a", more="x"))
        request(informer)
        informer.failed(KubeError(Reason.TIMEOUT, "slow"))
        assert (informer.failure is not None, pause(informer)) == (True, 1.5)
        assert request(informer) == "/pods?resourceVersion=0"
        respond(informer, page("b"))
        assert set(informer.store.items) == {"b"}
        assert informer.failure is None

    def test_another_version_of_the_api_is_tried_without_a_pause(self) -> None:
        informer = machine(Collection(("/v1/things", "/v1beta1/things")))
        assert request(informer).startswith("/v1/things?")
        informer.failed(KubeError(Reason.NOT_FOUND, "no such version"))
        assert request(informer).startswith("/v1beta1/things?")
        informer.failed(KubeError(Reason.NOT_FOUND, "no such version"))
        assert (informer.status.reason, dict(informer.status.errors)) == ("not_found", {"not_found": 1})
        assert pause(informer) == 1.5
        assert request(informer).startswith("/v1/things?")

    def test_a_poll_lists_at_its_interval_and_backs_off_no_faster(self) -> None:
        informer = machine(poll_seconds=10.0)
        assert request(informer) == "/pods"
        respond(informer, page("a", version=None))
        assert (informer.status.up, pause(informer), request(informer)) == (True, 10.0, "/pods")
        informer.failed(KubeError(Reason.GONE, "no"))
        assert pause(informer) == 10.0

    def test_after_a_refusal_other_credentials_end_the_pause(self) -> None:
        informer = machine()
        request(informer)
        informer.failed(KubeError(Reason.FORBIDDEN, "no"))
        assert informer.next_step() == Pause(1.5, refused=True)

    def test_a_list_with_too_many_objects_is_rejected(self) -> None:
        informer = machine(most_items=2)
        request(informer)
        with pytest.raises(KubeError, match="/pods: more than 2 objects"):
            respond(informer, page("a", "b", "c"))

    def test_the_timeout_of_a_list_covers_all_of_its_pages(self) -> None:
        now = 100.0
        informer = machine(monotonic=lambda: now)
        first = informer.next_step()
        respond(informer, page("a", more="x"))
        now = 145.0
        second = informer.next_step()
        assert isinstance(first, Request)
        assert isinstance(second, Request)
        assert (first.total_seconds, second.total_seconds) == (60.0, 15.0)
