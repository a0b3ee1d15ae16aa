"""Devices column by column: for maps of tens of thousands of them, as small as they get.

Text comes as codes into a dictionary of its own. Columns are copied at once and encoded in a thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct

from accelscope.config.values import Choice
from accelscope.fleet.api.copied_columns import countable
from accelscope.fleet.api.filters import columns, conditions, filter_parameters
from accelscope.fleet.api.parameter import Parameter, several
from accelscope.fleet.api.route import Call, Document, Large, Route
from accelscope.fleet.api.tables import At, Generation
from accelscope.fleet.rows import DeviceRow
from accelscope.fleet.store.query import Query
from accelscope.fleet.store.texts import ABSENT

_NAMES = tuple(column.name for column in columns(DeviceRow))
_KINDS = {column.name: column.kind for column in columns(DeviceRow)}
_DEFAULT = (
    *("cluster", "node", "id", "index", "vendor", "model", "state", "simulated", "health"),
    *("utilization_ratio", "memory_used_bytes", "memory_total_bytes", "temperature_celsius", "power_watts"),
)

_Copy: TypeAlias = tuple[np.ndarray[Any, Any], Sequence[str | None]]


class TextColumn(Struct, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    texts: Annotated[list[str], Meta(description="each text once")]
    codes: Annotated[list[int | None], Meta(description="by row: a place in `texts`; null: not known")]


class NumberColumn(Struct, frozen=True, kw_only=True, tag_field="kind", tag="number"):
    values: Annotated[list[int | float | None], Meta(description="by row; null: not known")]


class FlagColumn(Struct, frozen=True, kw_only=True, tag_field="kind", tag="flag"):
    values: Annotated[list[bool | None], Meta(description="by row; null: not known")]


class Columns(Struct, frozen=True, kw_only=True):
    rows: Annotated[int, Meta(description="length of every column")]
    fields: Annotated[
        dict[str, TextColumn | NumberColumn | FlagColumn], Meta(description="those that were asked for")
    ]
    generation: Generation
    at: At


def device_columns(call: Call) -> Large:
    table = call.fleet.store.devices
    query = Query(where=conditions(DeviceRow, call), search=call.values["q"])
    # By place in the table: devices of a node come together, in the order in which the node lists them.
    positions = table.matching(query)
    copies: dict[str, _Copy] = {}
    for name in call.values["fields"]:
        texts = tuple(table.texts(name).texts) if table.is_text(name) else ()
        copies[name] = (table.column(name, positions), texts)
    generation, now = call.generation, call.now

    def make() -> Document:
        return Document(_encoded(copies, len(positions), generation, now))

    return Large(make)


def _encoded(copies: Mapping[str, _Copy], rows: int, generation: int, now: float) -> Iterator[bytes]:
    """As `Columns` says, a column a piece."""
    before = f'{{"rows":{rows},"generation":{generation},"at":{now},"fields":{{'
    for name, copy in copies.items():
        yield f'{before}"{name}":'.encode() + msgspec.json.encode(_column(_KINDS[name], *copy))
        before = ","
    yield b"}}"


def _column(
    kind: str, values: np.ndarray[Any, Any], texts: Sequence[str | None]
) -> TextColumn | NumberColumn | FlagColumn:
    if kind == "text":
        return _text_column(values, texts)
    values = countable(values)
    absent = np.isnan(values)
    if kind == "flag":
        flags = [None if gap else bool(v) for v, gap in zip(values.tolist(), absent.tolist(), strict=True)]
        return FlagColumn(values=flags)
    if kind == "whole" and not absent.any():
        return NumberColumn(values=values.astype(np.int64).tolist())
    # NaN, the table's absence, is encoded as null.
    return NumberColumn(values=np.round(values, 3).tolist())


def _text_column(codes: np.ndarray[Any, Any], texts: Sequence[str | None]) -> TextColumn:
    """Only texts that occur, numbered anew."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(texts)))
    known = used[used != ABSENT]
    places = np.full(len(texts), -1, np.int64)
    places[known] = np.arange(len(known))
    dense: list[Any] = places[codes].tolist()
    if len(known) < len(used):
        dense = [None if place < 0 else place for place in dense]
    return TextColumn(texts=list(map(texts.__getitem__, known.tolist())), codes=dense)  # type: ignore[arg-type]


ROUTES = (
    Route(
        path="/api/v1/devices/columns",
        summary="All devices that are meant, column by column",
        description="For maps and charts over the whole fleet: no pages, only the fields that are asked for.",
        tag="tables",
        answer=Columns,
        handle=device_columns,
        parameters=(
            Parameter(
                name="fields",
                kind=several(Choice(*_NAMES), len(_NAMES)),
                default=_DEFAULT,
                description="columns that are wanted",
            ),
            *filter_parameters(DeviceRow),
        ),
        cached=True,
    ),
)
