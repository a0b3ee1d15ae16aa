"""Queries of a table: conditions, search, order and paging."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from accelscope.fleet.rows import Row

if TYPE_CHECKING:
    from accelscope.fleet.store.table import ColumnTable


Value: TypeAlias = str | int | float | None
Positions: TypeAlias = npt.NDArray[np.intp]
Operator: TypeAlias = Literal["=", "!=", "in", ">=", "<=", ">", "<", "contains", "has", "absent", "present"]


ABSENT = 0  # the code of an absent text


class QueryError(ValueError):
    """An invalid query. The message is one line with the allowed values."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One field compared with a value.

    For an absent value only `!=` and `absent` are true. `contains` is a part of a text, ignoring case; `has`
    is one of the comma-separated words of a text, and takes one value or several; `in` takes several.
    """

    field: str
    op: Operator
    value: str | float | bool | Sequence[str | float] | None = None


@dataclass(frozen=True, slots=True)
class Sort:
    """Absent values come last in both directions."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    """Rows that match all conditions and for which one of the searched texts contains `search`.

    Rows with equal values of `sort` are ordered by their identity, so that the order is total. `after` comes
    from the previous selection.
    """

    where: tuple[Condition, ...] = ()
    search: str | None = None
    sort: tuple[Sort, ...] = ()
    after: tuple[Value, ...] | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One page. Positions are valid until the next change of the store: use them before anything is awaited.

    `after` contains the sort values and the identity of the last row: the next page begins after them,
    whatever has changed since. Rows whose values stay the same are neither repeated nor skipped. None: this
    was the last page.
    """

    positions: Positions
    total: int
    after: tuple[Value, ...] | None


