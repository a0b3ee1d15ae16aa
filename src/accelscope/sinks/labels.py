"""The sink that labels the Node directly, by server-side apply: labels that it no longer applies go."""

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from accelscope.kube.client import Client
from accelscope.kube.objects import labels_patch, send
from accelscope.model import Snapshot
from accelscope.sinks.documents import timestamp
from accelscope.sinks.sink import Knowledge, Pace, Sink, Timing, remove_abandoned, replace_file, sink_error

LABELS = "labels"
FIELD_MANAGER = "accelscope"
PACE = Pace(interval_seconds=10.0, renewal_seconds=600.0)

Labels = Mapping[str, str]
Features = Callable[[Snapshot], Labels]


class Settled:
    """Labels move pods: they are believed when two looks in a row agree, so that a reader that is still
    getting to know its devices does not show fewer of them."""

    def __init__(self, features: Features, monotonic: Callable[[], float]) -> None:
        self._features = features
        self._known = Knowledge(monotonic)
        self._before: Labels | None = None

    def look(self, snapshot: Snapshot) -> Labels | None:
        if not self._known.is_enough(snapshot):
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
        pace: Pace = PACE,
        timing: Timing | None = None,
    ) -> None:
        """`writer` is the field manager: each agent of a node has its own, for applying takes away what the
        same manager applied before."""
        super().__init__(LABELS, pace, client=client, timing=timing)
        self._api_server = client
        self._writer = writer
        self._node = node
        self._settled = Settled(features, self._timing.monotonic)

    def _content(self, snapshot: Snapshot) -> Labels | None:
        return self._settled.look(snapshot)

    def _differs(self, content: Labels, written: Labels) -> bool:
        return content != written

    def _write(self, content: Labels) -> None:
        apply_labels(self._api_server, self._node, content, writer=self._writer)


def apply_labels(
    client: Client, node: str, labels: Labels, *, writer: str = FIELD_MANAGER, dry_run: bool = False
) -> None:
    """Raises KubeError."""
    send(client, labels_patch(node, labels, manager=writer, dry_run=dry_run))


# --- feature file ------------------------------------------------------------
# The sink that writes a file for Node Feature Discovery, whose worker then labels the Node.
#
# NFD ignores files whose name begins with a dot, so that one is written whole and renamed into place.


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
