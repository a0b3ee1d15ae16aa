"""Rows of nodes, devices, pods and processes: filtered, sorted, in pages."""

import base64
import binascii
import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args

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

# --- cursor ------------------------------------------------------------
# Where the next page begins: opaque, stateless, and of use with the question that it was made for only.
#
# It holds the values of the last row in the order of the sort, not a position: rows that come and go in
# between shift nothing. The sum tells a cut or mistyped cursor from a good one; it is no secret, for there is
# none: a cursor names a place in a list that its holder may read anyway, and rights are looked at anew each
# time.


After = tuple[str | float | None, ...]

LENGTH_LIMIT = 4096  # characters
_SUM_BYTES = 6
_SPOILT = "it is cut or mistyped"

NO_PLACE = "it is no place in this list"


def write_cursor(question: str, after: After) -> str:
    content = msgspec.json.encode([_fingerprint(question), *after])
    return base64.urlsafe_b64encode(_sum(content) + content).decode().rstrip("=")


def read_cursor(question: str, cursor: str) -> After:
    """Raises Problem."""
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise bad_cursor(_SPOILT) from None
    given, content = packed[:_SUM_BYTES], packed[_SUM_BYTES:]
    if given != _sum(content):
        raise bad_cursor(_SPOILT)
    try:
        fingerprint, *after = msgspec.json.decode(content, type=list[str | float | None])
    except (msgspec.DecodeError, ValueError):
        raise bad_cursor(_SPOILT) from None
    if fingerprint != _fingerprint(question):
        raise bad_cursor(
            "it belongs to other parameters: filters and sort must stay the same from page to page"
        )
    if any(isinstance(value, float) and not math.isfinite(value) for value in after):
        raise bad_cursor(_SPOILT)
    return tuple(after)


def _fingerprint(question: str) -> str:
    return hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _sum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SUM_BYTES, person=b"cursor").digest()


def bad_cursor(why: str) -> Problem:
    """One that cannot be used with this list."""
    return Problem(ProblemKind.BAD_CURSOR, f"the cursor is not taken: {why}", parameter="cursor")


# --- filters ------------------------------------------------------------
# Filters, search, sort and paging of a table, made from the fields of its rows.
#
# Text fields take several values (one of them must be it), numbers also a least (`_min`) and a most (`_max`).
# Fields that list words by commas are asked for by word.


LIMIT_DEFAULT = 100
LIMIT_MOST = 1000
SORTS_LIMIT = 4

_KINDS: dict[type, Literal["text", "whole", "number", "flag"]] = {
    str: "text",
    int: "whole",
    float: "number",
    bool: "flag",
}
_LISTED = frozenset({"vendors", "models", "namespaces", "resources", "throttled"})  # words by commas
_FRESHNESS = (FRESH, STALE)
_WORDS: dict[tuple[type[Struct], str], tuple[str, ...]] = {
    (NodeRow, "state"): (*_FRESHNESS, INCOMPATIBLE, UNREAD),
    (DeviceRow, "state"): _FRESHNESS,
    (PodRow, "state"): _FRESHNESS,
    (ProcessRow, "state"): _FRESHNESS,
}
_WORDS_EVERYWHERE: dict[str, type[StrEnum]] = {"vendor": Vendor, "health": HealthState, "type": ProcessType}


@dataclass(frozen=True, slots=True)
class Column:
    """A field of a row as far as filters are concerned."""

    name: str
    kind: Literal["text", "whole", "number", "flag"]
    words: tuple[str, ...]  # all that it can be; empty: any
    listed: bool  # several words by commas in one text
    description: str


def columns(row: type[Struct]) -> tuple[Column, ...]:
    found = []
    for field in msgspec.structs.fields(row):
        kind, description = _kind(field.type)
        words = _WORDS.get((row, field.name), ())
        if not words and field.name in _WORDS_EVERYWHERE:
            words = tuple(_WORDS_EVERYWHERE[field.name])
        listed = field.name in _LISTED or (row is NodeRow and field.name == "source")
        found.append(Column(field.name, _KINDS[kind], words, listed, description))
    return tuple(found)


def _kind(annotation: Any) -> tuple[type, str]:
    """`Annotated[float | None, Meta(description=…)]` is a float with that description."""
    description = ""
    if hasattr(annotation, "__metadata__"):
        for meta in annotation.__metadata__:
            description = getattr(meta, "description", None) or description
        annotation = annotation.__origin__
    options = [option for option in get_args(annotation) if option is not type(None)] or [annotation]
    return options[0], description


