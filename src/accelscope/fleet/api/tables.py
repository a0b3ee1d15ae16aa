"""Tables of nodes, devices, pods and processes: filters, sorting and pages, and devices column by column."""

import base64
import binascii
import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, cast, get_args

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from accelscope.config.values import Choice, Decimal, WholeNumber
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.route import (
    FLAG,
    TEXT,
    WHOLE,
    ApiRoute,
    BoundedText,
    Call,
    EncodedResponse,
    Parameter,
    ThreadedResponse,
    one_of,
    several,
)
from accelscope.fleet.rows import DeviceRow, NodeRow, PodRow, ProcessRow, Row
from accelscope.fleet.store.node_rows import FRESH, INCOMPATIBLE, STALE, UNREAD
from accelscope.fleet.store.query import (
    ABSENT,
    AGE,
    Condition,
    Positions,
    QueryError,
    RowQuery,
    Selection,
    Sort,
)
from accelscope.fleet.store.table import ColumnTable
from accelscope.model import HealthState, ProcessType, Vendor

# --- Cursors --------------------------------------------------------------------
#
# A cursor is opaque and stateless, and valid only with the filters and the order that it was made for. It
# contains the sort keys of the last row and not an offset, so that rows that come and go do not shift the
# next page. The checksum detects truncated cursors. It is no signature: the rights of the caller are checked
# with every request.


After = tuple[str | float | None, ...]

LENGTH_LIMIT = 4096  # characters
_CHECKSUM_BYTES = 6
_DAMAGED = "it is truncated or mistyped"

NO_PLACE = "it does not fit this list"


def write_cursor(query_key: str, after: After) -> str:
    content = msgspec.json.encode([_fingerprint(query_key), *after])
    return base64.urlsafe_b64encode(_checksum(content) + content).decode().rstrip("=")


def read_cursor(query_key: str, cursor: str) -> After:
    """Raises Problem."""
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise bad_cursor(_DAMAGED) from None
    checksum, content = packed[:_CHECKSUM_BYTES], packed[_CHECKSUM_BYTES:]
    if checksum != _checksum(content):
        raise bad_cursor(_DAMAGED)
    try:
        fingerprint, *after = msgspec.json.decode(content, type=list[str | float | None])
    except (msgspec.DecodeError, ValueError):
        raise bad_cursor(_DAMAGED) from None
    if fingerprint != _fingerprint(query_key):
        raise bad_cursor("it was made with other parameters; keep filters and sort the same for all pages")
    if any(isinstance(value, float) and not math.isfinite(value) for value in after):
        raise bad_cursor(_DAMAGED)
    return tuple(after)


def _fingerprint(query_key: str) -> str:
    return hashlib.blake2b(query_key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES, person=b"cursor").digest()


def bad_cursor(why: str) -> Problem:
    return Problem(ProblemKind.BAD_CURSOR, f"the cursor cannot be used: {why}", parameter="cursor")


# --- Filters, search, sort and pages of a table, made from the fields of its rows ---
#
# A filter takes several values of which one must match. Numbers also have a minimum (`_min`) and a maximum
# (`_max`). Fields that contain several words are matched word by word.


LIMIT_DEFAULT = 100
LIMIT_MOST = 1000
SORTS_LIMIT = 4

_KINDS: dict[type, Literal["text", "whole", "number", "flag"]] = {
    str: "text",
    int: "whole",
    float: "number",
    bool: "flag",
}
_LISTED = frozenset(
    {"vendors", "models", "namespaces", "resources", "throttled"}
)  # words separated by commas
_FRESHNESS = (FRESH, STALE)
_WORDS: dict[tuple[type[Struct], str], tuple[str, ...]] = {
    (NodeRow, "state"): (*_FRESHNESS, INCOMPATIBLE, UNREAD),
    (DeviceRow, "state"): _FRESHNESS,
    (PodRow, "state"): _FRESHNESS,
    (ProcessRow, "state"): _FRESHNESS,
}
_ENUMS: dict[str, type[StrEnum]] = {"vendor": Vendor, "health": HealthState, "type": ProcessType}


