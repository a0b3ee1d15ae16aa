"""Notice that a file has new content: a leaf that every package may use.

Settings, certificates and tokens come from files that others rewrite, replace, or swap through a symlink (a
ConfigMap or Secret mount points `..data` at a new folder). Polling sees all of these; inotify does not see a
change behind a symlink, and a few `stat` calls every few seconds cost nothing.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_READ_LIMIT = 1 << 20  # bytes that are compared; files of this kind are far smaller

_Signature = tuple[str, int, int, int, int, int]


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open for reading without ever waiting: a pipe in the place of a file would hold the caller for good.
    Without `follow`, a symlink as the last part of `path` is an error. Raises OSError."""
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
    """Remembers what a file was when it was last asked. A file that cannot be read is a state like any other:
    it is reported once when it begins and once when it ends."""

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
        # The signature is kept as it was before the read: a write in between shows at the next call. None is
        # kept of a file that could not be read: what hinders may be the want of a descriptor, and pass.
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
        """Python's own keyed 64-bit hash: hashlib would load OpenSSL, some 2 MiB, to compare two files."""
        try:
            with open_regular(self.path) as file:
                return hash(file.read(_READ_LIMIT))
        except OSError:
            return None
