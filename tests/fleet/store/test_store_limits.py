"""The limits of one cluster: rows, nodes, and the memory of its readings."""

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import msgspec
import pytest
from tests.fleet.store.nodes import Clock, report, snapshot

from accelscope.fleet.rows import ClusterView, NodeUnchanged, SourceKind
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.node_rows import NodeIdentity, SourceReading, make_rows, text_size
from accelscope.fleet.store.query import layout_of
from accelscope.fleet.store.table import TextDictionary, interned_bytes
from accelscope.model import (
    AgentState,
    Device,
    Health,
    HealthState,
    Owner,
    OwnerKind,
    Pod,
    PodUsage,
    Process,
    Snapshot,
    Throttle,
    Vendor,
)

MIB = 1 << 20


def noise(characters: int) -> str:
    return os.urandom(characters // 2).hex()


@contextmanager
def memory_of_at_most(growth_bytes: int) -> Iterator[None]:
    """The memory that is still allocated afterwards."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        stays = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert stays <= growth_bytes, f"{stays / MIB:.1f} MiB stay"


def named(*names: str, model: str = "H100") -> Snapshot:
    """A node with one device and processes of these names."""
    processes = tuple(Process(pid=pid, device="nvidia:a", name=name) for pid, name in enumerate(names))
    return snapshot([Device(vendor=Vendor("nvidia"), id="nvidia:a", model=model)], processes=processes)


def store_of(clock: Clock, **limits: int) -> FleetStore:
    store = FleetStore(clock=clock, **limits)
    store.declare([ClusterView(id="a"), ClusterView(id="b")])
    return store


def reason_of(store: FleetStore, node: str = "n", cluster: str = "a") -> tuple[str, str | None]:
    position = store.nodes.find(cluster=cluster, node=node)
    assert position is not None
    state, reason = store.nodes.value("state", position), store.nodes.value("reason", position)
    return str(state), None if reason is None else str(reason)


def test_unused_texts_are_freed_by_their_length() -> None:
    """A thousand long texts are megabytes, so the number of unused texts is not the only limit."""
    texts = TextDictionary()
    before: list[int] = []
    with memory_of_at_most(4 * MIB):
        for _ in range(40):
            codes = texts.encode([noise(MIB)])
            texts.retain(codes)
            texts.release(before)
            texts.settle()
            before = codes
    assert len(texts) < 4


def test_new_texts_in_every_reading_do_not_leak_memory() -> None:
    clock = Clock()
    store = store_of(clock)

    def take() -> None:
        names = (noise(1000) for _ in range(200))
        store.take("a", report("n", named(*names, model=noise(1000)), clock.advance(15)))
        store.tick()

    for _ in range(5):
        take()
    with memory_of_at_most(4 * MIB):
        for _ in range(240):  # the refreshes of an hour add 48 MB of texts
            take()
    assert reason_of(store) == ("fresh", None)


def test_a_reading_that_is_too_large_is_rejected_with_a_reason() -> None:
    clock = Clock()
    store = store_of(clock)
    store.take("a", report("n", named("python"), clock.now))
    store.take("a", report("n", named(*(noise(1000) for _ in range(5000))), clock.advance(15)))
    assert reason_of(store) == ("fresh", "its reading of 17.2 MiB exceeds the limit of 4.0 MiB")
    known = store.snapshot("a", "n")
    assert known is not None
    assert [process.name for process in known.processes] == ["python"]  # of the previous reading
    store.take("a", NodeUnchanged(node="n", source=SourceKind.AGENTS))
    assert reason_of(store)[1] == "its reading of 17.2 MiB exceeds the limit of 4.0 MiB"
    store.take("a", report("n", named("python3"), clock.advance(15)))
    assert reason_of(store) == ("fresh", None)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1000,
        "A" * 1000,
        "é" * 1000,
        "İ" * 1000,
        "🌀" * 1000,
        "𐐀" * 1000,
        "🌀" + "A" * 999,
        "𐐀" + "İ" * 999,
    ],
    ids=["small", "capital", "latin", "grows", "beyond-bmp", "capital-beyond-bmp", "one-wide", "wide-grows"],
)
def test_the_counted_size_of_texts_is_an_upper_bound(text: str) -> None:
    """Including the lower-case copy, the cached UTF-8 and the copy for searches."""
    texts, number = TextDictionary(), 500
    with memory_of_at_most(number * (interned_bytes(text + "000") + 500)):
        texts.retain(texts.encode([f"{text}{place:03}" for place in range(number)]))
        msgspec.json.encode(texts.texts)
        assert texts.containing("099").sum() == 1
        texts.ranks()


def test_one_wide_text_does_not_widen_the_searched_text() -> None:
    texts = TextDictionary()
    with memory_of_at_most(4 * MIB):
        texts.retain(texts.encode([*("a" * 1000 + f"{place:03}" for place in range(1000)), "Äpfel 🌀", "z"]))
        assert texts.containing("🌀").nonzero()[0].tolist() == [1001]
        assert texts.containing("PFEL").nonzero()[0].tolist() == [1001]
        assert texts.containing("z").nonzero()[0].tolist() == [1002]
        assert texts.containing("a" * 9).sum() == 1000


@pytest.mark.parametrize("where", ["names", "labels"])
def test_texts_beyond_ascii_count_with_all_their_bytes(where: str) -> None:
    clock = Clock()
    store = store_of(clock)
    wide = [f"{'🌀' * 990}{number}" for number in range(800)]
    if where == "names":
        shown = named(*wide)
    else:
        shown = replace(named("python"), node_labels=tuple((text, "") for text in wide))
    store.take("a", report("n", shown, clock.now))
    state, reason = reason_of(store)
    assert state == "unread"
    assert reason is not None
    assert reason.endswith("exceeds the limit of 4.0 MiB")


def test_lists_in_a_row_count_in_addition_to_their_words() -> None:
    """A device lists the namespaces that use it: a few long ones make many lists."""
    clock = Clock()
    store = store_of(clock)
    spaces = [noise(1000) for _ in range(40)]
    devices = [Device(vendor=Vendor("nvidia"), id=f"nvidia:{number}") for number in range(40)]
    usages = [
        PodUsage(device=device.id, namespace=space, pod="p", container="c")
        for number, device in enumerate(devices)
        for space in spaces[:number] + spaces[number + 1 :]
    ]
    store.take("a", report("n", snapshot(devices, usages=usages), clock.now))
    state, reason = reason_of(store)
    assert state == "unread"
    assert reason is not None
    assert reason.endswith("exceeds the limit of 4.0 MiB")


def test_the_size_limit_applies_to_each_cluster() -> None:
    clock = Clock()
    store = store_of(clock, readings_limit=7 * MIB)
    large = named(*(noise(1000) for _ in range(600)))  # some 2 MiB with its document
    for number in range(5):
        store.take("a", report(f"n{number}", large, clock.now))
    taken = [reason_of(store, f"n{number}") for number in range(5)]
    limit = "the readings of its cluster exceed the limit of 7.0 MiB"
    assert taken == [("fresh", None)] * 3 + [("unread", limit)] * 2
    store.take("b", report("n0", large, clock.now))
    assert reason_of(store, "n0", "b") == ("fresh", None)


def test_removed_readings_free_their_size() -> None:
    clock = Clock()
    store = store_of(clock, readings_limit=3 * MIB, stale_after_seconds=60, forget_after_seconds=900)
    large = named(*(noise(1000) for _ in range(600)))
    store.take("a", report("n0", large, clock.now))
    store.take("a", report("n1", large, clock.now))
    assert reason_of(store, "n1")[0] == "unread"
    clock.advance(1000)
    while store.tick():
        pass
    store.take("a", report("n1", large, clock.now))
    assert reason_of(store, "n1") == ("fresh", None)
    assert store.nodes.find(cluster="a", node="n0") is None


def test_nodes_of_a_cluster_are_limited() -> None:
    clock = Clock()
    store = store_of(clock, nodes_limit=2)
    for name in ("n0", "n1", "n2"):
        store.take("a", report(name, named("python"), clock.now))
    assert store.clusters["a"].nodes == 2
    store.take("b", report("n2", named("python"), clock.now))
    assert store.clusters["b"].nodes == 1


def test_every_text_of_a_row_is_counted() -> None:
    """`text_size` names fields one by one: a column that is added must be added there too."""
    count = iter(range(1, 1000))

    def text() -> str:
        return f"text-{next(count):03}"

    owner = Owner(kind=OwnerKind.POD, name=text(), namespace=text(), pod=text(), container=text())
    outside = Owner(kind=OwnerKind.CONTAINER, name=text())
    shown = Snapshot(
        node="n",
        taken_at=1.0,
        agent=AgentState(version=text(), started_at=0.0),
        devices=(
            Device(
                vendor=Vendor("nvidia"),
                id="d",
                model=text(),
                uuid=text(),
                serial=text(),
                pci_address=text(),
                driver_version=text(),
                firmware_version=text(),
                health=Health(HealthState.WARNING, text()),
                throttles=(Throttle(reason=text(), active=True),),
            ),
        ),
        processes=(
            Process(pid=1, device="d", partition=text(), name=text(), user=text(), owner=owner),
            Process(pid=2, device="d", owner=outside),
        ),
        pods=(Pod(uid="", namespace="space", name="pod", owner_kind=text(), owner_name=text()),),
        pod_usages=(
            PodUsage(
                device="d",
                namespace="space",
                pod="pod",
                container=text(),
                partition=text(),
                pod_uid=text(),
                resources=(text(),),
            ),
        ),
    )
    part = SourceReading(source="agents", state="fresh", taken_at=1.0, snapshot=shown, vendors=("nvidia",))
    rows = make_rows(NodeIdentity(cluster="c", node="n", simulated=False), [part])
    interned = {
        value
        for row in (*rows.devices, *rows.pods, *rows.processes)
        for name in layout_of(type(row)).texts
        if (value := getattr(row, name)) is not None and value.startswith("text-")
    }
    assert (
        len(interned) == next(count) - 3
    )  # except the version of the agent and the name of an owner that is a pod
    others = {"d", "space", "pod", shown.agent.version, owner.name}
    assert text_size(shown) == sum(interned_bytes(one) for one in interned | others if one is not None)
