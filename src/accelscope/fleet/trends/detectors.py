"""What is usual: the middle of what was seen, how far it strays, and its ends without the few that stick out.

Medians and their like, since a mean follows the very minutes that are to be found.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

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


# --- watch ------------------------------------------------------------
# When something is said to have begun, and when to be over: one odd minute is neither.


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


# --- window ------------------------------------------------------------
# What detectors look at: an hour of some slots, and what else is known of them now.


GIB = float(1 << 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWindow:
    """Of pods, or of devices of whose pods nothing is known."""

    utilization: Window  # ratio
    memory: Window  # bytes
    capacity: Numbers  # bytes that there are for it
    idle_minutes: Numbers  # since it last did anything, by what its node says; NaN: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWindow(JobWindow):
    seen: Mask  # in this minute
    power: Window  # watts, at a moment of each minute
    drawn: Window  # watts, the mean of each minute where that is known
    heat: Window  # degrees Celsius
    power_limit: Numbers  # watts
    throttled: Mask  # by heat or by its supply
    throttled_before: Numbers  # share of the minutes before the last few
    same_pods: Numbers  # minutes since the pods on it changed; NaN: it has none
    measured_by_pods: Mask  # the utilisation of a pod on it was told in the last hour
    memory_errors: Numbers  # uncorrected, of the last minutes
    errors: Numbers  # with a code, likewise
    neighbours_heat: Numbers  # median of those that do the same work; NaN: too few


# --- oddities ------------------------------------------------------------
# Kinds of oddities, each with how it is seen and how it is said.
#
# Temperature is held against minutes with at least as much power, and power against minutes with as much
# utilisation: a load that moves explains both. Something new that runs explains everything else: so habits of
# jobs are those of a pod, and a device's power counts from when its pods were last other ones.


JUDGED_MINUTES = 10  # the newest are held against those before
LEAST_MINUTES = 20  # of history, before anything is said
ERROR_MINUTES = 10

_LEAST_LIKE = 10  # minutes with a like load
_WARM_MINUTES = 3
_HEAT_FLOOR = 6.0  # degrees: what sensors and weather do
_NEIGHBOUR_FLOOR = 15.0  # degrees: the end of an air stream is warmer than its beginning
_LIKE_POWER = 0.08  # of the limit
_LIKE_UTILIZATION = 0.1
_POWER_FLOOR = 0.25  # of what is usual
_WORTH_UTILIZATION = 0.3  # below, power says little of the work
_IDLE, _BUSY = 0.02, 0.05  # ratios
_STUCK_MINUTES = 10
_BUSY_SHARE = 0.9  # of the minutes before
_HELD = 0.8  # of the memory of before
_LEAST_HELD = GIB / 4
_PARTS, _PART_MINUTES, _PART_LEAST = 3, 18, 12
_STEADY = 0.5  # growth from one part to the next beside the mean of both
_ABOVE_NOISE = 2.0  # spreads of what is no growth
_LEAST_GROWTH = 0.01  # of the capacity, each hour
_FULL_WITHIN_HOURS = 12.0
_ABSENT = np.float32(np.nan)


W_contra = TypeVar("W_contra", contravariant=True)


class Oddity(Protocol[W_contra]):
    patience: Patience

    def find(self, window: W_contra, held: Held, /) -> Finding: ...

    def text(self, watch: Watch, slot: int) -> str: ...


class Hot:
    """A device is as warm as its last minutes made it. So it is held against minutes that came after at least
    as much power, all the while, as it may have drawn now."""

    patience = Patience(needed=3, of=JUDGED_MINUTES, end=10)

    def find(self, window: DeviceWindow, held: Held, /) -> Finding:
        heat, now = window.heat[:, :-JUDGED_MINUTES], window.heat[:, -1]
        lately = _mean_of_some(window.drawn)
        most = np.fmax(lately[:, -1], window.drawn[:, -1])[:, None]
        within = like_power(window.power_limit, np.fmax.reduce(window.power, axis=1))[:, None]
        like = lately[:, :-JUDGED_MINUTES] >= most - within
        like |= np.isnan(most)  # a device that does not tell it is held against all of its minutes
        seen = usual(heat, like)
        strays = np.maximum(_HEAT_FLOOR / 2, seen.spread)
        bound = np.maximum(seen.middle + _HEAT_FLOOR, seen.high + strays)
        enough = (_present(heat) >= LEAST_MINUTES) & (seen.minutes >= _LEAST_LIKE)
        return Finding(
            odd=now > np.where(held.active, held.bound, bound),
            judged=~np.isnan(now) & (enough | held.active),
            now=now,
            middle=seen.middle,
            spread=seen.spread,
            bound=bound,
        )

    def text(self, watch: Watch, slot: int) -> str:
        now, middle, spread = watch.now[slot], watch.middle[slot], watch.spread[slot]
        return f"temperature {now:.0f} °C, usually {middle:.0f} ± {max(spread, 1):.0f} at such a load"


class HotterThanNeighbours:
    """Needs no history: there are devices beside it that do the same."""

    patience = Patience(needed=4, of=5, end=10)

    def find(self, window: DeviceWindow, _: Held, /) -> Finding:
        now, others = window.heat[:, -1], window.neighbours_heat
        return Finding(
            odd=now > others + _NEIGHBOUR_FLOOR,
            judged=~np.isnan(now),  # without neighbours that do the same there is nothing odd
            now=now,
            middle=others,
        )

    def text(self, watch: Watch, slot: int) -> str:
        now, others = watch.now[slot], watch.middle[slot]
        return f"temperature {now:.0f} °C, {others:.0f} °C on devices beside it that do the same"


class Weak:
    """Power goes with utilisation: what was drawn with a little more or less of it counts in proportion."""

    patience = Patience(needed=4, of=5, end=10)

    def find(self, window: DeviceWindow, held: Held, /) -> Finding:
        power, now = window.power[:, :-JUDGED_MINUTES], window.power[:, -1]
        busy, busy_now = window.utilization[:, :-JUDGED_MINUTES], window.utilization[:, -1]
        ages = np.arange(window.power.shape[1] - 1, JUDGED_MINUTES - 1, -1)
        same_pods = ages <= window.same_pods[:, None]
        like = (np.abs(busy - busy_now[:, None]) <= _LIKE_UTILIZATION) & (busy > _LIKE_UTILIZATION)
        scaled: Window = np.multiply(
            power, busy_now[:, None] / np.where(like, busy, _ABSENT), dtype=np.float32
        )
        seen = usual(scaled, same_pods)
        floor = _POWER_FLOOR * seen.middle
        bound = np.minimum(seen.middle - floor, seen.low - np.maximum(floor / 2, 2 * seen.spread))
        enough = (_present(np.where(same_pods, power, _ABSENT)) >= LEAST_MINUTES) & (
            seen.minutes >= _LEAST_LIKE
        )
        worth = busy_now >= _WORTH_UTILIZATION
        return Finding(
            odd=worth & (now < np.where(held.active, held.bound, bound)),
            judged=~np.isnan(now) & ~np.isnan(busy_now) & ((worth & enough) | held.active),
            now=now,
            middle=seen.middle,
            spread=seen.spread,
            bound=bound,
        )

    def text(self, watch: Watch, slot: int) -> str:
        now, middle, spread = watch.now[slot], watch.middle[slot], watch.spread[slot]
        return f"power {now:.0f} W, usually {middle:.0f} ± {max(spread, 1):.0f} with as much utilisation"


class Throttled:
    patience = Patience(needed=3, of=5, end=10)

    def find(self, window: DeviceWindow, held: Held, /) -> Finding:
        rare = window.throttled_before <= 0.2
        return Finding(
            odd=window.throttled & (rare | held.active),
            judged=window.seen & (~np.isnan(window.throttled_before) | held.active),
            now=window.heat[:, -1],
        )

    def text(self, watch: Watch, slot: int) -> str:
        heat = watch.now[slot]
        where = "" if np.isnan(heat) else f" at {heat:.0f} °C"
        return f"slowed down by heat or its power supply{where}, usually not"


class MemoryErrors:
    patience = Patience(needed=1, of=1, end=1)

    def find(self, window: DeviceWindow, _: Held, /) -> Finding:
        now = window.memory_errors
        return Finding(odd=now >= 1, judged=window.seen & ~np.isnan(now), now=now)

    def text(self, watch: Watch, slot: int) -> str:
        count = int(watch.now[slot])
        return f"{count} uncorrected memory error{'s' if count > 1 else ''} in {ERROR_MINUTES} minutes"


class Errors:
    """One alone may be a job's own fault."""

    patience = Patience(needed=1, of=1, end=1)

    def find(self, window: DeviceWindow, _: Held, /) -> Finding:
        now = window.errors
        return Finding(odd=now >= 3, judged=window.seen & ~np.isnan(now), now=now)

    def text(self, watch: Watch, slot: int) -> str:
        return f"{int(watch.now[slot])} errors in {ERROR_MINUTES} minutes"


