"""Rows of nodes, devices, pods and processes: filtered, sorted, in pages."""

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta, Struct

from accelscope.fleet.api.cursor import bad_cursor, write_cursor
from accelscope.fleet.api.filters import list_parameters, list_query
from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.rows import DeviceRow, NodeRow, PodRow, ProcessRow, Row
from accelscope.fleet.store.query import Query, QueryError, Selection
from accelscope.fleet.store.table import Table

R = TypeVar("R", bound=Row)
T = TypeVar("T")

Generation = Annotated[int, Meta(description="grows with every change of what the caller can see")]
At = Annotated[float, Meta(description="when this was answered, seconds since the epoch")]
Next = Annotated[str | None, Meta(description="cursor of the next page; null: this is the last")]


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    items: list[T]
    total: Annotated[int, Meta(description="rows on all pages together")]
    next: Next
    generation: Generation
    at: At


def selected(table: Table[Any], query: Query) -> Selection:
    """Raises Problem: what does not fit the table is a cursor's place, since all else was checked."""
    try:
        return table.select(query)
    except QueryError as error:
        raise bad_cursor(str(error)) from None


def page(call: Call, table: Table[R], row: type[R]) -> Page[R]:
    found = selected(table, list_query(row, call))
    return Page(
        items=table.rows(found.positions, call.now),
        total=found.total,
        next=None if found.after is None else write_cursor(call.question, found.after),
        generation=call.generation,
        at=call.now,
    )


def _route(row: type[R], name: str, summary: str, table: Callable[[Call], Table[R]]) -> Route:
    return Route(
        path=f"/api/v1/{name}",
        summary=summary,
        tag="tables",
        answer=Page[row],  # type: ignore[valid-type]
        handle=lambda call: page(call, table(call), row),
        parameters=list_parameters(row),
        problems=(ProblemKind.BAD_CURSOR,),
        cached=True,
    )


ROUTES = (
    _route(NodeRow, "nodes", "Nodes that have accelerators, or should", lambda call: call.fleet.store.nodes),
    _route(DeviceRow, "devices", "Devices of every vendor", lambda call: call.fleet.store.devices),
    _route(
        PodRow,
        "pods",
        "Containers of pods, one row for each device they have",
        lambda call: call.fleet.store.pods,
    ),
    _route(ProcessRow, "processes", "Processes on devices", lambda call: call.fleet.store.processes),
)
