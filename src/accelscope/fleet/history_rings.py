"""Ring buffers with the values of the last minutes for many keys, and the file in which they are saved.

A key has a slot, slots are in pages, and a page is one array of minutes x fields x slots. So a minute is
written at once, and growing copies nothing. NaN is absence; a minute in which nothing was recorded is a gap.
"""

import asyncio
import logging
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, Protocol, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from accelscope.config.log import fields
from accelscope.files import open_regular

log = logging.getLogger(__name__)

Key = tuple[str | None, ...]
Minutes = npt.NDArray[np.float32]
Slots = npt.NDArray[np.intp]

NOWHERE = -1
_RECYCLED_AT_ONCE = 4096


class Rings:
    """`length` is in minutes. There are at most `limit` keys; `dropped` counts those without room in the last
    minute. A slot whose key had no value for the whole length is reused."""

    def __init__(self, fields: Sequence[str], length: int, *, limit: int, page_slots: int) -> None:
        self.fields = tuple(fields)
        self.length = length
        self.limit = limit
        self.page_slots = page_slots
        self.dropped = 0
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
HistoryScope: TypeAlias = Literal["fleet", "cluster", "vendor", "model", "namespace", "device", "pod"]

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
    """Value i of each field belongs to the time `start` + i * `step_seconds`."""

    scope: Annotated[HistoryScope, Meta(description="what the history is about")]
    key: Annotated[
        str | None,
        Meta(description="the cluster, vendor, model, namespace, device id or pod; null: the fleet"),
    ]
    cluster: Annotated[str | None, Meta(description="id of the cluster of the device or pod")] = None
    node: Annotated[str | None, Meta(description="name of the node of the device")] = None
    namespace: Annotated[str | None, Meta(description="namespace of the pod")] = None
    start: Annotated[float, Meta(description="time of the first value, in seconds since the epoch")]
    step_seconds: Annotated[float, Meta(description="time between two values")]
    fields: Annotated[
        dict[str, list[float | None]],
        Meta(description="values by name, in lists of equal length; null: not read at that time"),
    ]
    simulated: Annotated[bool, Meta(description="true: some or all of the clusters are simulated now")] = (
        False
    )
    source: Annotated[
        Literal["ring", "prometheus"],
        Meta(description="`ring`: recorded by this process; `prometheus`: read from a store"),
    ]


class HistoryStore(Protocol):
    """A store with a longer history than this process. Returns None without data, and does not raise errors
    of the store."""

    async def series(
        self,
        scope: HistoryScope,
        key: str | None,
        *,
        cluster: str | None = None,
        node: str | None = None,
        namespace: str | None = None,
        since: float,
        until: float,
    ) -> HistorySeries | None: ...

    async def devices(self, since: float, until: float) -> Iterable[HistorySeries]:
        """The history of all devices by the minute, to fill the rings after a start."""
        ...


# --- The file -------------------------------------------------------------------
#
# The history is saved over restarts in one file:
#
#     one line with a magic text and the version
#     pages: length of the head (4 bytes), the head as JSON, the numbers (float32); both are little endian
#     a last head with the number of pages
#     CRC-32 of all of it (4 bytes)
#
# Each page contains the name of its ring, its keys and its last minute, so that the file is consistent even
# if a minute passes while it is written.

VERSION = 1
_MAGIC = b"accelscope history "
_MAGIC_LIMIT = 64
_HEAD_LIMIT = 64 << 20
_CHECKED_AT_ONCE = 1 << 20
_NUMBER = 4  # bytes
_FLOAT = np.dtype("<f4")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MAX_BROKEN_FILES = 3  # so that a recurring error does not fill the disk


class _PageHead(Struct):
    """The head of a page; the last one has no ring, and `pages` is their number."""

    ring: str | None = None
    fields: tuple[str, ...] = ()
    length: int = 0  # minutes
    last: int = 0  # minute
    keys: list[Key] = []
    pages: int = 0


