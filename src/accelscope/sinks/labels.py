"""The sinks that label the Node: by server-side apply, or through a file for Node Feature Discovery (NFD).

Server-side apply removes labels that are no longer applied. NFD ignores files whose names begin with a dot,
so a file is written under such a name and then renamed.
"""

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from accelscope.kube.client import Client
from accelscope.kube.objects import labels_patch, send
from accelscope.model import Snapshot
from accelscope.sinks.documents import timestamp
from accelscope.sinks.sink import (
    ReaderReadiness,
    Sink,
    Timing,
    WriteIntervals,
    remove_abandoned,
    replace_file,
    sink_error,
)

LABELS = "labels"
FIELD_MANAGER = "accelscope"
PACE = WriteIntervals(interval_seconds=10.0, renewal_seconds=600.0)

FEATURE_FILE = "feature-file"
FILE = "accelscope"
# After this time NFD removes the labels of a stopped agent. It is several times the renewal interval.
LIFETIME_SECONDS = 3600.0
_HEAD = "# Written by AccelScope, which overwrites changes.\n"

Labels = Mapping[str, str]
Features = Callable[[Snapshot], Labels]


class StableLabels:
    """Labels that two snapshots in a row agree on. Pods are scheduled by labels, so a reader that is still
    finding its devices must not reduce their number."""

    def __init__(self, features: Features, monotonic: Callable[[], float]) -> None:
        self._features = features
        self._readiness = ReaderReadiness(monotonic)
        self._before: Labels | None = None

    def update(self, snapshot: Snapshot) -> Labels | None:
        if not self._readiness.is_ready(snapshot):
            self._before = None
            return None
        now = self._features(snapshot)
        before, self._before = self._before, now
        return now if now == before else None


class LabelsSink(Sink[Labels]):
    def __init__(
        self,
        client: Client,
        node: str,
        features: Features,
        *,
        writer: str = FIELD_MANAGER,
        pace: WriteIntervals = PACE,
        timing: Timing | None = None,
    ) -> None:
        """`writer` is the field manager. Each agent of a node has its own, because applying removes the
        manager's earlier labels."""
        super().__init__(LABELS, pace, client=client, timing=timing)
        self._api_server = client
        self._writer = writer
        self._node = node
        self._stable = StableLabels(features, self._timing.monotonic)

    def _content(self, snapshot: Snapshot) -> Labels | None:
        return self._stable.update(snapshot)

    def _differs(self, content: Labels, written: Labels) -> bool:
        return content != written

    def _write(self, content: Labels) -> None:
        apply_labels(self._api_server, self._node, content, writer=self._writer)


def apply_labels(
    client: Client, node: str, labels: Labels, *, writer: str = FIELD_MANAGER, dry_run: bool = False
) -> None:
    """Raises KubeError."""
    send(client, labels_patch(node, labels, manager=writer, dry_run=dry_run))


class FeatureFileSink(Sink[Labels]):
    def __init__(
        self,
        folder: Path,
        features: Features,
        *,
        writer: str = FILE,
        pace: WriteIntervals = PACE,
        timing: Timing | None = None,
    ) -> None:
        """`writer` is the name of the file: each agent of a node has its own."""
        super().__init__(FEATURE_FILE, pace, timing=timing)
        self._folder = folder
        self._writer = writer
        self._stable = StableLabels(features, self._timing.monotonic)

    def _content(self, snapshot: Snapshot) -> Labels | None:
        return self._stable.update(snapshot)

    def _differs(self, content: Labels, written: Labels) -> bool:
        return content != written

    def _write(self, content: Labels) -> None:
        expires_at = self._timing.clock() + LIFETIME_SECONDS
        write_file(self._folder, content, writer=self._writer, expires_at=expires_at)


def file_text(labels: Labels, expires_at: float | None = None) -> str:
    """One label per line. `expires_at` is in seconds since the epoch; its line must precede the labels."""
    expiry = "" if expires_at is None else f"# +expiry-time={timestamp(expires_at)}\n"
    return f"{_HEAD}{expiry}{label_lines(labels)}"


def label_lines(labels: Labels) -> str:
    return "".join(f"{name}={value}\n" for name, value in labels.items())


def write_file(folder: Path, labels: Labels, *, writer: str = FILE, expires_at: float | None = None) -> None:
    """Write the file, or remove it if there are no labels. Raises SinkError."""
    path = folder / writer
    if labels:
        # Independent of the umask, because NFD's worker is another user.
        replace_file(path, file_text(labels, expires_at).encode("ascii"), 0o644)
        return
    check_folder(folder)
    remove_abandoned(path)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise sink_error(folder, error) from None


def check_folder(folder: Path) -> None:
    """Raises SinkError if the folder is not writable."""
    try:
        with os.scandir(folder):
            pass
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError as error:
        raise sink_error(folder, error) from None
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        number = errno.EROFS if read_only else errno.EACCES
        raise sink_error(folder, OSError(number, os.strerror(number)))
