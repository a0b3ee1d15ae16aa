"""The sink that writes a file for Node Feature Discovery, whose worker then labels the Node.

NFD ignores files whose name begins with a dot, so that one is written whole and renamed into place.
"""

import errno
import os
from pathlib import Path

from accelscope.model import Snapshot
from accelscope.sinks.atomic_file import remove_abandoned, replace_file, sink_error
from accelscope.sinks.documents import timestamp
from accelscope.sinks.labels import PACE, Features, Labels, Settled
from accelscope.sinks.sink import Pace, Sink, Timing

FEATURE_FILE = "feature-file"
FILE = "accelscope"
# After it NFD takes the labels away: a file outlives the agent that wrote it. Several renewals fit into it.
LIFETIME_SECONDS = 3600.0
_HEAD = "# Written by AccelScope, which overwrites changes.\n"


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
        super().__init__(FEATURE_FILE, pace, timing=timing)
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
    path = folder / writer
    if labels:
        # Whatever the umask: NFD's worker is another user.
        replace_file(path, file_text(labels, expires_at).encode("ascii"), 0o644)
        return
    check_folder(folder)
    remove_abandoned(path)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise sink_error(folder, error) from None


def check_folder(folder: Path) -> None:
    """Whether a file could be written there. Raises SinkError."""
    try:
        with os.scandir(folder):
            pass
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError as error:
        raise sink_error(folder, error) from None
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        number = errno.EROFS if read_only else errno.EACCES
        raise sink_error(folder, OSError(number, os.strerror(number)))
