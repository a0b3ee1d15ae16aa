"""What one may ask of a table: conditions, a search, an order, and the place where the last page ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

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