@dataclass(frozen=True, slots=True)
class FilterColumn:
    """A field of a row as a filter sees it."""

    name: str
    kind: Literal["text", "whole", "number", "flag"]
    words: tuple[str, ...]  # possible values; empty: any
    listed: bool  # several words separated by commas


def columns(row: type[Struct]) -> tuple[FilterColumn, ...]:
    found = []
    for field in msgspec.structs.fields(row):
        words = _WORDS.get((row, field.name), ())
        if not words and field.name in _ENUMS:
            words = tuple(_ENUMS[field.name])
        listed = field.name in _LISTED or (row is NodeRow and field.name == "source")
        found.append(FilterColumn(field.name, _KINDS[_plain_type(field.type)], words, listed))
    return tuple(found)


def _plain_type(annotation: Any) -> type:
    """`float` for `Annotated[float | None, …]`."""
    if hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    options = [option for option in get_args(annotation) if option is not type(None)] or [annotation]
    return cast(type, options[0])


def filter_parameters(row: type[Struct]) -> tuple[Parameter, ...]:
    """Parameters that select rows: without sort and pages."""
    made: list[Parameter] = []
    for column in columns(row):
        if column.kind == "flag":
            made.append(Parameter(name=column.name, kind=FLAG, description="only rows with this value"))
        elif column.kind == "text":
            matched = "the list contains one of these" if column.listed else "is one of these"
            made.append(Parameter(name=column.name, kind=several(one_of(column.words)), description=matched))
        else:
            number = WHOLE if column.kind == "whole" else Decimal()
            if column.name != AGE:  # changes all the time: an exact value never matches
                made.append(Parameter(name=column.name, kind=several(number), description="is one of these"))
            made.append(Parameter(name=f"{column.name}_min", kind=Decimal(), description="is at least this"))
            made.append(Parameter(name=f"{column.name}_max", kind=Decimal(), description="is at most this"))
    names = Choice(*(column.name for column in columns(row)))
    made.append(Parameter(name="present", kind=several(names), description="these fields are not null"))
    made.append(Parameter(name="absent", kind=several(names), description="these fields are null"))
    made.append(Parameter(name="q", kind=TEXT, description="any text field contains this; case-insensitive"))
    return tuple(made)


def page_parameters(limit_default: int = LIMIT_DEFAULT) -> tuple[Parameter, ...]:
    return (
        Parameter(
            name="limit",
            kind=WholeNumber(1, LIMIT_MOST),
            default=limit_default,
            description="number of items per page",
        ),
        Parameter(
            name="cursor",
            kind=BoundedText(LENGTH_LIMIT),
            description="`next` of the previous page; all other parameters except `limit` must be the same",
        ),
    )


def sort_parameter(row: type[Struct]) -> Parameter:
    names = [column.name for column in columns(row)]
    sorts = Choice(*(sign + name for name in names for sign in ("", "-")))
    return Parameter(
        name="sort",
        kind=several(sorts, SORTS_LIMIT),
        default=(),
        description="fields to sort by; `-` before a field sorts in descending order; null comes last",
    )


def list_parameters(row: type[Struct]) -> tuple[Parameter, ...]:
    return (*filter_parameters(row), sort_parameter(row), *page_parameters())


def conditions(row: type[Struct], call: Call) -> tuple[Condition, ...]:
    """The filters of the request, and the clusters that the caller may see."""
    made = list(visible(call))
    values = call.values
    for column in columns(row):
        made += _column_conditions(column, values)
    made += [Condition(name, "present") for name in values.get("present") or ()]
    made += [Condition(name, "absent") for name in values.get("absent") or ()]
    return tuple(made)


def visible(call: Call) -> tuple[Condition, ...]:
    if call.caller.clusters is None:
        return ()
    return (Condition("cluster", "in", tuple(sorted(call.caller.clusters))),)


