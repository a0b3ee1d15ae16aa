"""History over a restart, in one file.

    magic, one line, with the version
    pages: length of a head (4 bytes, little endian), the head as JSON, the numbers (float32, little endian)
    a last head that counts the pages
    CRC-32 of all that (4 bytes)

A page says of which ring it is, which keys it holds and which minute its last one is, so that pages that were
written before and after a minute went by are each right.
"""

import asyncio
import logging
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from accelscope.config.log import fields
from accelscope.files import open_regular
from accelscope.fleet.history.rings import NOWHERE, Key, Minutes, Rings

log = logging.getLogger(__name__)

VERSION = 1
_MAGIC = b"accelscope history "
_MAGIC_LIMIT = 64
_HEAD_LIMIT = 64 << 20
_CHECKED_AT_ONCE = 1 << 20
_NUMBER = 4  # bytes
_FLOAT = np.dtype("<f4")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PLACES_KEPT = 3  # files put aside, so that a fault that comes back does not fill the disk


class _Head(Struct):
    """Of a page; without a ring, the last one, and `pages` is how many there were."""

    ring: str | None = None
    fields: tuple[str, ...] = ()
    length: int = 0  # minutes
    last: int = 0  # minute
    keys: list[Key] = []
    pages: int = 0


class BadStateError(Exception):
    """The file is no history that this version reads."""


