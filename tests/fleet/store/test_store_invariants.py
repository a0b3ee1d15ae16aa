"""The tables stay consistent after updates in any order, and match a simple implementation of the rules."""

from collections import defaultdict
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fleet.store.nodes import (
    Clock,
    KubernetesNode,
    device,
    process,
    reached,
    report,
    snapshot,
    store_of,
    usage,
)

from accelscope.fleet.rows import NodeFailure, NodeReport, NodeUnchanged, SourceKind
from accelscope.fleet.store import fleet_store as fleet_store_module
from accelscope.fleet.store import table as table_module
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.model import Vendor

STALE, FORGET = 60.0, 900.0

_sources = st.sampled_from(list(SourceKind))
_nodes = st.sampled_from(["n1", "n2", "n3"])
_clusters = st.sampled_from(["berlin", "oslo"])
_vendors = st.lists(st.sampled_from([Vendor("nvidia"), Vendor("amd")]), max_size=4)

_steps = st.one_of(
    st.tuples(st.just("report"), _clusters, _nodes, _sources, _vendors),
    st.tuples(st.just("failure"), _clusters, _nodes, _sources, st.booleans()),
    st.tuples(st.just("unchanged"), _clusters, _nodes, _sources),
    st.tuples(st.just("objects"), _clusters, st.sets(_nodes)),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 30.0, 61.0, 500.0, 1000.0])),
    st.tuples(st.just("declare"), st.sets(_clusters)),
)


class Plain:
    """A simple implementation: the last reading and failure of each source, by cluster and node."""

    def __init__(self) -> None:
        self.declared = {"berlin", "oslo"}
        self.readings: dict[tuple[str, str], dict[SourceKind, tuple[float, tuple[Vendor, ...]]]] = (
            defaultdict(dict)
        )
        self.failures: dict[tuple[str, str], dict[SourceKind, tuple[float, bool]]] = defaultdict(dict)
        self.objects: dict[str, set[str]] = defaultdict(set)

    def expected(self, now: float) -> dict[tuple[str, str], tuple[str, dict[str, tuple[str, str]]]]:
        """State of each node, and its devices' source and state."""
        shown = {}
        keys = {*self.readings, *self.failures}
        keys |= {(cluster, node) for cluster, nodes in self.objects.items() for node in nodes}
        for key in keys:
            readings = {s: r for s, r in self.readings[key].items() if now - r[0] < FORGET}
            failures = {s: f for s, f in self.failures[key].items() if now - f[0] < FORGET}
            if not readings and not failures and key[1] not in self.objects[key[0]]:
                continue
            devices: dict[str, tuple[str, str]] = {}
            reported: set[Vendor] = set()
            order = list(SourceKind)
            ranked = sorted(readings, key=lambda s, r=readings: (now - r[s][0] >= STALE, order.index(s)))  # type: ignore[misc]
            for source in ranked:
                taken_at, vendors = readings[source]
                state = "stale" if now - taken_at >= STALE else "fresh"
                for place, vendor in enumerate(vendors):
                    if vendor not in reported:
                        devices[f"{vendor}:{place}"] = source.value, state
                reported.update(vendors)
            if ranked:
                node_state = "stale" if now - readings[ranked[0]][0] >= STALE else "fresh"
            elif failures and failures[min(failures, key=order.index)][1]:
                node_state = "incompatible"
            else:
                node_state = "unread"
            shown[key] = node_state, devices
        return shown


def shown(store: FleetStore) -> dict[tuple[str, str], tuple[str, dict[str, tuple[str, str]]]]:
    nodes: dict[Any, Any] = {
        (row.cluster, row.node): (row.state, {}) for row in store.nodes.rows(store.nodes.positions())
    }
    for row in store.devices.rows(store.devices.positions()):
        nodes[row.cluster, row.node][1][row.id] = row.source, row.state
    return nodes


def say(store: FleetStore, plain: Plain, step: tuple[Any, ...], clock: Clock) -> None:
    kind, *rest = step
    if kind == "wait":
        clock.advance(rest[0])
    elif kind == "declare":
        [clusters] = rest
        store.declare([reached(cluster) for cluster in sorted(clusters)])
        plain.declared = clusters
        for by_node in (plain.readings, plain.failures):
            for key in [key for key in by_node if key[0] not in clusters]:
                del by_node[key]
        plain.objects = defaultdict(set, {c: n for c, n in plain.objects.items() if c in clusters})
    elif kind == "objects":
        cluster, names = rest
        store.node_objects(cluster, {name: KubernetesNode({"nvidia.com/gpu": 1}) for name in names})
        if cluster in plain.declared:
            plain.objects[cluster] = names
    else:
        say_of_node(store, plain, kind, rest, clock.now)


def say_of_node(store: FleetStore, plain: Plain, kind: str, rest: list[Any], now: float) -> None:
    cluster, node, source, *more = rest
    key, declared = (cluster, node), cluster in plain.declared
    if kind == "report":
        vendors = tuple(more[0])
        store.take(cluster, reading(node, source, vendors, now))
        if declared:
            plain.readings[key][source] = now, vendors
            plain.failures[key].pop(source, None)
    elif kind == "failure":
        store.take(cluster, NodeFailure(node=node, source=source, reason="x", text="x", incompatible=more[0]))
        if declared:
            plain.failures[key][source] = now, more[0]
            if more[0]:
                plain.readings[key].pop(source, None)
    else:
        store.take(cluster, NodeUnchanged(node=node, source=source))
        if declared:
            plain.failures[key].pop(source, None)
            if source not in plain.readings[key] or now - plain.readings[key][source][0] >= FORGET:
                plain.failures[key][source] = now, False


def reading(node: str, source: SourceKind, vendors: tuple[Vendor, ...], now: float) -> NodeReport:
    devices = [device(str(place), vendor=vendor) for place, vendor in enumerate(vendors)]
    return report(
        node,
        snapshot(
            devices,
            usages=[usage(f"team/{place % 2}", d, allocated=1) for place, d in enumerate(devices)],
            processes=[process(7, d) for d in devices],
        ),
        now,
        source,
    )


def check(store: FleetStore) -> None:
    ids, texts = store.devices.whole_column("id"), store.devices.texts("id").texts
    for table in (store.pods, store.processes):
        positions = table.positions()
        linked = table.linked(positions, store.devices)
        rows = table.rows(positions)
        assert [texts[ids[place]] for place in linked] == [row.device for row in rows]
        assert np.array_equal(store.devices.nodes(linked), table.nodes(positions))
    by_cluster: dict[str, int] = defaultdict(int)
    for row in store.devices.rows(store.devices.positions()):
        by_cluster[row.cluster] += 1
    for view in store.clusters.values():
        assert view.devices == by_cluster[view.id]
    assert set(by_cluster) <= set(store.clusters)


@settings(max_examples=80)
@given(st.lists(_steps, max_size=25))
def test_tables_match_a_plain_implementation_of_the_rules(steps: list[tuple[Any, ...]]) -> None:
    clock, plain = Clock(), Plain()
    store = store_of("berlin", "oslo", clock=clock)
    with (
        mock.patch.object(table_module, "_HOLES_AT_LEAST", 2),
        mock.patch.object(table_module, "_ROWS_MOVED_AT_ONCE", 2),
        mock.patch.object(fleet_store_module, "_WORK_AT_ONCE", 2),
    ):
        for step in steps:
            say(store, plain, step, clock)
            check(store)
            while store.tick():
                check(store)
            check(store)
            assert shown(store) == plain.expected(clock.now)
