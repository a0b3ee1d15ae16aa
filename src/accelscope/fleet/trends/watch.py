"""When something is said to have begun, and when to be over: one odd minute is neither."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from accelscope.fleet.trends.usual import Mask, Numbers

HABIT_MINUTES = 240  # after so long, what was unusual is what is usual


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Begins with `needed` odd minutes of the last `of`, ends after `end` minutes without one."""

    needed: int
    of: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Of one minute, by slot. `judged`: there was enough to tell; where not, nothing changes."""

    odd: Mask
    judged: Mask
    now: Numbers
    middle: Numbers | None = None
    spread: Numbers | None = None
    bound: Numbers | None = None  # beyond it is odd: kept while it lasts, so that it does not become usual


class Held(NamedTuple):
    """What is known of the slots that are judged."""

    active: Mask  # where it has begun and not ended
    bound: Numbers  # beyond which it was odd when it began


class Watch:
    """One kind of oddity, over all slots."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._minutes = np.zeros(0, np.uint64)  # a bit for each, the newest lowest: whether it was odd
        self._lasted = np.zeros(0, np.int32)  # minutes since it began
        self.active = np.zeros(0, np.bool_)
        self.now = np.zeros(0, np.float32)
        self.middle = np.zeros(0, np.float32)
        self.spread = np.zeros(0, np.float32)
        self.bound = np.zeros(0, np.float32)

    def reach(self, slots: int) -> None:
        missing = slots - len(self.active)
        if missing > 0:
            for name in ("_minutes", "_lasted", "active", "now", "middle", "spread", "bound"):
                setattr(self, name, longer(getattr(self, name), missing))

    def reset(self, slots: npt.NDArray[np.intp]) -> None:
        self._minutes[slots] = 0
        self.active[slots] = False

    def held(self, here: slice) -> Held:
        return Held(self.active[here], self.bound[here])

    def step(self, here: slice, finding: Finding) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Slots where it began, and where it ended."""
        judged, patience = finding.judged, self._patience
        minutes, active, lasted = self._minutes[here], self.active[here], self._lasted[here]
        shifted = (minutes << np.uint64(1)) | finding.odd.astype(np.uint64)
        minutes[judged] = shifted[judged]
        lasted[active] += 1
        begins = judged & ~active & (_odd(minutes, patience.of) >= patience.needed) & finding.odd
        over = judged & (_odd(minutes, patience.end) == 0)
        ends = active & (over | (lasted >= HABIT_MINUTES))
        minutes[ends] = 0
        active[begins], active[ends] = True, False
        lasted[begins] = 0
        self.now[here][begins] = finding.now[begins]
        for kept, found in (
            (self.middle, finding.middle),
            (self.spread, finding.spread),
            (self.bound, finding.bound),
        ):
            if found is not None:
                kept[here][begins] = found[begins]
        return np.flatnonzero(begins) + here.start, np.flatnonzero(ends) + here.start


def _odd(minutes: npt.NDArray[np.uint64], newest: int) -> npt.NDArray[np.uint8]:
    odd: npt.NDArray[np.uint8] = np.bitwise_count(minutes & np.uint64((1 << newest) - 1))
    return odd


def longer(values: npt.NDArray[Any], by: int) -> npt.NDArray[Any]:
    """With so many zeros behind."""
    return np.concatenate([values, np.zeros(by, values.dtype)])
