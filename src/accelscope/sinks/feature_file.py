"""The sink that writes a file for Node Feature Discovery, whose worker then labels the Node.

NFD ignores files whose name begins with a dot, so that one is written whole and renamed into place.
"""

import errno
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from accelscope.model import Snapshot
from accelscope.sinks.documents import timestamp
from accelscope.sinks.labels import PACE, Features, Labels, Settled
from accelscope.sinks.sink import Pace, Sink, SinkError, Timing

NAME = "feature-file"
FILE = "accelscope"
# After it NFD takes the labels away: a file outlives the agent that wrote it. Several renewals fit into it.
LIFETIME_SECONDS = 3600.0
_ABANDONED_SECONDS = 60.0  # a file that is written takes far less: its writer was killed meanwhile
_HEAD = "# Written by AccelScope, which overwrites changes.\n"
_REASONS = {
    errno.ENOENT: "no_folder",
    errno.ENOTDIR: "no_folder",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EROFS: "read_only",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
}


class FeatureFileSink(Sink[Labels]):
    def __init__(
        self,
        folder: Path,
        features: Features,
        *,
        writer: str = FILE,
        pace: Pace = PACE,
        timing: Timing | None = None,
    ) -> None:
        """`writer` is the name of the file: each agent of a node has its own."""
        super().__init__(NAME, pace, timing=timing)
        self._folder = folder
        self._writer = writer
        self._settled = Settled(features, self._timing.monotonic)

    def _content(self, snapshot: Snapshot) -> Labels | None:
        return self._settled.look(snapshot)

    def _differs(self, content: Labels, written: Labels) -> bool:
        return content != written

    def _write(self, content: Labels) -> None:
        expires_at = self._timing.clock() + LIFETIME_SECONDS
        write_file(self._folder, content, writer=self._writer, expires_at=expires_at)


def file_text(labels: Labels, expires_at: float | None = None) -> str:
    """One label a line. `expires_at` is in seconds since the epoch; the line must stand before the labels."""
    expiry = "" if expires_at is None else f"# +expiry-time={timestamp(expires_at)}\n"
    return f"{_HEAD}{expiry}{label_lines(labels)}"


def label_lines(labels: Labels) -> str:
    return "".join(f"{name}={value}\n" for name, value in labels.items())


def write_file(folder: Path, labels: Labels, *, writer: str = FILE, expires_at: float | None = None) -> None:
    """Without labels the file is taken away. Raises SinkError."""
    path, temporary = folder / writer, folder / f".{writer}.{os.urandom(4).hex()}"
    _remove_abandoned(folder, writer)
    try:
        if not labels:
            check_folder(folder)
            path.unlink(missing_ok=True)
            return
        # Not through a link that somebody else put there.
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        try:
            with os.fdopen(file, "w", encoding="ascii") as opened:
                opened.write(file_text(labels, expires_at))
            temporary.chmod(0o644)  # whatever the umask: NFD's worker is another user
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()  # one for each attempt would fill a disk that is full already
            raise
    except OSError as error:
        raise _sink_error(folder, error) from None


def _remove_abandoned(folder: Path, writer: str) -> None:
    """What writers left that were killed in the middle: nobody else takes it away. Who writes now keeps his,
    also where it is another process with this name."""
    ours = re.compile(rf"\.{re.escape(writer)}\.[0-9a-f]{{8}}")
    long_ago = time.time() - _ABANDONED_SECONDS
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_mtime < long_ago:
                with suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108 - as scandir gives it


def check_folder(folder: Path) -> None:
    """Whether a file could be written there. Raises SinkError."""
    try:
        with os.scandir(folder):
            pass
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError as error:
        raise _sink_error(folder, error) from None
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        number = errno.EROFS if read_only else errno.EACCES
        raise _sink_error(folder, OSError(number, os.strerror(number)))


def _sink_error(folder: Path, error: OSError) -> SinkError:
    reason = _REASONS.get(error.errno or 0, "os_error")
    return SinkError(reason, f"{folder}: {error.strerror or error}")