class StateFile:
    """`rings` by the names that they have in the file."""

    def __init__(self, rings: Mapping[str, Rings], clock: Callable[[], float] = time.time) -> None:
        self._rings = rings
        self._clock = clock
        self._failed = False
        self._saving = asyncio.Lock()

    async def save(self, path: Path) -> None:
        """Pages are copied one at a time, and written by a thread."""
        async with self._saving:
            scratch: Path | None = None
            try:
                file, made = await asyncio.to_thread(_open_scratch, path)
                scratch = made
                await self._write(file)
                await asyncio.to_thread(_put_in_place, made, path)
            except OSError as error:
                if not self._failed:
                    said = fields(path=str(path), error=error.strerror or str(error))
                    log.warning("history cannot be kept over a restart; it is tried again", extra=said)
                self._failed = True
                if scratch is not None:
                    await asyncio.to_thread(_remove, scratch)
                return
            if self._failed:
                log.info("history is kept over a restart again", extra=fields(path=str(path)))
            self._failed = False

    async def _write(self, file: BinaryIO) -> None:
        try:
            written = _Written(file)
            await asyncio.to_thread(written.add, _MAGIC + b"%d\n" % VERSION)
            pages = 0
            for name, rings in self._rings.items():
                for number in range(len(rings.pages)):
                    if number < len(rings.pages) and rings.last is not None:
                        head, numbers = _page(name, rings, number)
                        await asyncio.to_thread(written.add_page, head, numbers)
                        pages += 1
            await asyncio.to_thread(written.end, pages)
        finally:
            await asyncio.to_thread(file.close)

    def load(self, path: Path) -> None:
        try:
            for left in path.parent.glob(_scratch_name(path, "*")):  # of a process that was killed
                _remove(left)
            with open_regular(path, follow=False) as file:
                _check(file)
                _make_private(file)  # not before: another file in its place keeps its mode
                for head, numbers in _pages(file):
                    self._take(head, numbers)
        except FileNotFoundError:
            return
        except (BadStateError, OSError) as error:
            self._put_aside(path, str(error))
            return
        log.info("history was taken up", extra=fields(path=str(path), devices=len(self._rings["devices"])))

    def _take(self, head: _Head, numbers: Minutes) -> None:
        rings = self._rings.get(head.ring or "")
        if rings is None or head.fields != rings.fields:
            return  # of another version of the same format: it has what this one does not keep
        if rings.last is None or head.last > rings.last:
            rings.begin(head.last)
        slots = np.array([rings.slot(key) for key in head.keys], np.intp)
        here = slots != NOWHERE
        rings.fill(slots[here], head.last - head.length + 1, numbers[:, :, here])

    def _put_aside(self, path: Path, reason: str) -> None:
        aside = path.with_name(f"{path.name}.broken-{int(self._clock())}")
        said = fields(path=str(path), reason=reason, aside=str(aside))
        try:
            path.rename(aside)
            for old in sorted(path.parent.glob(f"{path.name}.broken-*"))[:-_PLACES_KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            said = fields(path=str(path), reason=reason, error=error.strerror)
        log.warning("history of before cannot be read, and begins anew", extra=said)


def _page(name: str, rings: Rings, number: int) -> tuple[_Head, Minutes]:
    """In the order of time; a copy, of the slots that are in use."""
    assert rings.last is not None
    start = number * rings.page_slots
    keys = rings.keys[start : start + rings.page_slots]
    used = [place for place, key in enumerate(keys) if key is not None]
    places = rings.places(rings.last - rings.length + 1, rings.last + 1)
    numbers = rings.pages[number][places][:, :, used]
    head = _Head(
        ring=name,
        fields=rings.fields,
        length=rings.length,
        last=rings.last,
        keys=[key for key in keys if key is not None],
    )
    return head, numbers


class _Written:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = 0

    def add(self, content: bytes) -> None:
        self._sum = zlib.crc32(content, self._sum)
        self._file.write(content)

    def add_page(self, head: _Head, numbers: Minutes | None = None) -> None:
        text = msgspec.json.encode(head)
        self.add(len(text).to_bytes(_NUMBER, "little"))
        self.add(text)
        if numbers is not None:
            self.add(numbers.astype(_FLOAT, copy=False).tobytes())

    def end(self, pages: int) -> None:
        self.add_page(_Head(pages=pages))
        self._file.write(self._sum.to_bytes(_NUMBER, "little"))
        self._file.flush()
        os.fsync(self._file.fileno())


def _check(file: BinaryIO) -> None:
    """Raises BadStateError; leaves the file at its first page."""
    magic = file.readline(_MAGIC_LIMIT)
    version = magic.removeprefix(_MAGIC).strip()
    if not magic.startswith(_MAGIC) or not version.isdigit():
        raise BadStateError("it is no file of this kind")
    if int(version) != VERSION:
        raise BadStateError(f"it is of version {int(version)}, and this reads version {VERSION}")
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
        raise BadStateError("its sum is wrong: it is cut off or damaged")
    file.seek(first)


def _pages(file: BinaryIO) -> Iterator[tuple[_Head, Minutes]]:
    """Of a file whose sum is right. Raises BadStateError."""
    decoder = msgspec.json.Decoder(_Head)
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


def _numbers(file: BinaryIO, head: _Head) -> Minutes:
    shape = head.length, len(head.fields), len(head.keys)
    size = shape[0] * shape[1] * shape[2] * _FLOAT.itemsize
    content = file.read(size)
    if len(content) != size:
        raise BadStateError("a page's numbers are cut off")
    numbers: npt.NDArray[np.float32] = np.frombuffer(content, _FLOAT).reshape(shape)
    return numbers


def _scratch_name(path: Path, middle: str) -> str:
    return f".{path.name}.{middle}.new"


def _open_scratch(path: Path) -> tuple[BinaryIO, Path]:
    """A new file beside `path` that only its owner reads, whatever the umask: it holds what the API guards.
    Under a name that nobody can guess, and never through a link."""
    before, after = _scratch_name(path, "*").split("*")
    descriptor, name = tempfile.mkstemp(prefix=before, suffix=after, dir=path.parent)
    return open(descriptor, "wb"), Path(name)  # noqa: PTH123 - of a descriptor; the caller closes it


def _make_private(file: BinaryIO) -> None:
    """One that an earlier version left readable for all."""
    if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _OTHERS:
        with suppress(OSError):  # another user's, which the next save replaces
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
        log.debug("a scratch file stays: %s", error)
