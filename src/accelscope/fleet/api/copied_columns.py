"""Columns taken out of a table: answers are made of them in a thread, whatever the table does meanwhile."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from accelscope.fleet.store.query import Positions
from accelscope.fleet.store.table import Table

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
