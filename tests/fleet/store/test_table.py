"""A table, compared with a plain list of the same rows."""

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from accelscope.fleet.rows import DeviceRow, NodeRow, PodRow, ProcessRow
from accelscope.fleet.store import table as table_module
from accelscope.fleet.store.query import Condition, QueryError, RowQuery, Sort
from accelscope.fleet.store.table import NOWHERE, ColumnTable, NodeNumbers

NOW = 1000.0
NODES = [("berlin", "n1"), ("berlin", "n2"), ("oslo", "n1"), ("oslo", "ä")]
IDENTITY = ("cluster", "node", "id")

_words = st.sampled_from(["a", "B", "b", "Zeta", "zeta,eta", "É", "x" * 40])
_numbers = st.sampled_from([0.0, 0.25, 0.5, 1.0, -3.0])


@st.composite
def device_rows(draw: st.DrawFn, cluster: str, node: str) -> list[DeviceRow]:
    ids = draw(st.lists(_words, unique=True, max_size=6))
    return [
        DeviceRow(
            cluster=cluster,
            node=node,
            id=id_,
            vendor=draw(st.sampled_from(["nvidia", "amd"])),
            model=draw(st.none() | _words),
            source="agents",
            state="fresh",
            simulated=draw(st.booleans()),
            taken_at=draw(st.sampled_from([None, 100.0, 200.0, 300.0])),
            health="ok",
            utilization_ratio=draw(st.none() | _numbers),
            memory_total_bytes=draw(st.none() | st.sampled_from([0, 1, 2**53 - 1])),
        )
        for id_ in ids
    ]


@st.composite
def writings(draw: st.DrawFn) -> tuple[tuple[str, str], list[DeviceRow]]:
    cluster, node = draw(st.sampled_from(NODES))
    return (cluster, node), draw(device_rows(cluster, node))


_sorts = st.lists(
    st.builds(
        Sort,
        st.sampled_from(
            ["model", "utilization_ratio", "vendor", "node", "age_seconds", "memory_total_bytes"]
        ),
        st.booleans(),
    ),
    max_size=2,
)
_conditions = st.lists(
    st.one_of(
        st.builds(Condition, st.just("model"), st.sampled_from(["=", "!=", ">=", "<=", ">", "<"]), _words),
        st.builds(Condition, st.just("model"), st.sampled_from(["contains", "has"]), _words),
        st.builds(Condition, st.just("model"), st.just("in"), st.lists(_words, max_size=3)),
        st.builds(
            Condition,
            st.just("utilization_ratio"),
            st.sampled_from(["=", "!=", ">=", "<=", ">", "<"]),
            _numbers,
        ),
        st.builds(Condition, st.just("age_seconds"), st.sampled_from([">=", "<"]), st.just(800.0)),
        st.builds(
            Condition,
            st.sampled_from(["model", "utilization_ratio"]),
            st.sampled_from(["absent", "present"]),
        ),
        st.builds(Condition, st.just("simulated"), st.just("="), st.booleans()),
    ),
    max_size=2,
)