def filters_by_age(values: Mapping[str, Any]) -> bool:
    """Whether rows are filtered by age. The result then changes without a change of the store's
    generation."""
    return any(values.get(f"{AGE}_{bound}") is not None for bound in ("min", "max"))


def list_query(row: type[Struct], call: Call) -> RowQuery:
    """Raises Problem for an invalid cursor."""
    given = call.values["cursor"]
    return RowQuery(
        where=conditions(row, call),
        search=call.values["q"],
        sort=tuple(Sort(text.removeprefix("-"), text.startswith("-")) for text in call.values["sort"]),
        after=None if given is None else read_cursor(call.query_key, given),
        limit=call.values["limit"],
    )


def _column_conditions(column: FilterColumn, values: Mapping[str, Any]) -> list[Condition]:
    made = []
    value = values.get(column.name)
    if value is not None:
        if column.kind == "flag":
            made.append(Condition(column.name, "=", float(value)))
        else:
            made.append(Condition(column.name, "has" if column.listed else "in", value))
    if (least := values.get(f"{column.name}_min")) is not None:
        made.append(Condition(column.name, ">=", least))
    if (most := values.get(f"{column.name}_max")) is not None:
        made.append(Condition(column.name, "<=", most))
    return made


R = TypeVar("R", bound=Row)
T = TypeVar("T")

Generation = Annotated[int, Meta(description="increases with every change that the caller can see")]
At = Annotated[float, Meta(description="time of the response, in seconds since the epoch")]
Next = Annotated[str | None, Meta(description="cursor of the next page; null: this is the last page")]


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    items: list[T]
    total: Annotated[int, Meta(description="number of rows on all pages")]
    next: Next
    generation: Generation
    at: At


def selected(table: ColumnTable[Any], query: RowQuery) -> Selection:
    """Raises Problem. Only the cursor can be wrong: all other parameters were checked."""
    try:
        return table.select(query)
    except QueryError as error:
        raise bad_cursor(str(error)) from None


def page(call: Call, table: ColumnTable[R], row: type[R]) -> Page[R]:
    found = selected(table, list_query(row, call))
    return Page(
        items=table.rows(found.positions, call.now),
        total=found.total,
        next=None if found.after is None else write_cursor(call.query_key, found.after),
        generation=call.generation,
        at=call.now,
    )


def _route(row: type[R], name: str, summary: str, table: Callable[[Call], ColumnTable[R]]) -> ApiRoute:
    return ApiRoute(
        path=f"/api/v1/{name}",
        summary=summary,
        tag="tables",
        response=Page[row],  # type: ignore[valid-type]
        handle=lambda call: page(call, table(call), row),
        parameters=list_parameters(row),
        problems=(ProblemKind.BAD_CURSOR,),
        cached=True,
    )


TABLE_ROUTES = (
    _route(
        NodeRow,
        "nodes",
        "Nodes that have accelerators or are expected to have them",
        lambda call: call.fleet.store.nodes,
    ),
    _route(DeviceRow, "devices", "Devices of every vendor", lambda call: call.fleet.store.devices),
    _route(
        PodRow,
        "pods",
        "Containers of pods, one row for each device",
        lambda call: call.fleet.store.pods,
    ),
    _route(ProcessRow, "processes", "Processes on devices", lambda call: call.fleet.store.processes),
)


# --- Pages of lists that are computed for each request: groups, namespaces ------


S = TypeVar("S", bound=Struct)


@dataclass(frozen=True, slots=True)
class ItemSortKey:
    """One sort key; null comes last in both directions."""

    field: str
    descending: bool = False

    def value(self, item: Struct) -> str | float | None:
        """The value as a cursor contains it."""
        value = getattr(item, self.field)
        if value is None or isinstance(value, str):
            return value
        number = float(value)
        return number if isfinite(number) else None

    def compare(self, item: Struct, place: str | float | None) -> int:
        """Negative: the item comes before `place`; positive: after it."""
        value = self.value(item)
        if value == place:
            return 0
        if value is None or place is None:
            return 1 if value is None else -1
        if isinstance(value, str) != isinstance(place, str):
            raise bad_cursor(NO_PLACE)
        larger: bool = value > place  # type: ignore[operator]
        return 1 if larger != self.descending else -1


