"""What one may ask of a table: conditions, a search, an order, and the place where the last page ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from accelscope.fleet.rows import Row
from accelscope.fleet.store.texts import ABSENT

if TYPE_CHECKING:
    from accelscope.fleet.store.table import Table


Value: TypeAlias = str | int | float | None
Positions: TypeAlias = npt.NDArray[np.intp]
Operator: TypeAlias = Literal["=", "!=", "in", ">=", "<=", ">", "<", "contains", "has", "absent", "present"]


class QueryError(ValueError):
    """A question that this table cannot answer: one line that says what it could."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One field compared with a value.

    What is absent is like nothing: only `!=` and `absent` are true of it. `contains` is part of a text, in
    any case; `has` is one of the words of a text that lists them by commas, and takes one value or several;
    `in` takes several.
    """

    field: str
    op: Operator
    value: str | float | bool | Sequence[str | float] | None = None


@dataclass(frozen=True, slots=True)
class Sort:
    """What is absent comes last in both directions."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """All conditions hold; `search` is found in any one of the texts that the table searches.

    Rows that are alike by `sort` come in the order of their identity, so that the order is total. `after` is
    what the selection before gave.
    """

    where: tuple[Condition, ...] = ()
    search: str | None = None
    sort: tuple[Sort, ...] = ()
    after: tuple[Value, ...] | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One page. Positions hold until the store is next changed: use them before anything is awaited.

    `after` holds the last row's values by which it was sorted, and its identity: the next page begins behind
    that place, whatever has come or gone since. A row that stays, and keeps those values, is neither repeated
    nor left out. None: this was the last page.
    """

    positions: Positions
    total: int
    after: tuple[Value, ...] | None


# --- columns ------------------------------------------------------------
# Which columns a kind of row has: from the types of its fields, so that nothing is declared twice.


AGE = "age_seconds"  # moves by itself: made from TAKEN_AT when it is asked for
TAKEN_AT = "taken_at"


@dataclass(frozen=True, slots=True)
class Layout:
    """Names by the kind of their column, each in the order of the row's fields."""

    row: str
    fields: tuple[str, ...]
    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    whole: frozenset[str]  # numbers that are whole
    flags: frozenset[str]  # numbers that are 0 or 1 and say no or yes
    ageing: bool

    def check(self, field: str) -> None:
        if field not in self.fields:
            raise QueryError(f"{field!r} is no field of a {self.row}: there are {', '.join(self.fields)}")


def layout_of(row_type: type[Row]) -> Layout:
    kinds = {name: _kind(hint) for name, hint in get_type_hints(row_type).items() if not name.startswith("_")}
    fields = row_type.__struct_fields__
    return Layout(
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


# --- selecting ------------------------------------------------------------
# Filtering, ordering and paging of a table's rows.
#
# A page is found without sorting everything: key by key, what surely belongs to it is set apart, and only
# those that are alike at its edge go on to the next key.


Mask = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.float64]

_SORTED_AT_ONCE = 4096
_ORDERINGS: dict[str, Callable[[Any, Any], Any]] = {">=": ge, "<=": le, ">": gt, "<": lt}


def select(table: "Table[Any]", query: Query) -> Selection:
    if query.limit < 1:
        raise QueryError("a page has at least one row")
    keys = _keys(table, query.sort)
    found = matching(table, query)
    rest = found if query.after is None else _behind(found, keys, query.after)
    page = _first(rest, keys, query.limit)
    more = len(rest) > len(page)
    after = tuple(key.value(int(page[-1])) for key in keys) if more else None
    return Selection(positions=page, total=len(found), after=after)


def matching(table: "Table[Any]", query: Query) -> Positions:
    mask = table.live()
    for condition in query.where:
        mask &= _holds(table, condition)
    if query.search:
        mask &= _found(table, query.search)
    return np.flatnonzero(mask)


def _found(table: "Table[Any]", part: str) -> Mask:
    found: Mask | None = None
    for field in table.searched:
        here = _holds(table, Condition(field, "contains", part))
        found = here if found is None else found | here
    assert found is not None  # every row has texts
    return found


def _holds(table: "Table[Any]", condition: Condition) -> Mask:
    table.layout.check(condition.field)
    holds = _text_holds if table.is_text(condition.field) else _number_holds
    mask: Mask = holds(table, condition)
    return mask


def _text_holds(table: "Table[Any]", condition: Condition) -> Any:
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


def _number_holds(table: "Table[Any]", condition: Condition) -> Any:
    column = table.whole_column(condition.field)
    op = condition.op
    if op in ("absent", "present"):
        return np.isnan(column) == (op == "absent")
    values = _values(condition, float)
    if op in ("=", "!=", "in"):
        return np.isin(column, values) != (op == "!=")
    if op in ("contains", "has"):
        raise QueryError(f"{condition.field} is a number: {op!r} is about texts")
    return _ORDERINGS[op](column, values[0])  # of NaN, none is true


def _values(condition: Condition, kind: type[str] | type[float]) -> list[Any]:
    given, op = condition.value, condition.op
    several = isinstance(given, Sequence) and not isinstance(given, str)
    if several != (op == "in") and op != "has":
        raise QueryError(f"{condition.field} {op}: takes {'a list of values' if op == 'in' else 'one value'}")
    values: list[Any] = list(given) if several else [given]  # type: ignore[arg-type]
    meant = str if kind is str else int | float
    for value in values:
        if not isinstance(value, meant):
            word = "a text" if kind is str else "a number"
            raise QueryError(f"{condition.field} {op}: {value!r} is not {word}")
    return values


@dataclass(frozen=True, slots=True)
class _Key:
    """One column to sort by, as numbers that grow towards the end of the list; absence is infinite."""

    table: "Table[Any]"
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
            raise QueryError(f"the place to go on from does not fit the order: {self.field} is {value!r}")
        place = self.table.texts(self.field).place(str(value)) if text else float(value)
        return -place if self.descending else place

    def value(self, position: int) -> Value:
        return self.table.value(self.field, position)


def _keys(table: "Table[Any]", sort: Sequence[Sort]) -> list[_Key]:
    keys: dict[str, _Key] = {}
    for by in (*sort, *(Sort(field) for field in table.identity)):
        table.layout.check(by.field)
        field, descending = by.field, by.descending
        if field == AGE:  # ages move, the time of reading does not: a place in a list must stay one
            field, descending = TAKEN_AT, not descending
        keys.setdefault(field, _Key(table, field, descending))
    return list(keys.values())


def _behind(positions: Positions, keys: Sequence[_Key], after: Sequence[Value]) -> Positions:
    if len(after) != len(keys):
        raise QueryError(f"the place to go on from has {len(after)} values, the order {len(keys)}")
    behind = []
    for key, value in zip(keys, after, strict=True):
        values, place = key(positions), key.place(value)
        behind.append(positions[values > place])
        positions = positions[values == place]
    return np.concatenate(behind)


def _first(positions: Positions, keys: Sequence[_Key], limit: int) -> Positions:
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
