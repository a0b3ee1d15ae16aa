"""Filters, search, sort and paging of a table, made from the fields of its rows.

Text fields take several values (one of them must be it), numbers also a least (`_min`) and a most (`_max`).
Fields that list words by commas are asked for by word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from accelscope.config.values import Choice, Decimal, WholeNumber
from accelscope.fleet.api import cursor
from accelscope.fleet.api.parameter import FLAG, TEXT, WHOLE, BoundedText, Parameter, one_of, several
from accelscope.fleet.api.route import Call
from accelscope.fleet.rows import DeviceRow, NodeRow, PodRow, ProcessRow
from accelscope.fleet.store.columns import AGE
from accelscope.fleet.store.node_rows import FRESH, INCOMPATIBLE, STALE, UNREAD
from accelscope.fleet.store.query import Condition, Query, Sort
from accelscope.model import HealthState, ProcessType, Vendor

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
            kind=BoundedText(cursor.LENGTH_LIMIT),
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
        after=None if given is None else cursor.read_cursor(call.question, given),
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
