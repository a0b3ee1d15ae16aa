"""The base of all sinks: thread, intervals, and retries with backoff.

    snapshot ──_content──▶ desired content ──_differs from the written content──▶ _write

A sink writes when the content differs or must be renewed, at most once per interval. After a failure it waits
with exponential backoff.
"""

import errno
import logging
import os
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from accelscope.kube.client import Client
from accelscope.kube.endpoint import KubeError, Reason
from accelscope.kube.listwatch import REFUSED, Backoff, random_ratio
from accelscope.model import ReaderState, ReasonCount, SinkState, Snapshot, Vendor, counted

log = logging.getLogger(__name__)

C = TypeVar("C")

RENEWAL_JITTER = 0.1  # fraction by which a renewal may be early, so that nodes do not all write at once
_INTERNAL_ERROR_SECONDS = 60.0  # pause after an unexpected error
_TOKEN_CHECK_SECONDS = 1.0


class SinkError(Exception):
    """A write failed. `reason` is a short word for metrics."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class WriteIntervals:
    interval_seconds: float  # minimum time between two writes
    renewal_seconds: float  # maximum time between two writes; jitter is subtracted


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks and random numbers, replaced in tests."""

    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random_ratio


class Sink(ABC, Generic[C]):
    """offer() and `state` may be used in any thread; step() runs in the sink's own."""

    def __init__(
        self, name: str, pace: WriteIntervals, *, client: Client | None = None, timing: Timing | None = None
    ) -> None:
        self.state = SinkState(sink=name, up=False, reason="starting")
        self._pace = pace
        self._client = client
        self._timing = timing or Timing()
        self._changed = threading.Condition()
        self._newest: Snapshot | None = None
        self._offers = 0
        self._stopping = False
        self._last_snapshot: Snapshot | None = None
        self._wanted: C | None = None
        self._written: C | None = None
        self._written_from: Snapshot | None = None
        self._not_before = 0.0  # by the monotonic clock
        self._renew_at = 0.0
        self._backoff = Backoff(self._timing.random)
        self._refused_token: int | None = None  # generation of the token that was rejected

    @abstractmethod
    def _content(self, snapshot: Snapshot) -> C | None:
        """The desired content; None if it is unknown yet, then the written content stays."""

    @abstractmethod
    def _differs(self, content: C, written: C) -> bool:
        """Whether the difference needs a write."""

    @abstractmethod
    def _write(self, content: C) -> str | None:
        """Returns a text about omitted content, if any. Raises KubeError or SinkError."""

    def _renews(self, _content: C) -> bool:
        """Whether unchanged content is written again after the renewal interval."""
        return True

    def start(self) -> None:
        name = f"sink-{self.state.sink}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def stop(self) -> None:
        """Does not write pending content: stopping must not wait for a server."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def offer(self, snapshot: Snapshot) -> None:
        with self._changed:
            self._newest = snapshot
            self._offers += 1
            self._changed.notify_all()

    def step(self) -> float | None:
        """Write if it is due. Returns the seconds until the next step; None: at the next offer."""
        now = self._timing.monotonic()
        snapshot = self._newest
        if snapshot is None:
            return None
        if now < self._not_before and not self._has_another_token():
            return self._pause(now)
        is_new = snapshot is not self._last_snapshot
        if is_new:
            self._last_snapshot, self._wanted = snapshot, self._content(snapshot)
        wanted = self._wanted
        if wanted is None:
            if self.state.last_success is None and self.state.error is None:
                self.state = replace(self.state, reason="no_reading")
            return None
        if not self._is_due(wanted, snapshot, now):
            if is_new:
                self.state = replace(self.state, skips=self.state.skips + 1)
            left = self._renew_at - now
            return left if left > 0 and self._renews(wanted) else None
        self._attempt(wanted, snapshot, now)
        return max(0.0, self._pause(self._timing.monotonic()))

    def _run(self) -> None:
        while True:
            with self._changed:
                offers = self._offers
                if self._stopping:
                    break
            try:
                seconds = self.step()
            except Exception as error:  # the sink goes on with the next write
                log.exception("unexpected error in the sink %s", self.state.sink)
                self._failed("internal", f"{type(error).__name__}: {error}")
                self._not_before = self._timing.monotonic() + _INTERNAL_ERROR_SECONDS
                seconds = _INTERNAL_ERROR_SECONDS
            self._await_offer(offers, seconds)
        if self._client is not None:
            self._client.close()

    def _await_offer(self, offers: int, seconds: float | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._offers != offers, seconds)

    def _is_due(self, wanted: C, snapshot: Snapshot, now: float) -> bool:
        if self._written is None or self._differs(wanted, self._written):
            return True
        # Only a newer snapshot is renewed: an old reading must not get a new time.
        is_newer = snapshot is not self._written_from
        return is_newer and now >= self._renew_at and self._renews(wanted)

    def _attempt(self, wanted: C, snapshot: Snapshot, now: float) -> None:
        generation = self._client.token_generation() if self._client is not None else 0
        try:
            left_out = self._write(wanted)
        except KubeError as error:
            self._failed(str(error.reason), error.text)
            self._not_before = self._timing.monotonic() + self._backoff.failed(error)
            self._refused_token = generation if error.reason in REFUSED else None
            return
        except SinkError as error:
            self._failed(error.reason, str(error))
            self._not_before = self._timing.monotonic() + self._backoff.failed()
            return
        self._written, self._written_from = wanted, snapshot
        self._not_before = now + self._pace.interval_seconds
        self._renew_at = now + self._pace.renewal_seconds * (1 - RENEWAL_JITTER * self._timing.random())
        self._refused_token = None
        self._succeeded(left_out)

    def _succeeded(self, left_out: str | None) -> None:
        before = self.state
        self._backoff.succeeded()
        self.state = replace(
            before, up=True, reason=None, last_success=self._timing.clock(), writes=before.writes + 1
        )
        if left_out is not None:
            is_news = before.reason != Reason.TOO_LARGE
            errors = _one_more(before.errors, Reason.TOO_LARGE) if is_news else before.errors
            self.state = replace(self.state, reason=str(Reason.TOO_LARGE), error=left_out, errors=errors)
            if is_news:
                log.warning("sink %s: %s", before.sink, left_out)
        if not before.up:
            log.info("sink %s: write succeeded", before.sink)

    def _failed(self, reason: str, text: str) -> None:
        before = self.state
        self._written = None  # it is unknown whether the write took effect: write again
        self.state = replace(
            before, up=False, reason=reason, error=text, errors=_one_more(before.errors, reason)
        )
        if before.up or before.reason != reason:
            log.warning("sink %s: write failed: %s", before.sink, text)

    def _pause(self, now: float) -> float:
        left = self._not_before - now
        return left if self._refused_token is None else min(left, _TOKEN_CHECK_SECONDS)

    def _has_another_token(self) -> bool:
        """A write that was rejected is retried at once with a new token."""
        if self._refused_token is None or self._client is None:
            return False
        return self._client.token_generation() != self._refused_token


def _one_more(errors: tuple[ReasonCount, ...], reason: str) -> tuple[ReasonCount, ...]:
    counts = {error.reason: error.count for error in errors}
    counts[str(reason)] = counts.get(str(reason), 0) + 1
    return counted(counts)


# If a driver does not respond for this time after the agent's start, content of an earlier agent is replaced.
PATIENCE_SECONDS = 300.0


class ReaderReadiness:
    """Whether the devices of a node are known. An empty list may mean that no reader has responded yet."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waits_since: float | None = None

    def is_ready(self, snapshot: Snapshot, vendor: Vendor | None = None) -> bool:
        """Whether the readers (of one vendor, or all) have responded, or the wait for them is over."""
        if all_known(snapshot, vendor):
            self._waits_since = None
            return True
        if self._waits_since is None:
            self._waits_since = self._monotonic()
        return self._monotonic() - self._waits_since >= PATIENCE_SECONDS


def all_known(snapshot: Snapshot, vendor: Vendor | None = None) -> bool:
    return all(
        _is_known(reader, snapshot)
        for reader in snapshot.readers
        if vendor is None or reader.vendor is vendor
    )


def _is_known(reader: ReaderState, snapshot: Snapshot) -> bool:
    if reader.up:
        return True
    if not reader.found:
        return reader.reason is not None  # the driver is absent; before the first response there is no reason
    return any(device.vendor is reader.vendor for device in snapshot.devices)


_ABANDONED_SECONDS = 60.0  # a write takes far less: the writer of an older temporary file was killed
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
    """Replace a file atomically, through a temporary file whose name begins with a dot. Raises SinkError."""
    remove_abandoned(path)
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        # Do not follow a link that another user put there.
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(content)
            temporary.chmod(mode)  # independent of the umask
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()  # one per attempt would fill the disk
            raise
    except OSError as error:
        raise sink_error(path.parent, error) from None


def remove_abandoned(path: Path) -> None:
    """Remove temporary files of killed writers, not those of a running one."""
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
