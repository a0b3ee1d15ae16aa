"""What of a device's past is not in the rings: errors, minutes under throttle, when its pods changed.

All of it by slot, and begun anew when a slot is given to another device.
"""

import numpy as np
import numpy.typing as npt

from accelscope.fleet.history.rings import Slots
from accelscope.fleet.trends.oddities import ERROR_MINUTES, JUDGED_MINUTES, LEAST_MINUTES
from accelscope.fleet.trends.usual import Mask, Numbers, Window
from accelscope.fleet.trends.watch import longer

_HOUR = 60  # minutes
_LEAST_SECONDS = 10.0  # between two readings of a counter, for a rate that means something


class Rises:
    """By how much a counter rose in the last minutes. One that fell was set back, and begins anew."""

    def __init__(self) -> None:
        self._last = np.zeros(0)
        self._rises = np.zeros((ERROR_MINUTES, 0), np.float32)
        self._minute = 0

    def reach(self, slots: int) -> None:
        missing = slots - len(self._last)
        if missing > 0:
            self._last = np.concatenate([self._last, np.full(missing, np.nan)])
            self._rises = np.concatenate(
                [self._rises, np.zeros((ERROR_MINUTES, missing), np.float32)], axis=1
            )

    def reset(self, slots: Slots) -> None:
        self._last[slots] = np.nan
        self._rises[:, slots] = 0

    def begin(self, minute: int) -> None:
        for passed in range(max(self._minute + 1, minute - ERROR_MINUTES + 1), minute + 1):
            self._rises[passed % ERROR_MINUTES] = 0
        self._minute = minute

    def take(self, slots: Slots, counts: npt.NDArray[np.float64]) -> None:
        rise = counts - self._last[slots]
        self._rises[self._minute % ERROR_MINUTES, slots] = np.where(rise > 0, rise, 0)
        self._last[slots] = np.where(np.isnan(counts), self._last[slots], counts)

    def of(self, here: slice) -> Numbers:
        """NaN where the counter was never seen."""
        total = self._rises[:, here].sum(axis=0)
        return np.where(np.isnan(self._last[here]), np.nan, total).astype(np.float32)


class Drawn:
    """Mean power of each minute of the last hour, by the device's energy counter: what it drew at the moment
    that it was asked says little where the load comes in bursts. Where there is no counter, that is all there
    is."""

    def __init__(self) -> None:
        self._joules = np.zeros(0)
        self._taken_at = np.zeros(0)
        self._minute = 0
        # 0 is absence: memory that is not touched costs nothing.
        self._watts = np.zeros((_HOUR, 0), np.float32)

    def reach(self, slots: int) -> None:
        missing = slots - len(self._joules)
        if missing > 0:
            self._joules = np.concatenate([self._joules, np.full(missing, np.nan)])
            self._taken_at = np.concatenate([self._taken_at, np.full(missing, np.nan)])
            longer = np.zeros((_HOUR, slots), np.float32)
            longer[:, : self._watts.shape[1]] = self._watts
            self._watts = longer

    def reset(self, slots: Slots) -> None:
        self._joules[slots] = np.nan
        self._watts[:, slots] = 0

    def begin(self, minute: int) -> None:
        for passed in range(max((self._minute or minute) + 1, minute - _HOUR + 1), minute + 1):
            self._watts[passed % _HOUR] = 0
        self._minute = minute

    def take(self, slots: Slots, joules: npt.NDArray[np.float64], taken_at: npt.NDArray[np.float64]) -> None:
        seconds = taken_at - self._taken_at[slots]
        drawn = joules - self._joules[slots]
        told = (seconds >= _LEAST_SECONDS) & (drawn > 0)  # a counter that fell was set back
        watts = np.where(told, drawn / np.where(told, seconds, 1), 0)
        self._watts[self._minute % _HOUR, slots] = watts
        self._joules[slots] = joules
        self._taken_at[slots] = taken_at

    def of(self, here: slice, power: Window) -> Window:
        """`power`: as it was at the moments of asking."""
        places = np.arange(self._minute - _HOUR + 1, self._minute + 1) % _HOUR
        watts = self._watts[places, here].T
        return np.where(watts > 0, watts, power)


class DevicePast:
    def __init__(self) -> None:
        self.drawn = Drawn()
        self.memory_errors = Rises()
        self.errors = Rises()
        self._throttled = np.zeros(0, np.uint64)  # a bit for each minute, the newest lowest
        self._minutes = np.zeros(0, np.int32)  # that were seen of it
        self._pods = np.zeros(0, np.uint64)
        self._pods_since = np.zeros(0, np.int64)  # minute

    def reach(self, slots: int) -> None:
        self.drawn.reach(slots)
        self.memory_errors.reach(slots)
        self.errors.reach(slots)
        missing = slots - len(self._minutes)
        if missing > 0:
            for name in ("_throttled", "_minutes", "_pods", "_pods_since"):
                setattr(self, name, longer(getattr(self, name), missing))

    def reset(self, slots: Slots) -> None:
        self.drawn.reset(slots)
        self.memory_errors.reset(slots)
        self.errors.reset(slots)
        self._throttled[slots] = 0
        self._minutes[slots] = 0
        self._pods[slots] = 0

    def begin(self, minute: int) -> None:
        self.drawn.begin(minute)
        self.memory_errors.begin(minute)
        self.errors.begin(minute)

    def take_errors(
        self, slots: Slots, memory: npt.NDArray[np.float64], others: npt.NDArray[np.float64]
    ) -> None:
        """Of errors with a code, there are none where none is told: drivers list those that occurred."""
        self.memory_errors.take(slots, memory)
        self.errors.take(slots, np.nan_to_num(others))

    def take_throttled(self, slots: Slots, throttled: Mask) -> None:
        shifted = self._throttled[slots] << np.uint64(1)
        self._throttled[slots] = shifted | throttled.astype(np.uint64)
        self._minutes[slots] = np.minimum(self._minutes[slots] + 1, _HOUR)

    def take_pods(self, slots: Slots, pods: npt.NDArray[np.uint64], minute: int) -> None:
        changed = slots[self._pods[slots] != pods]
        self._pods[slots] = pods
        self._pods_since[changed] = minute

    def throttled_now(self, here: slice) -> Mask:
        return (self._throttled[here] & np.uint64(1)).astype(np.bool_)

    def throttled_before(self, here: slice) -> Numbers:
        """Share of the minutes before those that are judged; NaN where they are too few."""
        before = np.bitwise_count(self._throttled[here] >> np.uint64(JUDGED_MINUTES))
        minutes = self._minutes[here] - JUDGED_MINUTES
        share = before / np.maximum(minutes, 1)
        return np.where(minutes >= LEAST_MINUTES, share, np.nan).astype(np.float32)

    def same_pods(self, here: slice, minute: int) -> Numbers:
        since = minute - self._pods_since[here]
        return np.where(self._pods[here] == 0, np.nan, since).astype(np.float32)
