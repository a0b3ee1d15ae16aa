"""Ring buffers: the values of the last minutes for many keys.

A key has a slot, slots are in pages, and a page is one array of minutes x fields x slots. So a minute is
written at once, and growing copies nothing. NaN is absence; a minute in which nothing was recorded is a gap.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

Key = tuple[str | None, ...]
Minutes = npt.NDArray[np.float32]
Slots = npt.NDArray[np.intp]

NOWHERE = -1
_RECYCLED_AT_ONCE = 4096


class Rings:
    """`length` is in minutes. There are at most `limit` keys; `refused` counts those without room in the last
    minute. A slot whose key had no value for the whole length is reused."""

    def __init__(self, fields: Sequence[str], length: int, *, limit: int, page_slots: int) -> None:
        self.fields = tuple(fields)
        self.length = length
        self.limit = limit
        self.page_slots = page_slots
        self.refused = 0
        self.last: int | None = None  # the last recorded minute, since the epoch
        self.keys: list[Key | None] = []  # by slot
        self.pages: list[Minutes] = []
        self._slots: dict[Key, int] = {}
        self._free: list[int] = []
        self._seen = np.empty(0, np.int64)  # by slot: the last minute with a value
        self._used = np.empty(0, np.bool_)  # by slot
        self.lives = np.empty(0, np.int64)  # by slot: increases with each new key

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def slots(self) -> int:
        """Slots in use are below this."""
        return len(self.keys)

    def find(self, key: Key) -> int:
        """NOWHERE if it has none."""
        return self._slots.get(key, NOWHERE)

    def entries(self) -> Iterator[tuple[Key, int]]:
        return iter(self._slots.items())

    def slot(self, key: Key) -> int:
        """The slot of this key, which may be new; NOWHERE if there is no room."""
        slot = self._slots.get(key)
        if slot is not None:
            return slot
        if self._free:
            slot = self._free.pop()
            self.keys[slot] = key
            self.pages[slot // self.page_slots][:, :, slot % self.page_slots] = np.nan
        elif len(self.keys) < self.limit:
            slot = len(self.keys)
            self.keys.append(key)
            if slot // self.page_slots == len(self.pages):
                self._grow()
        else:
            return NOWHERE
        self._slots[key] = slot
        self._used[slot] = True
        self._seen[slot] = NOWHERE if self.last is None else self.last
        self.lives[slot] += 1
        return slot

    def _grow(self) -> None:
        shape = self.length, len(self.fields), self.page_slots
        self.pages.append(np.full(shape, np.nan, np.float32))
        self._seen = np.concatenate([self._seen, np.full(self.page_slots, NOWHERE, np.int64)])
        self._used = np.concatenate([self._used, np.zeros(self.page_slots, np.bool_)])
        self.lives = np.concatenate([self.lives, np.zeros(self.page_slots, np.int64)])

    def begin(self, minute: int) -> None:
        """Begins a minute. Skipped minutes are gaps; if the clock was set back, the minutes after it are
        dropped."""
        last = minute if self.last is None else self.last
        first, end = (last + 1, minute) if minute > last else (minute, last)
        for passed in range(max(first, end - self.length + 1), end + 1):
            for page in self.pages:
                page[passed % self.length] = np.nan
        self.last = minute
        np.minimum(self._seen, minute, out=self._seen)

    def write(self, slots: Slots, values: npt.NDArray[np.floating]) -> None:
        """Writes values of the last minute, fields x slots. Slots that are NOWHERE are ignored."""
        assert self.last is not None
        place = self.last % self.length
        here = slots >= 0
        if not here.all():
            slots, values = slots[here], values[:, here]
        whole = np.full((len(self.fields), len(self.pages) * self.page_slots), np.nan, np.float32)
        whole[:, slots] = values
        self._seen[slots] = self.last
        for number, page in enumerate(self.pages):
            page[place] = whole[:, number * self.page_slots : (number + 1) * self.page_slots]

    def recycle(self) -> list[int]:
        """Frees slots without values, some at a time."""
        if self.last is None:
            return []
        unseen = self._used & (self._seen <= self.last - self.length)
        taken: list[int] = np.flatnonzero(unseen)[:_RECYCLED_AT_ONCE].tolist()
        for slot in taken:
            key = self.keys[slot]
            assert key is not None
            del self._slots[key]
            self.keys[slot] = None
            self._used[slot] = False
        self._free += taken
        return taken

    def places(self, first: int, end: int) -> Slots:
        """Indices in a page of the minutes from `first` up to, but not including, `end`."""
        return np.arange(first, end) % self.length

    def span(self, since: float, until: float) -> tuple[int, int]:
        """The stored minutes between two times in seconds since the epoch: the first, and the one after the
        last."""
        if self.last is None:
            return 0, 0
        first = max(-int(-since // 60), self.last - self.length + 1)
        return first, max(first, min(int(until // 60), self.last) + 1)

    def read(self, slot: int, first: int, end: int) -> Minutes:
        """Fields x minutes."""
        page = self.pages[slot // self.page_slots]
        across: Minutes = page[self.places(first, end), :, slot % self.page_slots].T
        return across

    def fill(self, slots: Slots, first: int, values: Minutes) -> None:
        """Fills gaps with values: minutes from `first` on x fields x slots, each slot once. Other minutes are
        ignored."""
        if self.last is None:
            return
        cut = max(0, self.last - self.length + 1 - first)
        values = values[cut : max(cut, self.last + 1 - first)]
        first += cut
        places = self.places(first, first + len(values))
        for number in np.unique(slots // self.page_slots).tolist():
            here = slots // self.page_slots == number
            where = np.ix_(places, np.arange(len(self.fields)), slots[here] % self.page_slots)
            before = self.pages[number][where]
            self.pages[number][where] = np.where(np.isnan(before), values[:, :, here], before)


SummaryScope: TypeAlias = Literal["fleet", "cluster", "vendor", "model", "namespace"]
Scope: TypeAlias = Literal["fleet", "cluster", "vendor", "model", "namespace", "device", "pod"]

SUMMARY_FIELDS = (
    "devices",
    "devices_unhealthy",
    "devices_allocated",
    "utilization_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "temperature_max_celsius",
)
DEVICE_FIELDS = ("utilization_ratio", "memory_used_bytes", "power_watts", "temperature_celsius")
POD_FIELDS = ("utilization_ratio", "memory_used_bytes")

MINUTE = 60.0  # seconds


class HistorySeries(Struct, frozen=True, kw_only=True, gc=False):
    """Value i of each field is of `start` + i * `step_seconds`."""

    scope: Annotated[Scope, Meta(description="what it is of")]
    key: Annotated[
        str | None,
        Meta(description="the cluster, vendor, model, namespace, device id or pod; null: the fleet"),
    ]
    cluster: Annotated[str | None, Meta(description="of the device or pod")] = None
    node: Annotated[str | None, Meta(description="of the device")] = None
    namespace: Annotated[str | None, Meta(description="of the pod")] = None
    start: Annotated[float, Meta(description="of the first value, seconds since the epoch")]
    step_seconds: Annotated[float, Meta(description="time from one point to the next")]
    fields: Annotated[
        dict[str, list[float | None]],
        Meta(description="by name, all of one length; null: nothing was read then"),
    ]
    simulated: Annotated[bool, Meta(description="all of it or a part, by clusters as they are now")] = False
    source: Annotated[
        Literal["ring", "prometheus"], Meta(description="`ring`: what this process saw by the minute")
    ]


class HistoryStore(Protocol):
    """A store with a longer history than this process. Returns None without data, and does not raise errors
    of the store."""

    async def series(
        self,
        scope: Scope,
        key: str | None,
        *,
        cluster: str | None = None,
        node: str | None = None,
        namespace: str | None = None,
        since: float,
        until: float,
    ) -> HistorySeries | None: ...

    async def devices(self, since: float, until: float) -> Iterable[HistorySeries]:
        """All devices by the minute, to fill the rings after a start."""
        ...
