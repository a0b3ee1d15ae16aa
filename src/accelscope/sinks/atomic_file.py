"""Files that are replaced whole: a reader finds the old content or the new one, never a part."""

import errno
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from accelscope.sinks.sink import SinkError

_ABANDONED_SECONDS = 60.0  # a file that is written takes far less: its writer was killed meanwhile
_REASONS = {
    errno.ENOENT: "no_folder",
    errno.ENOTDIR: "no_folder",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EROFS: "read_only",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
}


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """The temporary file begins with a dot. Raises SinkError."""
    remove_abandoned(path)
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        # Not through a link that somebody else put there.
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(content)
            temporary.chmod(mode)  # whatever the umask
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()  # one for each attempt would fill a disk that is full already
            raise
    except OSError as error:
        raise sink_error(path.parent, error) from None


def remove_abandoned(path: Path) -> None:
    """Temporary files of writers that were killed; those of a writer at work stay."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}")
    long_ago = time.time() - _ABANDONED_SECONDS
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_mtime < long_ago:
                with suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108 - as scandir gives it


def sink_error(folder: Path, error: OSError) -> SinkError:
    reason = _REASONS.get(error.errno or 0, "os_error")
    return SinkError(reason, f"{folder}: {error.strerror or error}")