class BadStateError(Exception):
    """The file is not a history of this version."""


class StateFile:
    """`rings` are by their names in the file."""

    def __init__(self, rings: Mapping[str, Rings], clock: Callable[[], float] = time.time) -> None:
        self._rings = rings
        self._clock = clock
        self._failed = False
        self._saving = asyncio.Lock()

    async def save(self, path: Path) -> None:
        """Copies one page at a time, and writes it in a thread."""
        async with self._saving:
            scratch: Path | None = None
            try:
                file, made = await asyncio.to_thread(_open_scratch, path)
                scratch = made
                await self._write(file)
                await asyncio.to_thread(_put_in_place, made, path)
            except OSError as error:
                if not self._failed:
                    extra = fields(path=str(path), error=error.strerror or str(error))
                    log.warning("cannot save history; retrying", extra=extra)
                self._failed = True
                if scratch is not None:
                    await asyncio.to_thread(_remove, scratch)
                return
            if self._failed:
                log.info("history is saved again", extra=fields(path=str(path)))
            self._failed = False

    async def _write(self, file: BinaryIO) -> None:
        try:
            writer = _ChecksumWriter(file)
            await asyncio.to_thread(writer.add, _MAGIC + b"%d\n" % VERSION)
            pages = 0
            for name, rings in self._rings.items():
                for number in range(len(rings.pages)):
                    if number < len(rings.pages) and rings.last is not None:
                        head, numbers = _page(name, rings, number)
                        await asyncio.to_thread(writer.add_page, head, numbers)
                        pages += 1
            await asyncio.to_thread(writer.end, pages)
        finally:
            await asyncio.to_thread(file.close)

    def load(self, path: Path) -> None:
        try:
            for left in path.parent.glob(_scratch_name(path, "*")):  # left by a killed process
                _remove(left)
            with open_regular(path, follow=False) as file:
                _check(file)
                _make_private(file)  # after the check, so that another file keeps its mode
                for head, numbers in _pages(file):
                    self._take(head, numbers)
        except FileNotFoundError:
            return
        except (BadStateError, OSError) as error:
            self._put_aside(path, str(error))
            return
        log.info("history loaded", extra=fields(path=str(path), devices=len(self._rings["devices"])))

    def _take(self, head: _PageHead, numbers: Minutes) -> None:
        rings = self._rings.get(head.ring or "")
        if rings is None or head.fields != rings.fields:
            return  # another version of the same format with other rings or fields
        if rings.last is None or head.last > rings.last:
            rings.begin(head.last)
        slots = np.array([rings.slot(key) for key in head.keys], np.intp)
        here = slots != NOWHERE
        rings.fill(slots[here], head.last - head.length + 1, numbers[:, :, here])

    def _put_aside(self, path: Path, reason: str) -> None:
        aside = path.with_name(f"{path.name}.broken-{int(self._clock())}")
        extra = fields(path=str(path), reason=reason, aside=str(aside))
        try:
            path.rename(aside)
            for old in sorted(path.parent.glob(f"{path.name}.broken-*"))[:-_MAX_BROKEN_FILES]:
                old.unlink(missing_ok=True)
        except OSError as error:
            extra = fields(path=str(path), reason=reason, error=error.strerror)
        log.warning("cannot read the saved history; starting without it", extra=extra)


def _page(name: str, rings: Rings, number: int) -> tuple[_PageHead, Minutes]:
    """A copy of the slots in use, oldest minute first."""
    assert rings.last is not None
    start = number * rings.page_slots
    keys = rings.keys[start : start + rings.page_slots]
    used = [place for place, key in enumerate(keys) if key is not None]
    places = rings.places(rings.last - rings.length + 1, rings.last + 1)
    numbers = rings.pages[number][places][:, :, used]
    head = _PageHead(
        ring=name,
        fields=rings.fields,
        length=rings.length,
        last=rings.last,
        keys=[key for key in keys if key is not None],
    )
    return head, numbers


