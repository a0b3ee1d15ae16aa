"""Tables of nodes, devices, pods and processes: filters, sorting and pages."""

import base64
import binascii
import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any, Generic, Literal, TypeVar, cast, get_args

import msgspec
from msgspec import Meta, Struct

from accelscope.config.values import Choice, Decimal, WholeNumber
from accelscope.fleet.api.parameter import FLAG, TEXT, WHOLE, BoundedText, Parameter, one_of, several
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.rows import DeviceRow, NodeRow, PodRow, ProcessRow, Row
from accelscope.fleet.store.node_rows import FRESH, INCOMPATIBLE, STALE, UNREAD
from accelscope.fleet.store.query import AGE, Condition, Query, QueryError, Selection, Sort
from accelscope.fleet.store.table import Table
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


def write_cursor(question: str, after: After) -> str:
    content = msgspec.json.encode([_fingerprint(question), *after])
    return base64.urlsafe_b64encode(_checksum(content) + content).decode().rstrip("=")


def read_cursor(question: str, cursor: str) -> After:
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
    if fingerprint != _fingerprint(question):
        raise bad_cursor("it was made with other parameters; keep filters and sort the same for all pages")
    if any(isinstance(value, float) and not math.isfinite(value) for value in after):
        raise bad_cursor(_DAMAGED)
    return tuple(after)


def _fingerprint(question: str) -> str:
    return hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


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
class Column:
    """A field of a row as a filter sees it."""

    name: str
    kind: Literal["text", "whole", "number", "flag"]
    words: tuple[str, ...]  # possible values; empty: any
    listed: bool  # several words separated by commas


def columns(row: type[Struct]) -> tuple[Column, ...]:
    found = []
    for field in msgspec.structs.fields(row):
        words = _WORDS.get((row, field.name), ())
        if not words and field.name in _ENUMS:
            words = tuple(_ENUMS[field.name])
        listed = field.name in _LISTED or (row is NodeRow and field.name == "source")
        found.append(Column(field.name, _KINDS[_plain_type(field.type)], words, listed))
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


def list_query(row: type[Struct], call: Call) -> Query:
    """Raises Problem for an invalid cursor."""
    given = call.values["cursor"]
    return Query(
        where=conditions(row, call),
        search=call.values["q"],
        sort=tuple(Sort(text.removeprefix("-"), text.startswith("-")) for text in call.values["sort"]),
        after=None if given is None else read_cursor(call.question, given),
        limit=call.values["limit"],
    )


def _column_conditions(column: Column, values: Mapping[str, Any]) -> list[Condition]:
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
At = Annotated[float, Meta(description="time of the answer, in seconds since the epoch")]
Next = Annotated[str | None, Meta(description="cursor of the next page; null: this is the last page")]


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    items: list[T]
    total: Annotated[int, Meta(description="number of rows on all pages")]
    next: Next
    generation: Generation
    at: At


def selected(table: Table[Any], query: Query) -> Selection:
    """Raises Problem. Only the cursor can be wrong: all other parameters were checked."""
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
class _Key:
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
    sort = [_Key(word.removeprefix("-"), word.startswith("-")) for word in call.values["sort"]]
    keys = [*sort, *map(_Key, identity)]
    ordered = _sorted(items, sort)
    start = 0
    if (given := call.values["cursor"]) is not None:
        start = _first_after(ordered, keys, read_cursor(call.question, given))
    shown = ordered[start : start + call.values["limit"]]
    if not shown or start + len(shown) >= len(ordered):
        return shown, None
    return shown, write_cursor(call.question, tuple(key.value(shown[-1]) for key in keys))


def _sorted(items: Sequence[S], keys: Sequence[_Key]) -> list[S]:
    ordered = list(items)
    for key in reversed(keys):
        valued = [(key.value(item), item) for item in ordered]
        known = [pair for pair in valued if pair[0] is not None]
        known.sort(key=lambda pair: pair[0], reverse=key.descending)  # type: ignore[arg-type,return-value]
        ordered = [item for _, item in known] + [item for value, item in valued if value is None]
    return ordered


def _first_after(ordered: Sequence[Struct], keys: Sequence[_Key], after: After) -> int:
    if len(after) != len(keys):
        raise bad_cursor(NO_PLACE)

    def is_after(item: Struct) -> bool:
        for key, place in zip(keys, after, strict=True):
            if compared := key.compare(item, place):
                return compared > 0
        return False

    return bisect_left(ordered, True, key=is_after)
