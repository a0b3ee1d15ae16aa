"""Devices column by column: for maps of tens of thousands of them, as small as they get.

Text comes as codes into a dictionary of its own. Columns are copied at once and encoded in a thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from accelscope.config.values import Choice
from accelscope.fleet.api.parameter import Parameter, several
from accelscope.fleet.api.route import Call, Document, Large, Route
from accelscope.fleet.api.tables import At, Generation, columns, conditions, filter_parameters
from accelscope.fleet.rows import DeviceRow
from accelscope.fleet.store.query import Positions, Query
from accelscope.fleet.store.table import Table
from accelscope.fleet.store.texts import ABSENT

# --- copied columns ------------------------------------------------------------
# Columns taken out of a table: answers are made of them in a thread, whatever the table does meanwhile.


Array = npt.NDArray[Any]

_LIMIT = 2.0**63


def countable(values: Array) -> Array:
    """NaN, absence, in the place of what no whole number of 64 bits is near: JSON has no infinity, and the
    edge of the range is nothing that was measured."""
    return np.where(np.abs(values) < _LIMIT, values, np.nan)


class CopiedColumns:
    """Values of some rows. Taken in the loop, where it is quick; read in a thread, where it may take a while.

    Lists are made by calls that go over a whole column at once. The interpreter changes threads between such
    calls only, so each must stay a matter of milliseconds: a column is, all of an answer would not be.
    """

    def __init__(
        self, table: Table[Any], positions: Positions, fields: Sequence[str], *, sorted_by: Sequence[str] = ()
    ) -> None:
        self.nodes = table.nodes(positions)  # by row, the number of its node
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

    def put_in_order(self, order: Array) -> None:
        self.nodes = self.nodes[order]
        self._values = {field: values[order] for field, values in self._values.items()}

    def keys(self, field: str) -> Array:
        """To sort by, if it was said beforehand: what is absent comes last."""
        values = self._values[field]
        return self._ranks[field][values] if field in self._ranks else values

    def text(self, field: str) -> list[Any]:
        return list(map(self._texts[field].__getitem__, self._values[field].tolist()))

    def is_(self, field: str, word: str) -> list[bool]:
        """Whether the text is this one."""
        texts = self._texts[field]
        said: list[bool] = (self._values[field] == (texts.index(word) if word in texts else -1)).tolist()
        return said

    def number(self, field: str, factor: float = 1.0) -> list[Any]:
        """One decimal; a whole number without one, since some callers take nothing else."""
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
