"""The state behind a list and its watch, without any I/O."""

import pytest
from tests.kube.kube_server import bookmark, event, pod

from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.pods import KubePod, decode_pod
from accelscope.kube.store import ItemStore


@pytest.fixture
def store() -> ItemStore[KubePod]:
    store = ItemStore(
        lambda document: decode_pod(document, frozenset()),
        key=lambda found: found.name,
        keep=lambda found: not found.ended,
    )
    store.replace(store.read_list([pod("a"), pod("b")]), "10")
    return store


def test_a_list_counts_as_one_change(store: ItemStore[KubePod]) -> None:
    assert (set(store.items), store.version, store.resource_version) == ({"a", "b"}, 1, "10")
    store.replace(store.read_list([pod("a"), pod("b")]), "11")
    assert (store.version, store.resource_version) == (1, "11")
    store.replace(store.read_list([pod("a")]), "12")
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
    store.replace(store.read_list([pod("a"), "junk", None]), "12")
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
