"""Saves the history over restarts, in one file.

    one line with a magic text and the version
    pages: length of the head (4 bytes, little endian), the head as JSON, the numbers (float32, little endian)
    a last head with the number of pages
    CRC-32 of all of it (4 bytes)

Each page contains the name of its ring, its keys and its last minute, so that the file is consistent even if
a minute passes while it is written.
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
_MAX_BROKEN_FILES = 3  # so that a recurring error does not fill the disk


class _Head(Struct):
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

    def _take(self, head: _Head, numbers: Minutes) -> None:
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


def _page(name: str, rings: Rings, number: int) -> tuple[_Head, Minutes]:
    """A copy of the slots in use, oldest minute first."""
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


class _ChecksumWriter:
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


def _pages(file: BinaryIO) -> Iterator[tuple[_Head, Minutes]]:
    """The pages of a file with a valid checksum. Raises BadStateError."""
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
