"""Files that others may replace at any time: opening them, noticing new content, and their permissions."""

import errno
import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)

_READ_LIMIT = 1 << 20  # bytes that are compared; settings, certificates and tokens are far smaller

_Signature = tuple[str, int, int, int, int, int]


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a file for reading without blocking, as opening a FIFO could. Without `follow`, a symlink as the
    last part of `path` is an error. Raises OSError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return open(descriptor, "rb")  # noqa: PTH123 - of a descriptor; the caller closes it


class FileWatch:
    """Detects changes of a file's content by polling. A file that becomes unreadable, or readable again, has
    changed too.

    Files may be rewritten, replaced, or swapped through a symlink: a ConfigMap or Secret volume points
    `..data` at a new folder. inotify does not report a change behind a symlink, and a few `stat` calls are
    cheap.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._signature: _Signature | None = None
        self._digest: int | None = None
        self.changed()

    def changed(self) -> bool:
        """Whether the content differs from that at the last call (or at construction)."""
        signature = self._stat()
        if signature == self._signature:
            return False
        digest = self._read()
        # The signature was taken before the read, so the next call detects a write in between. A file that
        # could not be read is read again next time: the cause may be temporary, such as no free descriptor.
        self._signature = None if digest is None else signature
        if digest == self._digest:
            return False
        self._digest = digest
        return True

    def _stat(self) -> _Signature | None:
        try:
            target = self.path.resolve(strict=True)
            status = target.stat()
        except (OSError, RuntimeError):  # RuntimeError: a loop of symlinks
            return None
        return (
            os.fspath(target),
            status.st_dev,
            status.st_ino,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_size,
        )

    def _read(self) -> int | None:
        """Python's keyed 64-bit hash is enough to compare two contents. hashlib would load OpenSSL, which
        takes 3.6 MiB of resident memory."""
        try:
            with open_regular(self.path) as file:
                return hash(file.read(_READ_LIMIT))
        except OSError:
            return None


def is_world_readable(path: str | Path) -> bool:
    """Whether every user may read the file. False if it does not exist."""
    try:
        return bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def warn_world_readable(what: str, paths: Iterable[str | None]) -> None:
    """Log a warning for each file that every user can read; `what` describes its content. Volumes mounted by
    the kubelet are ignored: a Secret has mode 0644 by default, and a container has no other users."""
    for path in dict.fromkeys(paths):
        if path is not None and is_world_readable(path) and not (Path(path).parent / "..data").is_symlink():
            log.warning(
                "every user of this machine can read %s; run chmod o-r",
                what,
                extra={"fields": {"path": path}},
            )