class Stuck:
    """It worked, and does nothing now, but holds on to its memory. Drivers tell nothing of the utilisation of
    a process that does nothing: what is absent where memory is known is idle."""

    patience = Patience(needed=1, of=1, end=2)

    def find(self, window: JobWindow, held: Held, /) -> Finding:
        known, busy = ~np.isnan(window.memory), window.utilization > _BUSY
        earlier, newest = slice(None, -_STUCK_MINUTES), slice(-_STUCK_MINUTES, None)
        minutes = np.count_nonzero(known[:, earlier], axis=1)
        worked = np.count_nonzero(busy[:, earlier], axis=1) >= _BUSY_SHARE * minutes
        idle = (known & ~(window.utilization > _IDLE))[:, newest].all(axis=1)
        usually = usual(window.memory[:, earlier], known[:, earlier]).middle
        now, active = window.memory[:, -1], held.active
        holds = now >= np.maximum(_LEAST_HELD, _HELD * np.where(active, held.bound, usually))
        begins = idle & worked & (minutes >= LEAST_MINUTES) & ~(window.idle_minutes < _STUCK_MINUTES - 1)
        return Finding(
            odd=holds & np.where(active, ~busy[:, -1], begins),
            judged=known[:, -1],
            now=now,
            middle=usual(window.utilization[:, earlier], busy[:, earlier]).middle,
            bound=usually,
        )

    def text(self, watch: Watch, slot: int) -> str:
        held, level = watch.now[slot] / GIB, watch.middle[slot]
        return f"idle for {_STUCK_MINUTES} minutes with {held:.1f} GiB held, usually {level:.0%} busy"


