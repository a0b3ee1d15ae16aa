"""What is usual: the middle of what was seen, how far it strays, and its ends without the few that stick out.

Medians and their like, since a mean follows the very minutes that are to be found.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Window = npt.NDArray[np.float32]  # slots x minutes, the newest last; NaN is absence
Numbers = npt.NDArray[np.float32]  # by slot
Mask = npt.NDArray[np.bool_]

_SIGMA = 1.4826  # of a normal distribution, in median absolute deviations


class Usual(NamedTuple):
    minutes: npt.NDArray[np.intp]  # how many it is made of
    middle: Numbers
    spread: Numbers  # what a standard deviation would be without outliers
    low: Numbers  # a twentieth is below
    high: Numbers  # a twentieth is above


def usual(values: Window, among: Mask) -> Usual:
    """Of each slot's minutes `among` all; what is absent is left out. NaN where nothing is left."""
    chosen = np.where(among, values, np.float32(np.nan))
    in_order = np.sort(chosen, axis=1)  # what is absent goes to the end
    count = np.count_nonzero(~np.isnan(in_order), axis=1)
    middle = _at(in_order, count, 0.5)
    deviations = np.sort(np.abs(chosen - middle[:, None]), axis=1)
    return Usual(
        minutes=count,
        middle=middle,
        spread=_SIGMA * _at(deviations, count, 0.5),
        low=_at(in_order, count, 0.05),
        high=_at(in_order, count, 0.95),
    )


def _at(in_order: Window, count: npt.NDArray[np.intp], share: float) -> Numbers:
    if in_order.shape[1] == 0:
        return np.full(len(in_order), np.nan, np.float32)
    places = np.round(share * np.maximum(count - 1, 0)).astype(np.intp)
    return in_order[np.arange(len(in_order)), places]
