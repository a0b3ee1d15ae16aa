"""Pages of lists that are made anew for each question: sums by group, namespaces."""

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct

from accelscope.fleet.api.cursor import After, read_cursor, write_cursor
from accelscope.fleet.api.filters import SORTS_LIMIT, columns
from accelscope.fleet.api.parameter import Parameter, Several, Text
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.route import Call

S = TypeVar("S", bound=Struct)


def sort_parameter(row: type[Struct]) -> Parameter:
    names = [column.name for column in columns(row)]
    return Parameter(
        name="sort",
        kind=Several(
            of=Text(words=tuple(sign + name for name in names for sign in ("", "-"))), limit=SORTS_LIMIT
        ),
        default=(),
        description="fields to sort by, with `-` the largest first; what is absent comes last",
    )


def short_page(call: Call, items: Sequence[S], identity: Sequence[str]) -> tuple[list[S], str | None]:
    """One page, and the cursor of the next. The cursor remembers the last item by its identity, and its place
    in case that it is gone by then. Raises Problem."""
    ordered = _sorted(items, call.values["sort"])
    start = 0
    if (given := call.values["cursor"]) is not None:
        start = _behind(ordered, identity, read_cursor(call.question, given))
    shown = ordered[start : start + call.values["limit"]]
    end = start + len(shown)
    if not shown or end >= len(ordered):
        return shown, None
    return shown, write_cursor(call.question, (float(end), *_named(shown[-1], identity)))


def _sorted(items: Sequence[S], sort: Sequence[str]) -> list[S]:
    ordered = list(items)
    for word in reversed(sort):
        field = word.removeprefix("-")
        known = [item for item in ordered if getattr(item, field) is not None]
        absent = [item for item in ordered if getattr(item, field) is None]
        known.sort(key=lambda item: getattr(item, field), reverse=word.startswith("-"))
        ordered = known + absent
    return ordered


def _behind(ordered: Sequence[Any], identity: Sequence[str], after: After) -> int:
    place, *named = after or (None,)
    if not isinstance(place, float) or len(named) != len(identity):
        raise Problem(ProblemKind.BAD_CURSOR, "the cursor is not taken: it is no place in this list")
    for position, item in enumerate(ordered):
        if list(_named(item, identity)) == named:
            return position + 1
    return min(len(ordered), max(0, int(place) - 1))


def _named(item: Struct, identity: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(getattr(item, field) for field in identity)