def filter_parameters(row: type[Struct]) -> tuple[Parameter, ...]:
    """Which rows are meant: without sort and paging."""
    made: list[Parameter] = []
    for column in columns(row):
        described = f": {column.description}" if column.description else ""
        described = described.removesuffix("; null: not known")
        if column.kind == "flag":
            made.append(Parameter(name=column.name, kind=FLAG, description=f"only where it is so{described}"))
        elif column.kind == "text":
            meant = "one of these among its words" if column.listed else "one of these"
            kind = several(one_of(column.words))
            made.append(Parameter(name=column.name, kind=kind, description=f"{meant}{described}"))
        else:
            one = WHOLE if column.kind == "whole" else Decimal()
            if column.name != AGE:  # which moves by itself: equal to nothing
                made.append(
                    Parameter(name=column.name, kind=several(one), description=f"one of these{described}")
                )
            made.append(
                Parameter(name=f"{column.name}_min", kind=Decimal(), description=f"at least{described}")
            )
            made.append(
                Parameter(name=f"{column.name}_max", kind=Decimal(), description=f"at most{described}")
            )
    names = Choice(*(column.name for column in columns(row)))
    made.append(Parameter(name="present", kind=several(names), description="fields that must be known"))
    made.append(Parameter(name="absent", kind=several(names), description="fields that must not be known"))
    made.append(
        Parameter(name="q", kind=TEXT, description="found in any text of the row, in any case of letters")
    )
    return tuple(made)


def page_parameters(limit_default: int = LIMIT_DEFAULT) -> tuple[Parameter, ...]:
    return (
        Parameter(
            name="limit",
            kind=WholeNumber(1, LIMIT_MOST),
            default=limit_default,
            description="items on a page",
        ),
        Parameter(
            name="cursor",
            kind=BoundedText(LENGTH_LIMIT),
            description="`next` of the page before; all other parameters but `limit` must stay as they were",
        ),
    )


def sort_parameter(row: type[Struct]) -> Parameter:
    names = [column.name for column in columns(row)]
    sorts = Choice(*(sign + name for name in names for sign in ("", "-")))
    return Parameter(
        name="sort",
        kind=several(sorts, SORTS_LIMIT),
        default=(),
        description="fields to sort by, with `-` the largest first; what is absent comes last",
    )


def list_parameters(row: type[Struct]) -> tuple[Parameter, ...]:
    return (*filter_parameters(row), sort_parameter(row), *page_parameters())


def conditions(row: type[Struct], call: Call) -> tuple[Condition, ...]:
    """What the caller asks for, and what the caller may see."""
    made = list(visible(call))
    values = call.values
    for column in columns(row):
        made += _of_column(column, values)
    made += [Condition(name, "present") for name in values.get("present") or ()]
    made += [Condition(name, "absent") for name in values.get("absent") or ()]
    return tuple(made)


def visible(call: Call) -> tuple[Condition, ...]:
    if call.caller.clusters is None:
        return ()
    return (Condition("cluster", "in", tuple(sorted(call.caller.clusters))),)


def asks_for_ages(values: Mapping[str, Any]) -> bool:
    """Rows come and go by themselves then, without any change that the store would count."""
    return any(values.get(f"{AGE}_{bound}") is not None for bound in ("min", "max"))


def list_query(row: type[Struct], call: Call) -> Query:
    """Raises Problem for a cursor that is of no use."""
    given = call.values["cursor"]
    return Query(
        where=conditions(row, call),
        search=call.values["q"],
        sort=tuple(Sort(text.removeprefix("-"), text.startswith("-")) for text in call.values["sort"]),
        after=None if given is None else read_cursor(call.question, given),
        limit=call.values["limit"],
    )


def _of_column(column: Column, values: Mapping[str, Any]) -> list[Condition]:
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


# --- short lists ------------------------------------------------------------
# Pages of lists that are made anew for each question: sums by group, namespaces.


S = TypeVar("S", bound=Struct)


@dataclass(frozen=True, slots=True)
class _Key:
    """One field of the order; what is absent comes last in both directions."""

    field: str
    descending: bool = False

    def value(self, item: Struct) -> str | float | None:
        """As a cursor holds it. Numbers that differ by less than a cursor can tell are the same number."""
        value = getattr(item, self.field)
        if value is None or isinstance(value, str):
            return value
        number = float(value)
        return number if isfinite(number) else None

    def compare(self, item: Struct, place: str | float | None) -> int:
        """Below 0: the item is before that place; above 0: behind it."""
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
    """One page, and the cursor of the next: what the last item was sorted by, and its identity, so that items
    that come, go or change their place in between neither hide nor repeat others. `items` come in the order
    of their identity. Raises Problem."""
    sort = [_Key(word.removeprefix("-"), word.startswith("-")) for word in call.values["sort"]]
    keys = [*sort, *map(_Key, identity)]
    ordered = _sorted(items, sort)
    start = 0
    if (given := call.values["cursor"]) is not None:
        start = _behind(ordered, keys, read_cursor(call.question, given))
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


def _behind(ordered: Sequence[Struct], keys: Sequence[_Key], after: After) -> int:
    if len(after) != len(keys):
        raise bad_cursor(NO_PLACE)

    def is_behind(item: Struct) -> bool:
        for key, place in zip(keys, after, strict=True):
            if compared := key.compare(item, place):
                return compared > 0
        return False

    return bisect_left(ordered, True, key=is_behind)
