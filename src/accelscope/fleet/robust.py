"""Robust statistics over many series at once: a few wrong or unusual values barely move the result.

A series is a line of a matrix, and NaN is an absent value. docs/trends.md has the formulas.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating[Any]]  # one per series
Series = npt.NDArray[np.floating[Any]]  # series x values
Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.intp]

_SIGMA = 1.4826  # standard deviations of a normal distribution in one median absolute deviation
_ITERATIONS = 5  # of the Huber fit; more change its result by less than 0.05 °C
_MAX_WIDTH = 16  # of a line of a group: 120 pairs


def medians(values: Series) -> tuple[Numbers, Counts]:
    """The median of each series and its number of values; NaN without any."""
    count = np.count_nonzero(~np.isnan(values), axis=1)
    if values.shape[1] == 0:
        return np.full(len(values), np.nan), count
    in_order = np.sort(values, axis=1)  # NaN is sorted to the end
    here, last = np.arange(len(values)), np.maximum(count - 1, 0)
    return (in_order[here, last // 2] + in_order[here, (last + 1) // 2]) / 2, count


def spreads(values: Series) -> Numbers:
    """The standard deviation around 0, estimated from the median of the absolute values."""
    return _SIGMA * medians(np.abs(values))[0]


def huber_fit(features: npt.NDArray[np.float64], values: Series, width: float, ridge: float) -> Numbers:
    """The coefficients b of each series: values = features @ b, with features as series x values x terms.

    Residuals up to `width` count by their square, larger ones in proportion (Huber). `ridge` is added to the
    square sum of each term but the first, the constant: a term that hardly varies gets a coefficient near 0.
    """
    absent = np.isnan(values) | np.isnan(features).any(axis=2)
    terms = np.where(absent[:, :, None], 0.0, features)
    targets = np.where(absent, 0.0, values)
    weights = (~absent).astype(np.float64)
    penalty = ridge * np.eye(features.shape[2])
    penalty[0, 0] = 1e-9  # a series without values has the coefficients 0
    for _ in range(_ITERATIONS):
        weighted = np.ascontiguousarray((terms * weights[:, :, None]).transpose(0, 2, 1))
        solved = np.linalg.solve(weighted @ terms + penalty, weighted @ targets[:, :, None])
        residuals = np.abs(targets - (terms @ solved)[:, :, 0])
        weights = np.where(absent, 0.0, width / np.maximum(residuals, width))
    coefficients: Numbers = solved[:, :, 0]
    return coefficients


def medians_of_others(values: Series, similar: npt.NDArray[np.bool_] | None = None) -> tuple[Series, Counts]:
    """For each value, the median of the others of its line, and their number. With `similar` (lines x values
    x others), of those for which it is true."""
    lines, width = values.shape
    chosen = np.broadcast_to(~np.eye(width, dtype=np.bool_), (lines, width, width))
    if similar is not None:
        chosen = chosen & similar
    others = np.where(chosen, values[:, None, :], np.nan).reshape(lines * width, width)
    found, count = medians(others)
    return found.reshape(lines, width), count.reshape(lines, width)


def cusum(sums: Numbers, values: Numbers, slack: float, largest: float) -> Numbers:
    """The next one-sided cumulative sum: max(0, sum + min(value, largest) - slack). An absent value does not
    change it."""
    step = np.where(np.isnan(values), 0.0, np.minimum(values, largest) - slack)
    return np.maximum(0.0, sums + step)


def slopes(values: Series) -> Numbers:
    """The Theil-Sen slope of each series, per value: the median of the slopes between all pairs."""
    before, after = np.triu_indices(values.shape[1], 1)
    return medians((values[:, after] - values[:, before]) / (after - before))[0]


def lines_of(groups: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.intp]:
    """The members of each group as a line, padded with -1. A group of more than 16 has several lines."""
    if not len(groups):
        return np.empty((0, 1), np.intp)
    order = np.argsort(groups, kind="stable")
    in_order = groups[order]
    first = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    sizes = np.diff(np.r_[first, len(order)])
    place = np.arange(len(order)) - np.repeat(first, sizes)
    parts = -(-sizes // _MAX_WIDTH)
    line = np.repeat(np.cumsum(parts) - parts, sizes) + place // _MAX_WIDTH
    matrix = np.full((int(parts.sum()), int(min(sizes.max(), _MAX_WIDTH))), -1, np.intp)
    matrix[line, place % _MAX_WIDTH] = order
    return matrix
