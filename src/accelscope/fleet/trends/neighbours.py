"""How warm the devices beside a device are: of the same model, on the same node, under a like load."""

import asyncio

import numpy as np
import numpy.typing as npt

from accelscope.fleet.trends.usual import Numbers, usual

_MOST_BESIDE = 16  # of one model on one node: more are left out
_LEAST_BESIDE = 3
_GROUPS_AT_ONCE = 1000


async def neighbours_heat(
    groups: npt.NDArray[np.int64], heat: Numbers, load: Numbers, like: Numbers
) -> Numbers:
    """By row, the median of the others of its group whose `load` is within `like` of its own; NaN where they
    are too few."""
    found = np.full(len(groups), np.nan, np.float32)
    beside = _beside(groups)
    for start in range(0, len(beside), _GROUPS_AT_ONCE):
        await asyncio.sleep(0)
        rows = beside[start : start + _GROUPS_AT_ONCE]
        there = rows >= 0
        heats = np.where(there, heat[rows], np.nan).astype(np.float32)
        loads = np.where(there, load[rows], np.nan)
        alike = np.abs(loads[:, :, None] - loads[:, None, :]) <= like[rows][:, :, None]
        alike &= ~np.eye(rows.shape[1], dtype=np.bool_)
        others = np.broadcast_to(heats[:, None, :], alike.shape)
        width = rows.shape[1]
        seen = usual(others.reshape(-1, width), alike.reshape(-1, width))
        middle = np.where(seen.minutes >= _LEAST_BESIDE, seen.middle, np.nan)
        found[rows[there]] = middle.reshape(rows.shape)[there]
    return found


def _beside(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """A line for each group with its rows; -1 fills it up."""
    if not len(groups):
        return np.empty((0, 1), np.intp)
    order = np.argsort(groups, kind="stable")
    in_order = groups[order]
    first = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    sizes = np.diff(np.r_[first, len(order)])
    line = np.repeat(np.arange(len(first)), sizes)
    place = np.arange(len(order)) - np.repeat(first, sizes)
    width = int(min(sizes.max(), _MOST_BESIDE))
    beside = np.full((len(first), width), -1, np.intp)
    fits = place < width
    beside[line[fits], place[fits]] = order[fits]
    return beside
