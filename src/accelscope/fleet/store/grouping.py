"""Rows by group: counts, sums, means and what is distinct, each in a pass or two over arrays.

`np.unique` is left aside: it hashes, and takes a quarter of a second for what sorting does in ten
milliseconds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_DENSE_LIMIT = 4_000_000  # combinations for which a table of all of them is quicker than sorting


class Groups:
    """`of[i]` is the group of row i; groups are numbered from 0."""

    def __init__(self, of: Numbers, count: int) -> None:
        self.of = of
        self.count = count

    def rows(self, where: Mask | None = None) -> Numbers:
        if self.count == 1:
            return np.array([len(self.of) if where is None else np.count_nonzero(where)])
        return np.bincount(self.of if where is None else self.of[where], minlength=self.count)

    def sums(self, values: Values) -> Values:
        """Of what is present; 0 where nothing is."""
        absent = np.isnan(values)
        some = np.where(absent, 0.0, values) if absent.any() else values
        if self.count == 1:
            return np.array([some.sum()])
        return np.asarray(np.bincount(self.of, some, self.count), np.float64)

    def present(self, values: Values) -> Numbers:
        return self.rows(~np.isnan(values))

    def maxima(self, values: Values) -> Values:
        """NaN where nothing is present."""
        found = np.full(self.count, -np.inf)
        np.maximum.at(found, self.of, np.where(np.isnan(values), -np.inf, values))
        found[np.isinf(found)] = np.nan
        return found

    def distinct(self, runs: Numbers) -> Numbers:
        """How many different runs there are in each group. Runs are numbered in the order of the rows, so
        that there is mostly nothing to sort."""
        if self.count == 1:
            return np.array([runs[-1] + 1 if len(runs) else 0])
        pairs = runs * self.count + self.of
        if len(pairs) and np.any(pairs[1:] < pairs[:-1]):
            if (last := int(runs[-1]) + 1) * self.count <= _DENSE_LIMIT:
                there = np.zeros(last * self.count, np.bool_)
                there[pairs] = True
                sums: Numbers = np.count_nonzero(there.reshape(last, self.count), axis=0)
                return sums
            pairs = np.sort(pairs)
        return np.bincount(pairs[_firsts(pairs)] % self.count, minlength=self.count)


def grouped(columns: Sequence[npt.NDArray[Any]], sizes: Sequence[int], rows: int) -> tuple[Groups, Numbers]:
    """Rows that are alike in all columns are a group; also the columns' values of each group, by column.
    Values are from 0 to below the column's size. Without columns, all rows are one group."""
    keys = np.zeros(rows, np.int64)
    combinations = 1
    for column, size in zip(columns, sizes, strict=True):
        keys = keys * size + column
        combinations *= size
    if not columns:
        return Groups(keys, 1), np.empty((0, 1), np.int64)
    if combinations <= _DENSE_LIMIT:
        there = np.zeros(combinations, np.bool_)
        there[keys] = True
        found = np.flatnonzero(there)
        numbers = np.empty(combinations, np.int64)  # only those of `found` are written and read
        numbers[found] = np.arange(len(found))
        of = numbers[keys]
    else:
        order = np.argsort(keys)
        first = _firsts(keys[order])
        found = keys[order][first]
        of = np.empty(rows, np.int64)
        of[order] = np.cumsum(first) - 1
    values = np.empty((len(columns), len(found)), np.int64)
    for place in range(len(columns) - 1, -1, -1):
        found, values[place] = np.divmod(found, sizes[place])
    return Groups(of, values.shape[1]), values


def runs(*columns: npt.NDArray[Any]) -> Numbers:
    """Numbers that grow by one wherever a row differs from the one before."""
    first = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        first |= _firsts(column)
    return np.cumsum(first) - 1


def _firsts(values: npt.NDArray[Any]) -> Mask:
    first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return first
