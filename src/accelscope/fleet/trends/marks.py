"""Who is out of habit now, and why."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from accelscope.fleet.history.rings import Key, Rings, Slots
from accelscope.fleet.trends.oddities import Oddity
from accelscope.fleet.trends.watch import Watch

NAMED_LIMIT = 500  # if more are odd at once, it is the fleet that changed

W = TypeVar("W")


class Marks(Generic[W]):
    """Of the slots of `rings`. Reasons stay as they were said when each began, so that those who follow are
    not told of every degree."""

    def __init__(self, rings: Rings, oddities: Sequence[Oddity[W]], limit: int = NAMED_LIMIT) -> None:
        self._rings = rings
        self._watches = [(oddity, Watch(oddity.patience)) for oddity in oddities]
        self._limit = limit
        self._lives = np.zeros(0, np.int64)  # by slot, when it was last looked at
        self._reasons: dict[int, dict[int, str]] = {}  # by slot and place of the oddity
        self._marked: dict[int, Key | None] = {}  # by slot: whose the reasons are, also when it has lost it
        self._ended: set[Key] = set()
        self.unnamed = 0

    @property
    def named(self) -> int:
        return min(len(self._reasons), self._limit)

    def begin(self) -> Slots:
        """Of a minute. Slots that were given to others since the last one: what was known of them is
        forgotten. So is what was said of those whose slot was taken back."""
        before, self._lives = self._lives, self._rings.lives.copy()
        others = np.flatnonzero(before != self._lives[: len(before)])
        free = [slot for slot in self._reasons if self._rings.keys[slot] is None]
        for _, watch in self._watches:
            watch.reach(len(self._lives))
            watch.reset(others)
            watch.reset(np.array(free, np.intp))
        for slot in self._reasons.keys() & {*others.tolist(), *free}:
            self._forget(slot)
        return others

    def judge(self, here: slice, window: W) -> None:
        for place, (oddity, watch) in enumerate(self._watches):
            began, ended = watch.step(here, oddity.find(window, watch.held(here)))
            for slot in began.tolist():
                self._reasons.setdefault(slot, {})[place] = oddity.text(watch, slot)
                self._marked[slot] = self._rings.keys[slot]
            for slot in ended.tolist():
                self._end(slot, place)

    def _end(self, slot: int, place: int) -> None:
        reasons = self._reasons[slot]
        del reasons[place]
        if not reasons:
            self._forget(slot)

    def _forget(self, slot: int) -> None:
        del self._reasons[slot]
        key = self._marked.pop(slot)
        if key is not None:
            self._ended.add(key)

    def texts(self) -> Mapping[Key, str | None]:
        """All that are odd, and those that were until now, with None."""
        found: dict[Key, str | None] = dict.fromkeys(self._ended)
        self._ended = set()
        named = 0
        for slot, reasons in self._reasons.items():
            key = self._rings.keys[slot]
            if key is None:
                continue
            named += 1
            if named <= self._limit:
                found[key] = "; ".join(text for _, text in sorted(reasons.items()))
        self.unnamed = max(0, named - self._limit)
        return found