class _ChecksumWriter:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = 0

    def add(self, content: bytes) -> None:
        self._sum = zlib.crc32(content, self._sum)
        self._file.write(content)

    def add_page(self, head: _PageHead, numbers: Minutes | None = None) -> None:
        text = msgspec.json.encode(head)
        self.add(len(text).to_bytes(_NUMBER, "little"))
        self.add(text)
        if numbers is not None:
            self.add(numbers.astype(_FLOAT, copy=False).tobytes())

    def end(self, pages: int) -> None:
        self.add_page(_PageHead(pages=pages))
        self._file.write(self._sum.to_bytes(_NUMBER, "little"))
        self._file.flush()
        os.fsync(self._file.fileno())


def _check(file: BinaryIO) -> None:
    """Raises BadStateError; leaves the file at its first page."""
    magic = file.readline(_MAGIC_LIMIT)
    version = magic.removeprefix(_MAGIC).strip()
    if not magic.startswith(_MAGIC) or not version.isdigit():
        raise BadStateError("not a history file")
    if int(version) != VERSION:
        raise BadStateError(f"version {int(version)} is not supported; this version reads {VERSION}")
    first = file.tell()
    left = file.seek(0, os.SEEK_END) - first - _NUMBER
    file.seek(first)
    found = zlib.crc32(magic)
    while left > 0:
        part = file.read(min(left, _CHECKED_AT_ONCE))
        if not part:
            break
        found = zlib.crc32(part, found)
        left -= len(part)
    if left or file.read() != found.to_bytes(_NUMBER, "little"):
        raise BadStateError("wrong checksum: the file is truncated or damaged")
    file.seek(first)


def _pages(file: BinaryIO) -> Iterator[tuple[_PageHead, Minutes]]:
    """The pages of a file with a valid checksum. Raises BadStateError."""
    decoder = msgspec.json.Decoder(_PageHead)
    pages = 0
    while True:
        length = int.from_bytes(file.read(_NUMBER), "little")
        if length > _HEAD_LIMIT:
            raise BadStateError("a page's head is too long")
        try:
            head = decoder.decode(file.read(length))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadStateError(f"a page's head: {error}") from None
        if head.ring is None:
            if head.pages != pages:
                raise BadStateError("pages are missing")
            return
        yield head, _numbers(file, head)
        pages += 1


def _numbers(file: BinaryIO, head: _PageHead) -> Minutes:
    shape = head.length, len(head.fields), len(head.keys)
    size = shape[0] * shape[1] * shape[2] * _FLOAT.itemsize
    content = file.read(size)
    if len(content) != size:
        raise BadStateError("the numbers of a page are truncated")
    numbers: npt.NDArray[np.float32] = np.frombuffer(content, _FLOAT).reshape(shape)
    return numbers


def _scratch_name(path: Path, middle: str) -> str:
    return f".{path.name}.{middle}.new"


def _open_scratch(path: Path) -> tuple[BinaryIO, Path]:
    """Creates a file beside `path` that only its owner can read, because the API protects its content. The
    name is not predictable, and links are not followed."""
    before, after = _scratch_name(path, "*").split("*")
    descriptor, name = tempfile.mkstemp(prefix=before, suffix=after, dir=path.parent)
    return open(descriptor, "wb"), Path(name)  # noqa: PTH123 - of a descriptor; the caller closes it


def _make_private(file: BinaryIO) -> None:
    """Fixes the mode of a file that an earlier version made readable for all."""
    if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _OTHERS:
        with suppress(OSError):  # the file of another user, which the next save replaces
            os.fchmod(file.fileno(), 0o600)


def _put_in_place(scratch: Path, path: Path) -> None:
    scratch.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(scratch: Path) -> None:
    try:
        scratch.unlink(missing_ok=True)
    except OSError as error:
        log.debug("cannot remove a temporary file: %s", error)