def short_page(call: Call, items: Sequence[S], identity: Sequence[str]) -> tuple[list[S], str | None]:
    """One page and the cursor of the next. The cursor contains the sort keys and the identity of the last
    item, so that items that come, go or move neither hide nor repeat others. `items` are ordered by identity.
    Raises Problem."""
    sort = [ItemSortKey(word.removeprefix("-"), word.startswith("-")) for word in call.values["sort"]]
    keys = [*sort, *map(ItemSortKey, identity)]
    ordered = _sorted(items, sort)
    start = 0
    if (given := call.values["cursor"]) is not None:
        start = _first_after(ordered, keys, read_cursor(call.query_key, given))
    shown = ordered[start : start + call.values["limit"]]
    if not shown or start + len(shown) >= len(ordered):
        return shown, None
    return shown, write_cursor(call.query_key, tuple(key.value(shown[-1]) for key in keys))


def _sorted(items: Sequence[S], keys: Sequence[ItemSortKey]) -> list[S]:
    ordered = list(items)
    for key in reversed(keys):
        valued = [(key.value(item), item) for item in ordered]
        known = [pair for pair in valued if pair[0] is not None]
        known.sort(key=lambda pair: pair[0], reverse=key.descending)  # type: ignore[arg-type,return-value]
        ordered = [item for _, item in known] + [item for value, item in valued if value is None]
    return ordered


def _first_after(ordered: Sequence[Struct], keys: Sequence[ItemSortKey], after: After) -> int:
    if len(after) != len(keys):
        raise bad_cursor(NO_PLACE)

    def is_after(item: Struct) -> bool:
        for key, place in zip(keys, after, strict=True):
            if compared := key.compare(item, place):
                return compared > 0
        return False

    return bisect_left(ordered, True, key=is_after)


# --- Devices column by column -------------------------------------------------
#
# A compact response for charts of tens of thousands of devices. Text columns are codes into a list of
# distinct texts. Columns are copied in the event loop and encoded in a thread.

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
        self,
        table: ColumnTable[Any],
        positions: Positions,
        fields: Sequence[str],
        *,
        sorted_by: Sequence[str] = (),
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
_DEVICE_KINDS = {column.name: column.kind for column in columns(DeviceRow)}
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


def device_columns(call: Call) -> ThreadedResponse:
    table = call.fleet.store.devices
    query = RowQuery(where=conditions(DeviceRow, call), search=call.values["q"])
    # In table order: the devices of a node are adjacent, in the order of its snapshot.
    positions = table.matching(query)
    copies: dict[str, _Copy] = {}
    for name in call.values["fields"]:
        texts = tuple(table.texts(name).texts) if table.is_text(name) else ()
        copies[name] = (table.column(name, positions), texts)
    generation, now = call.generation, call.now

    def make() -> EncodedResponse:
        return EncodedResponse(_encoded(copies, len(positions), generation, now))

    return ThreadedResponse(make)


def _encoded(copies: Mapping[str, _Copy], rows: int, generation: int, now: float) -> Iterator[bytes]:
    """`Columns` as JSON, one piece per column."""
    before = f'{{"rows":{rows},"generation":{generation},"at":{now},"fields":{{'
    for name, copy in copies.items():
        yield f'{before}"{name}":'.encode() + msgspec.json.encode(_column(_DEVICE_KINDS[name], *copy))
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


DEVICE_COLUMN_ROUTES = (
    ApiRoute(
        path="/api/v1/devices/columns",
        summary="All selected devices, column by column",
        description="For charts over the whole fleet: no pages, only the requested fields.",
        tag="tables",
        response=Columns,
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