class Creep:
    """Memory that grows and grows, and will be full before long. There is time: what breathes in an hour and
    out in the next is not to be taken for it."""

    patience = Patience(needed=30, of=32, end=15)

    def find(self, window: JobWindow, _: Held, /) -> Finding:
        length = _PARTS * _PART_MINUTES
        newest, now = window.memory[:, -length:], window.memory[:, -1]
        parts = newest.reshape(len(newest) * _PARTS, _PART_MINUTES)
        seen = usual(parts, np.ones(parts.shape, np.bool_))
        enough = (seen.minutes.reshape(-1, _PARTS) >= _PART_LEAST).all(axis=1)
        middles = seen.middle.reshape(-1, _PARTS)
        growth = np.diff(middles, axis=1)
        mean = growth.mean(axis=1, dtype=np.float32)
        steady = growth.min(axis=1) >= _STEADY * mean
        since_middle = (np.arange(length, dtype=np.float32) - (length - 1) / 2) / _PART_MINUTES
        rest = newest - middles[:, 1:2] - mean[:, None] * since_middle
        noise = usual(rest, np.ones(rest.shape, np.bool_)).spread
        hourly = mean * np.float32(60 / _PART_MINUTES)
        left: Numbers = np.divide(
            window.capacity - now, np.where(hourly > 0, hourly, _ABSENT), dtype=np.float32
        )
        odd = steady & (mean * _PARTS >= _ABOVE_NOISE * noise)
        odd &= (hourly >= _LEAST_GROWTH * window.capacity) & (left <= _FULL_WITHIN_HOURS)
        return Finding(odd=enough & odd, judged=~np.isnan(now), now=hourly, middle=left)

    def text(self, watch: Watch, slot: int) -> str:
        hourly, left = watch.now[slot] / GIB, max(watch.middle[slot], 0.0)
        until = f"{left:.0f} hours" if left >= 1.5 else f"{left * 60:.0f} minutes"
        return f"memory grows by {hourly:.1f} GiB an hour, full in {until}"


class OfUnknownPods:
    """What is a job's habit, on devices where no pod is known, or not what it does. Where pods are known, the
    device's past is theirs only since they are there."""

    def __init__(self, job: Oddity[JobWindow]) -> None:
        self.patience = job.patience
        self.text = job.text
        self._job = job

    def find(self, window: DeviceWindow, held: Held, /) -> Finding:
        ages = np.arange(window.memory.shape[1] - 1, -1, -1)
        of_others = ages > window.same_pods[:, None]
        own = replace(
            window,
            utilization=np.where(of_others, _ABSENT, window.utilization),
            memory=np.where(of_others, _ABSENT, window.memory),
        )
        finding = self._job.find(own, held)
        return replace(finding, odd=finding.odd & ~window.measured_by_pods)


def like_power(limit: npt.NDArray[Any], power: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Watts within which a device does as much: of its limit, or, where that is not told, of what it draws at
    most."""
    return _LIKE_POWER * np.where(np.isnan(limit), power, limit)


def _mean_of_some(values: Window) -> Window:
    """Of each minute and those before it that still warm the device; what is absent is left out."""
    known = ~np.isnan(values)
    sums = np.cumsum(np.where(known, values, 0), axis=1, dtype=np.float64)
    counts = np.cumsum(known, axis=1)
    sums[:, _WARM_MINUTES:] = sums[:, _WARM_MINUTES:] - sums[:, :-_WARM_MINUTES]
    counts[:, _WARM_MINUTES:] = counts[:, _WARM_MINUTES:] - counts[:, :-_WARM_MINUTES]
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)


def _present(values: Window) -> npt.NDArray[np.intp]:
    present: npt.NDArray[np.intp] = np.count_nonzero(~np.isnan(values), axis=1)
    return present