AGE = "age_seconds"  # computed from TAKEN_AT by each query
TAKEN_AT = "taken_at"


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns of a row type, from the types of its fields."""

    row: str
    fields: tuple[str, ...]
    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    whole: frozenset[str]  # numbers that are whole
    flags: frozenset[str]  # numbers that are 0 or 1
    ageing: bool

    def check(self, field: str) -> None:
        if field not in self.fields:
            raise QueryError(f"{field!r} is not a field of a {self.row}; allowed: {', '.join(self.fields)}")


def layout_of(row_type: type[Row]) -> RowLayout:
    kinds = {name: _kind(hint) for name, hint in get_type_hints(row_type).items() if not name.startswith("_")}
    fields = row_type.__struct_fields__
    return RowLayout(
        row=row_type.__name__.removesuffix("Row").lower(),
        fields=fields,
        texts=tuple(name for name in fields if kinds[name] is str),
        numbers=tuple(name for name in fields if kinds[name] is not str and name != AGE),
        whole=frozenset(name for name in fields if kinds[name] is int),
        flags=frozenset(name for name in fields if kinds[name] is bool),
        ageing=AGE in fields,
    )


def _kind(hint: object) -> object:
    if get_origin(hint) in (UnionType, Union):
        [hint] = [option for option in get_args(hint) if option is not NoneType]
    if hint not in (str, int, float, bool):
        raise TypeError(f"{hint} cannot be a column")
    return hint


Mask = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.float64]

_SORTED_AT_ONCE = 4096
_ORDERINGS: dict[str, Callable[[Any, Any], Any]] = {">=": ge, "<=": le, ">": gt, "<": lt}


def select(table: "ColumnTable[Any]", query: RowQuery) -> Selection:
    """Finds a page without sorting all rows. Key by key, rows that certainly belong to the page are set
    aside; only the rows with equal keys at its end are compared by the next key."""
    if query.limit < 1:
        raise QueryError("the limit must be at least 1")
    keys = _keys(table, query.sort)
    found = matching(table, query)
    rest = found if query.after is None else _behind(found, keys, query.after)
    page = _first(rest, keys, query.limit)
    more = len(rest) > len(page)
    after = tuple(key.value(int(page[-1])) for key in keys) if more else None
    return Selection(positions=page, total=len(found), after=after)


def matching(table: "ColumnTable[Any]", query: RowQuery) -> Positions:
    mask = table.live()
    for condition in query.where:
        mask &= _matches(table, condition)
    if query.search:
        mask &= _found(table, query.search)
    return np.flatnonzero(mask)


def _found(table: "ColumnTable[Any]", part: str) -> Mask:
    found: Mask | None = None
    for field in table.searched:
        here = _matches(table, Condition(field, "contains", part))
        found = here if found is None else found | here
    assert found is not None  # every row has texts
    return found


def _matches(table: "ColumnTable[Any]", condition: Condition) -> Mask:
    table.layout.check(condition.field)
    matches = _text_matches if table.is_text(condition.field) else _number_matches
    mask: Mask = matches(table, condition)
    return mask


def _text_matches(table: "ColumnTable[Any]", condition: Condition) -> Any:
    codes, texts = table.whole_column(condition.field), table.texts(condition.field)
    op = condition.op
    if op in ("absent", "present"):
        return (codes == ABSENT) == (op == "absent")
    values = _values(condition, str)
    if op in ("=", "!=", "in"):
        sought = [code for value in values if (code := texts.code(value)) is not None]
        return _any_of(codes, sought, len(texts)) != (op == "!=")
    if op == "contains":
        return texts.containing(values[0])[codes]
    if op == "has":
        return texts.listing(frozenset(values))[codes]
    return _ORDERINGS[op](texts.ranks(), texts.place(values[0]))[codes] & (codes != ABSENT)


def _any_of(codes: npt.NDArray[Any], sought: Sequence[int], end: int) -> Any:
    if len(sought) == 1:
        return codes == sought[0]
    meant = np.zeros(end, np.bool_)
    meant[list(sought)] = True
    return meant[codes]


def _number_matches(table: "ColumnTable[Any]", condition: Condition) -> Any:
    column = table.whole_column(condition.field)
    op = condition.op
    if op in ("absent", "present"):
        return np.isnan(column) == (op == "absent")
    values = _values(condition, float)
    if op in ("=", "!=", "in"):
        return np.isin(column, values) != (op == "!=")
    if op in ("contains", "has"):
        raise QueryError(f"{condition.field} is a number; {op!r} applies to texts")
    return _ORDERINGS[op](column, values[0])  # of NaN, none is true


def _values(condition: Condition, kind: type[str] | type[float]) -> list[Any]:
    given, op = condition.value, condition.op
    several = isinstance(given, Sequence) and not isinstance(given, str)
    if several != (op == "in") and op != "has":
        raise QueryError(f"{condition.field} {op}: needs {'a list of values' if op == 'in' else 'one value'}")
    values: list[Any] = list(given) if several else [given]  # type: ignore[arg-type]
    meant = str if kind is str else int | float
    for value in values:
        if not isinstance(value, meant):
            word = "a text" if kind is str else "a number"
            raise QueryError(f"{condition.field} {op}: {value!r} is not {word}")
    return values


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column to sort by, as numbers that grow towards the end of the list; absence is infinite."""

    table: "ColumnTable[Any]"
    field: str
    descending: bool

    def __call__(self, positions: Positions) -> Keys:
        keys: Keys
        column = self.table.whole_column(self.field)[positions]
        if self.table.is_text(self.field):
            ranks = self.table.texts(self.field).ranks()
            if self.descending:
                ranks = np.where(np.isinf(ranks), np.inf, -ranks)
            keys = ranks[column]
        else:
            keys = -column if self.descending else column.copy()
            keys[np.isnan(keys)] = np.inf
        return keys

    def place(self, value: Value) -> float:
        if value is None:
            return np.inf
        text = self.table.is_text(self.field)
        if isinstance(value, str) != text:
            raise QueryError(f"the cursor does not match the sort order: {self.field} is {value!r}")
        place = self.table.texts(self.field).place(str(value)) if text else float(value)
        return -place if self.descending else place

    def value(self, position: int) -> Value:
        return self.table.value(self.field, position)


def _keys(table: "ColumnTable[Any]", sort: Sequence[Sort]) -> list[SortKey]:
    keys: dict[str, SortKey] = {}
    for by in (*sort, *(Sort(field) for field in table.identity)):
        table.layout.check(by.field)
        field, descending = by.field, by.descending
        if field == AGE:  # ages change and times of readings do not, so positions in a list stay valid
            field, descending = TAKEN_AT, not descending
        keys.setdefault(field, SortKey(table, field, descending))
    return list(keys.values())


def _behind(positions: Positions, keys: Sequence[SortKey], after: Sequence[Value]) -> Positions:
    if len(after) != len(keys):
        raise QueryError(f"the cursor has {len(after)} values, the sort order {len(keys)}")
    behind = []
    for key, value in zip(keys, after, strict=True):
        values, place = key(positions), key.place(value)
        behind.append(positions[values > place])
        positions = positions[values == place]
    return np.concatenate(behind)


def _first(positions: Positions, keys: Sequence[SortKey], limit: int) -> Positions:
    sure, wanted = [], limit
    for key in keys:
        if len(positions) <= max(wanted, _SORTED_AT_ONCE):
            break
        values = key(positions)
        edge = np.partition(values, wanted - 1)[wanted - 1]
        surely = positions[values < edge]
        sure.append(surely)
        wanted -= len(surely)
        positions = positions[values == edge]
    pool = np.concatenate([*sure, positions])
    order = np.lexsort([key(pool) for key in reversed(keys)])
    return pool[order[:limit]]
