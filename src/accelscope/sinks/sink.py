"""What all sinks share: a thread, when to write, and what becomes of a write that fails.

    snapshot ──_content──▶ what should stand there ──_differs from what was written──▶ _write

A write is made when the content differs and when it is to be renewed, never more often than the interval, and
after a failure not before a while that grows.
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
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.listwatch import REFUSED, Backoff, random_ratio
from accelscope.model import Counted, ReaderState, SinkState, Snapshot, Vendor, counted

log = logging.getLogger(__name__)

C = TypeVar("C")

RENEWAL_JITTER = 0.1  # share of the renewal by which it may come early: a thousand nodes do not write at once
_OWN_FAULT_SECONDS = 60.0  # after a failure that is a fault of ours
_TOKEN_LOOK_SECONDS = 1.0


class SinkError(Exception):
    """Something could not be written. `reason` is a short word to be counted; the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Pace:
    interval_seconds: float  # at most so often
    renewal_seconds: float  # at least so often, less some jitter


@dataclass(frozen=True, slots=True)
class Timing:
    """Where time and chance come from; tests bring their own."""

    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random_ratio


class Sink(ABC, Generic[C]):
    """offer() and `state` are for any thread; step() is one turn of the sink's own."""

    def __init__(
        self, name: str, pace: Pace, *, client: Client | None = None, timing: Timing | None = None
    ) -> None:
        self.state = SinkState(sink=name, up=False, reason="starting")
        self._pace = pace
        self._client = client
        self._timing = timing or Timing()
        self._changed = threading.Condition()
        self._newest: Snapshot | None = None
        self._offers = 0
        self._stopping = False
        self._looked_at: Snapshot | None = None
        self._wanted: C | None = None
        self._written: C | None = None
        self._written_from: Snapshot | None = None
        self._not_before = 0.0  # by the monotonic clock
        self._renew_at = 0.0
        self._backoff = Backoff(self._timing.random)
        self._refused_token: int | None = None  # generation of the token that was refused

    @abstractmethod
    def _content(self, snapshot: Snapshot) -> C | None:
        """What should be written of it; None: that cannot be told yet, and what stands there stays."""

    @abstractmethod
    def _differs(self, content: C, written: C) -> bool:
        """Whether it is worth a write."""

    @abstractmethod
    def _write(self, content: C) -> str | None:
        """What had to be left out, for people. Raises KubeError or SinkError."""

    def _renews(self, _content: C) -> bool:
        """Whether it is written again after a while though it is the same."""
        return True

    def start(self) -> None:
        name = f"sink-{self.state.sink}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def stop(self) -> None:
        """What was offered and is not written yet stays unwritten: ending must not wait for a server."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def offer(self, snapshot: Snapshot) -> None:
        with self._changed:
            self._newest = snapshot
            self._offers += 1
            self._changed.notify_all()

    def step(self) -> float | None:
        """Write if it is time. In how many seconds to look again; None: when something is offered."""
        now = self._timing.monotonic()
        snapshot = self._newest
        if snapshot is None:
            return None
        if now < self._not_before and not self._has_another_token():
            return self._pause(now)
        is_new = snapshot is not self._looked_at
        if is_new:
            self._looked_at, self._wanted = snapshot, self._content(snapshot)
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
            except Exception as error:  # a fault of ours costs this write, not the sink
                log.exception("the sink %s failed in a way that was not foreseen", self.state.sink)
                self._failed("internal", f"{type(error).__name__}: {error}")
                self._not_before = self._timing.monotonic() + _OWN_FAULT_SECONDS
                seconds = _OWN_FAULT_SECONDS
            self._await_offer(offers, seconds)
        if self._client is not None:
            self._client.close()

    def _await_offer(self, offers: int, seconds: float | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._offers != offers, seconds)

    def _is_due(self, wanted: C, snapshot: Snapshot, now: float) -> bool:
        if self._written is None or self._differs(wanted, self._written):
            return True
        # What is renewed must be newer than what stands there: an old reading does not become fresh.
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
                log.warning("%s: %s", before.sink, left_out)
        if not before.up:
            log.info("%s: written", before.sink)

    def _failed(self, reason: str, text: str) -> None:
        before = self.state
        self._written = None  # nobody can say whether it was done: write it again
        self.state = replace(
            before, up=False, reason=reason, error=text, errors=_one_more(before.errors, reason)
        )
        if before.up or before.reason != reason:
            log.warning("%s: cannot be written: %s", before.sink, text)

    def _pause(self, now: float) -> float:
        left = self._not_before - now
        return left if self._refused_token is None else min(left, _TOKEN_LOOK_SECONDS)

    def _has_another_token(self) -> bool:
        """What was refused with the old token may be tried at once with a new one."""
        if self._refused_token is None or self._client is None:
            return False
        return self._client.token_generation() != self._refused_token


def _one_more(errors: tuple[Counted, ...], reason: str) -> tuple[Counted, ...]:
    counts = {error.reason: error.count for error in errors}
    counts[str(reason)] = counts.get(str(reason), 0) + 1
    return counted(counts)


# --- known ------------------------------------------------------------
# Whether it can be told which devices a node has: an empty list may mean that nobody has answered yet.


# A driver that answered nothing for so long since the agent started will not answer: what a former agent left
# on the Node about its devices is no longer true enough to stay.
PATIENCE_SECONDS = 300.0


class Knowledge:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waits_since: float | None = None

    def is_enough(self, snapshot: Snapshot, vendor: Vendor | None = None) -> bool:
        """Of one vendor, or of all of them: they have answered, or were waited for long enough."""
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
        return reader.reason is not None  # that the driver is absent; before the first answer there is none
    return any(device.vendor is reader.vendor for device in snapshot.devices)


# --- atomic file ------------------------------------------------------------
# Files that are replaced whole: a reader finds the old content or the new one, never a part.


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