class Plain:
    """A simple implementation of a table."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[str, str], list[DeviceRow]] = {}

    def rows(self) -> list[DeviceRow]:
        return [row for rows in self.nodes.values() for row in rows]

    def select(self, where: list[Condition], sort: list[Sort]) -> list[DeviceRow]:
        found = [row for row in self.rows() if all(matches(row, condition) for condition in where)]
        for by in reversed([*sort, *map(Sort, IDENTITY)]):
            there = [row for row in found if value(row, by.field) is not None]
            absent = [row for row in found if value(row, by.field) is None]
            found = sorted(there, key=lambda row: value(row, by.field), reverse=by.descending) + absent
        return found


def value(row: DeviceRow, field: str) -> Any:
    return age(row) if field == "age_seconds" else getattr(row, field)


def age(row: DeviceRow) -> float | None:
    return None if row.taken_at is None else NOW - row.taken_at


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "in": lambda here, sought: here in sought,
    "contains": lambda here, sought: sought.lower() in here.lower(),
    "has": lambda here, sought: sought in here.split(","),
}


def matches(row: DeviceRow, condition: Condition) -> bool:
    here = value(row, condition.field)
    if condition.op in ("absent", "present"):
        return (here is None) == (condition.op == "absent")
    if here is None:
        return condition.op == "!="
    return _COMPARISONS[condition.op](here, condition.value)


def identity(row: DeviceRow) -> tuple[str, str, str]:
    return row.cluster, row.node, row.id


@contextmanager
def little_room() -> Iterator[None]:
    """Makes holes, merges and freed codes occur with few rows, and sorts pages in several steps."""
    with (
        mock.patch.object(table_module, "_HOLES_AT_LEAST", 2),
        mock.patch.object(table_module, "_ROWS_MOVED_AT_ONCE", 2),
        mock.patch.object(table_module, "_LEAST_ROWS", 2),
        mock.patch.object(table_module, "_MERGED_AT_LEAST", 1),
        mock.patch.object(table_module, "_MERGED_AT_ONCE", 2),
        mock.patch.object(table_module, "_RECLAIMED_AT_LEAST", 1),
        mock.patch.object(table_module, "_STOPS_LIMIT", 2),
        mock.patch("accelscope.fleet.store.query._SORTED_AT_ONCE", 1),
    ):
        yield


def device_table() -> tuple[ColumnTable[DeviceRow], NodeNumbers]:
    numbers = NodeNumbers()
    return ColumnTable(DeviceRow, IDENTITY, numbers=numbers, clock=lambda: NOW), numbers


def aged(rows: list[DeviceRow]) -> list[DeviceRow]:
    return [replace(row, age_seconds=age(row)) for row in rows]


@given(
    st.lists(st.tuples(writings(), st.sampled_from([0, 1, 5, 30])), max_size=16),
    _conditions,
    _sorts,
    st.integers(1, 5),
)
def test_a_table_returns_the_same_rows_as_a_plain_list(
    written: list[tuple[tuple[tuple[str, str], list[DeviceRow]], int]],
    where: list[Condition],
    sort: list[Sort],
    limit: int,
) -> None:
    with little_room():
        table, numbers = device_table()
        plain = Plain()
        for (key, rows), settlings in written:
            table.replace(numbers.give(*key), rows)
            plain.nodes[key] = rows
            for _ in range(settlings):
                table.settle()
            assert len(table) == len(plain.rows())
            seen = table.rows(table.positions(), NOW)
            assert sorted(map(identity, seen)) == sorted(map(identity, plain.rows()))
        wanted = aged(plain.select(where, sort))
        seen = []
        query = RowQuery(where=tuple(where), sort=tuple(sort), limit=limit)
        while True:
            page = table.select(query)
            assert page.total == len(wanted)
            seen += table.rows(page.positions, NOW)
            if page.after is None:
                break
            assert len(page.positions) == limit
            query = RowQuery(where=tuple(where), sort=tuple(sort), limit=limit, after=page.after)
        assert seen == wanted


@given(
    st.lists(writings(), max_size=6),
    st.lists(writings(), min_size=1, max_size=6),
    _sorts,
    st.integers(1, 4),
)
def test_unchanged_rows_are_on_exactly_one_page_while_others_change(
    before: list[tuple[tuple[str, str], list[DeviceRow]]],
    meanwhile: list[tuple[tuple[str, str], list[DeviceRow]]],
    sort: list[Sort],
    limit: int,
) -> None:
    """The nodes of oslo change between pages, those of berlin do not."""
    with little_room():
        table, numbers = device_table()
        stays: dict[tuple[str, str], list[DeviceRow]] = {}
        for key, rows in before:
            table.replace(numbers.give(*key), rows)
            if key[0] == "berlin":
                stays[key] = rows
        changes = iter([change for change in meanwhile if change[0][0] == "oslo"])
        seen: list[tuple[str, str, str]] = []
        query = RowQuery(sort=tuple(sort), limit=limit)
        while True:
            page = table.select(query)
            seen += map(identity, table.rows(page.positions, NOW))
            if page.after is None:
                break
            query = RowQuery(sort=tuple(sort), limit=limit, after=page.after)
            if change := next(changes, None):
                table.replace(numbers.give(*change[0]), change[1])
                table.settle()
        of_berlin = [found for found in seen if found[0] == "berlin"]
        wanted = [identity(row) for rows in stays.values() for row in rows]
        assert sorted(of_berlin) == sorted(wanted)


@settings(max_examples=40)
@given(st.lists(writings(), max_size=8))
def test_rows_are_found_by_identity_and_removed(
    written: list[tuple[tuple[str, str], list[DeviceRow]]],
) -> None:
    with little_room():
        table, numbers = device_table()
        kept = dict(written)
        for key, rows in written:
            table.replace(numbers.give(*key), rows)
        for (cluster, node), rows in kept.items():
            for row in rows:
                position = table.find(cluster=cluster, node=node, id=row.id)
                assert position is not None
                assert table.rows(np.array([position]), NOW) == aged([row])
            assert table.find(cluster=cluster, node=node, id="no such") is None
            table.remove(numbers.give(cluster, node))
        assert len(table) == 0
        assert table.select(RowQuery()).total == 0


def test_a_page_continues_after_a_text_that_was_removed() -> None:
    with little_room():
        table, numbers = device_table()
        table.replace(numbers.give("berlin", "n1"), [_row("a", model="c"), _row("b", model="a")])
        table.replace(numbers.give("oslo", "n1"), [_row("a", cluster="oslo", model="b")])
        by_model = (Sort("model"),)
        page = table.select(RowQuery(sort=by_model, limit=2))
        assert [row.model for row in table.rows(page.positions)] == ["a", "b"]
        table.remove(numbers.give("oslo", "n1"))
        rest = table.select(RowQuery(sort=by_model, limit=2, after=page.after))
        assert [row.model for row in table.rows(rest.positions)] == ["c"]


def test_holes_are_closed_while_rows_come_and_go() -> None:
    """Blocks grow, disappear and return while others are moved."""
    with little_room():
        table, numbers = device_table()
        plain: dict[str, list[DeviceRow]] = {}
        for turn in range(400):
            node = f"n{turn * 7 % 23}"
            rows = [_row(f"{turn}-{place}", node=node) for place in range(turn * 5 % 7)]
            table.replace(numbers.give("berlin", node), rows)
            plain[node] = rows
            for _ in range(turn % 4):
                table.settle()
            seen = table.rows(table.positions())
            assert sorted(map(identity, seen)) == sorted(
                identity(row) for rows in plain.values() for row in rows
            )
            for row in seen:
                position = table.find(cluster="berlin", node=row.node, id=row.id)
                assert position is not None
        while table.settle():
            pass
        assert len(table.live()) <= 2 * len(table)


def test_links_between_tables_stay_valid_while_rows_move() -> None:
    with little_room():
        devices, numbers = device_table()
        processes = ColumnTable(ProcessRow, ("cluster", "node", "pid"), numbers=numbers)
        for turn in range(200):
            node = f"n{turn * 7 % 11}"
            number = numbers.give("berlin", node)
            rows = [_row(f"{turn}-{place}", node=node) for place in range(turn * 5 % 7)]
            devices.replace(number, rows)
            links = [place for place in range(len(rows)) if place != 3] + [NOWHERE]
            processes.replace(number, [_process(node, pid) for pid in range(len(links))], links)
            devices.settle()
            positions = processes.positions()
            linked = processes.linked(positions, devices)
            for process, place in zip(processes.rows(positions), linked.tolist(), strict=True):
                if place != NOWHERE:
                    [device] = devices.rows(np.array([place]))
                    assert (device.node, device.id.split("-")[1]) == (
                        process.node,
                        str(process.pid + (process.pid >= 3)),
                    )
        assert (linked == NOWHERE).sum() == 11


def test_assigned_values_replace_the_old_ones() -> None:
    table, numbers = device_table()
    row = _row("a", model="H100", utilization_ratio=0.5)
    table.replace(numbers.give("berlin", "n1"), [row])
    here = table.positions()
    table.assign(here, "model", "A100")
    table.assign(here, "utilization_ratio", None)
    [seen] = table.rows(here, NOW)
    assert (seen.model, seen.utilization_ratio) == ("A100", None)
    assert table.select(RowQuery(where=(Condition("model", "=", "H100"),))).total == 0


def test_nan_and_infinity_are_absent() -> None:
    table, numbers = device_table()
    values = [float("inf"), float("-inf"), float("nan"), None]
    rows = [_row(str(place), power_watts=watts) for place, watts in enumerate(values)]
    table.replace(numbers.give("berlin", "n1"), rows)
    assert [row.power_watts for row in table.rows(table.positions(), NOW)] == [None] * 4


def test_short_lived_names_do_not_fill_the_memory() -> None:
    numbers = NodeNumbers()
    table = ColumnTable(
        PodRow, ("cluster", "node", "namespace", "pod", "container", "device"), numbers=numbers
    )
    for turn in range(10_000):
        rows = [
            PodRow(
                cluster="berlin",
                node="n1",
                namespace="team",
                pod=f"job-{turn}-{place}",
                container="main",
                device="nvidia:a",
                vendor="nvidia",
                source="agents",
                state="fresh",
                taken_at=0.0,
            )
            for place in range(1 + turn % 3)
        ]
        table.replace(numbers.give("berlin", "n1"), rows)
        table.settle()
    assert len(table.texts("pod")) < 4000
    assert len(table.live()) < 10_000
    assert table.select(RowQuery(search="JOB-9999-0")).total == 1
    assert table.select(RowQuery(search="job-9998-")).total == 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            RowQuery(where=(Condition("colour", "=", "red"),)),
            "'colour' is not a field of a node; allowed: cluster,",
        ),
        (RowQuery(sort=(Sort("colour"),)), "'colour' is not a field"),
        (RowQuery(where=(Condition("devices", "=", "many"),)), "'many' is not a number"),
        (RowQuery(where=(Condition("state", "=", 3),)), "3 is not a text"),
        (RowQuery(where=(Condition("state", "in", "fresh"),)), "needs a list of values"),
        (RowQuery(where=(Condition("state", "=", ["fresh"]),)), "needs one value"),
        (RowQuery(where=(Condition("devices", "contains", 1),)), "applies to texts"),
        (RowQuery(limit=0), "at least 1"),
        (RowQuery(after=("berlin",)), "has 1 values, the sort order 2"),
        (RowQuery(after=("berlin", 7)), "does not match the sort order: node is 7"),
        (RowQuery(sort=(Sort("devices"),), after=("many", "berlin", "n1")), "does not match the sort order"),
    ],
)
def test_the_error_of_an_invalid_query_lists_what_is_allowed(query: RowQuery, expected: str) -> None:
    table = ColumnTable(NodeRow, ("cluster", "node"))
    with pytest.raises(QueryError, match=expected):
        table.select(query)


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("H100", {"a"}),
        ("h100 pc", {"a"}),
        ("é", {"b"}),
        ("N1", {"a", "b"}),
        ("nothing", set()),
        ("\0", set()),
    ],
)
def test_search_finds_a_part_of_any_text_ignoring_case(search: str, found: set[str]) -> None:
    table, numbers = device_table()
    rows = [_row("a", model="H100 PCIe"), _row("b", model="É")]
    table.replace(numbers.give("berlin", "n1"), rows)
    seen = table.rows(table.select(RowQuery(search=search)).positions, NOW)
    assert {row.id for row in seen} == found


@pytest.mark.parametrize("row_type", [NodeRow, DeviceRow, PodRow, ProcessRow])
def test_every_field_of_a_row_is_a_column(row_type: type[Any]) -> None:
    table: ColumnTable[Any] = ColumnTable(row_type, ("cluster", "node"), clock=lambda: NOW)
    for field in row_type.__struct_fields__:
        assert len(table.column(field)) == 0


def test_columns_are_returned_for_all_rows_or_for_selected_ones() -> None:
    table, numbers = device_table()
    table.replace(numbers.give("berlin", "n1"), [_row("a", index=0), _row("b", index=1), _row("c")])
    assert np.array_equal(table.column("index"), [0, 1, np.nan], equal_nan=True)
    some = table.select(RowQuery(where=(Condition("index", ">", 0),))).positions
    assert [table.texts("id").texts[code] for code in table.column("id", some)] == ["b"]
    assert table.column("age_seconds").tolist() == [NOW] * 3


def _process(node: str, pid: int) -> ProcessRow:
    return ProcessRow(
        cluster="berlin",
        node=node,
        pid=pid,
        device="x",
        vendor="nvidia",
        source="agents",
        state="fresh",
        taken_at=0.0,
    )


def _row(id_: str, **fields: Any) -> DeviceRow:
    return DeviceRow(
        **{
            "cluster": "berlin",
            "node": "n1",
            "id": id_,
            "vendor": "nvidia",
            "source": "agents",
            "state": "fresh",
            "taken_at": 0.0,
            "health": "ok",
            **fields,
        }
    )
