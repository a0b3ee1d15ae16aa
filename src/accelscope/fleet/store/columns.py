"""Which columns a kind of row has: from the types of its fields, so that nothing is declared twice."""

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

from accelscope.fleet.rows import Row
from accelscope.fleet.store.query import QueryError

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
