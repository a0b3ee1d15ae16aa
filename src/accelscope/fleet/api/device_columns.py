"""Devices column by column: a compact answer for charts of tens of thousands of devices.

Text columns are codes into a list of distinct texts. Columns are copied in the event loop and encoded in a
thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from accelscope.config.values import Choice
from accelscope.fleet.api.parameter import Parameter, several
from accelscope.fleet.api.route import Call, EncodedAnswer, Route, ThreadedAnswer
from accelscope.fleet.api.tables import At, Generation, columns, conditions, filter_parameters
from accelscope.fleet.rows import DeviceRow
from accelscope.fleet.store.query import Positions, Query
from accelscope.fleet.store.table import Table
from accelscope.fleet.store.texts import ABSENT

Array = npt.NDArray[Any]

_LIMIT = 2.0**63


def countable(values: Array) -> Array:
    """Replaces values outside the range of 64-bit integers by NaN, which means absent. JSON has no
    infinity."""
    return np.where(np.abs(values) < _LIMIT, values, np.nan)


class CopiedColumns:
    """A copy of some rows, taken in the event loop and read in a thread.

    Lists are made column by column. The interpreter can switch threads only between such calls, so each must
    not take longer than a few milliseconds.
    """

    def __init__(
        self, table: Table[Any], positions: Positions, fields: Sequence[str], *, sorted_by: Sequence[str] = ()
    ) -> None:
        self.nodes = table.nodes(positions)  # the node number of each row
        self._values: dict[str, Array] = {}
        self._texts: dict[str, Sequence[str | None]] = {}
        self._ranks: dict[str, Array] = {}
        for field in fields:
            self._values[field] = table.column(field, positions)
            if table.is_text(field):
                self._texts[field] = tuple(table.texts(field).texts)
                if field in sorted_by:
                    self._ranks[field] = table.texts(field).ranks()

    def __len__(self) -> int:
        return len(self.nodes)

    def reorder(self, order: Array) -> None:
        self.nodes = self.nodes[order]
        self._values = {field: values[order] for field, values in self._values.items()}

    def keys(self, field: str) -> Array:
        """Sort keys; absent values come last. Text needs to be in `sorted_by`."""
        values = self._values[field]
        return self._ranks[field][values] if field in self._ranks else values

    def text(self, field: str) -> list[Any]:
        return list(map(self._texts[field].__getitem__, self._values[field].tolist()))

    def equals(self, field: str, word: str) -> list[bool]:
        texts = self._texts[field]
        equal: list[bool] = (self._values[field] == (texts.index(word) if word in texts else -1)).tolist()
        return equal

    def number(self, field: str, factor: float = 1.0) -> list[Any]:
        """Rounded to one decimal; integers for whole numbers, since some clients accept only those."""
        values = np.round(countable(countable(self._values[field]) * factor), 1)
        gaps = np.isnan(values)
        if gaps.all():
            return [None] * len(values)
        if (values == np.floor(values)).all():
            whole: list[int] = values.astype(np.int64).tolist()
            return whole
        return [
            None if gap else int(value) if value.is_integer() else value
            for value, gap in zip(values.tolist(), gaps.tolist(), strict=True)
        ]

    def flags(self, field: str) -> list[bool]:
        flags: list[bool] = (self._values[field] == 1).tolist()
        return flags

    def ages(self, now: float) -> list[float | None]:
        ages = np.round(np.maximum(0.0, now - self._values["taken_at"]), 3)
        gaps = np.isnan(ages).tolist()
        return [None if gap else age for age, gap in zip(ages.tolist(), gaps, strict=True)]


_NAMES = tuple(column.name for column in columns(DeviceRow))
_KINDS = {column.name: column.kind for column in columns(DeviceRow)}
_DEFAULT_FIELDS = (
    *("cluster", "node", "id", "index", "vendor", "model", "state", "simulated", "health"),
    *("utilization_ratio", "memory_used_bytes", "memory_total_bytes", "temperature_celsius", "power_watts"),
)

_Copy: TypeAlias = tuple[np.ndarray[Any, Any], Sequence[str | None]]


class TextColumn(Struct, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    texts: Annotated[list[str], Meta(description="the distinct texts")]
    codes: Annotated[list[int | None], Meta(description="for each row an index into `texts`")]


class NumberColumn(Struct, frozen=True, kw_only=True, tag_field="kind", tag="number"):
    values: Annotated[list[int | float | None], Meta(description="one value for each row")]


class FlagColumn(Struct, frozen=True, kw_only=True, tag_field="kind", tag="flag"):
    values: Annotated[list[bool | None], Meta(description="one value for each row")]


class Columns(Struct, frozen=True, kw_only=True):
    rows: Annotated[int, Meta(description="number of rows in every column")]
    fields: Annotated[
        dict[str, TextColumn | NumberColumn | FlagColumn], Meta(description="the requested columns")
    ]
    generation: Generation
    at: At


def device_columns(call: Call) -> ThreadedAnswer:
    table = call.fleet.store.devices
    query = Query(where=conditions(DeviceRow, call), search=call.values["q"])
    # In table order: the devices of a node are adjacent, in the order of its snapshot.
    positions = table.matching(query)
    copies: dict[str, _Copy] = {}
    for name in call.values["fields"]:
        texts = tuple(table.texts(name).texts) if table.is_text(name) else ()
        copies[name] = (table.column(name, positions), texts)
    generation, now = call.generation, call.now

    def make() -> EncodedAnswer:
        return EncodedAnswer(_encoded(copies, len(positions), generation, now))

    return ThreadedAnswer(make)


def _encoded(copies: Mapping[str, _Copy], rows: int, generation: int, now: float) -> Iterator[bytes]:
    """`Columns` as JSON, one piece per column."""
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
    # msgspec encodes NaN as null.
    return NumberColumn(values=np.round(values, 3).tolist())


def _text_column(codes: np.ndarray[Any, Any], texts: Sequence[str | None]) -> TextColumn:
    """Only the texts that occur, renumbered."""
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
        summary="All selected devices, column by column",
        description="For charts over the whole fleet: no pages, only the requested fields.",
        tag="tables",
        answer=Columns,
        handle=device_columns,
        parameters=(
            Parameter(
                name="fields",
                kind=several(Choice(*_NAMES), len(_NAMES)),
                default=_DEFAULT_FIELDS,
                description="columns to return",
            ),
            *filter_parameters(DeviceRow),
        ),
        cached=True,
    ),
)
