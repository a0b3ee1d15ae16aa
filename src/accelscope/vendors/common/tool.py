"""Runs a driver's tool: no shell, with a deadline, a limit on its output, and its process group killed."""

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from accelscope.vendors.common.contract import ReaderError

if TYPE_CHECKING:
    import subprocess


_CHUNK = 65536
_STDERR_BYTES = 65536
_KILL_SECONDS = 1.0


def find_program(program: str) -> str | None:
    """Find a program as a shell does: by its path, or in PATH. (`shutil.which` costs half a mebibyte.)"""
    folders = [""] if "/" in program else os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, program)  # noqa: PTH118 - pathlib would change the text of the setting
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
    return None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    text: str  # standard output; bytes that are not UTF-8 are replaced
    complaint: str  # standard error
    exit_code: int


class Tool:
    """One tool of this node. A run that cannot be killed blocks further runs, so at most one is stuck."""

    def __init__(
        self,
        program: str,
        *,
        timeout_seconds: float,
        environment: Mapping[str, str] | None = None,
        limit_bytes: int = 16 * 2**20,
    ) -> None:
        self._program = program
        self._timeout = timeout_seconds
        self._environment = environment
        self._limit = limit_bytes
        self._stuck: subprocess.Popen[bytes] | None = None

    def find(self) -> str | None:
        return find_program(self._program)

    def run(self, arguments: Sequence[str], *, timeout_seconds: float | None = None) -> ToolOutput:
        """Raises ReaderError, with a reason that begins with `tool_`. `timeout_seconds`: less than usual."""
        if self._stuck is not None and self._stuck.poll() is None:
            raise ReaderError("tool_stuck", f"{self._program}: an earlier run cannot be killed")
        self._stuck = None
        place = self.find()
        if place is None:
            raise ReaderError("tool_missing", f"{self._program} is not on this node")
        import subprocess  # noqa: PLC0415 - one mebibyte, not needed on a node with NVML

        environment = {**(os.environ if self._environment is None else self._environment), "LC_ALL": "C"}
        start = object()
        _starting.add(start)  # before reading `_over`: the code that sets `_over` then waits for `_starting`
        try:
            if _over:
                raise ReaderError(
                    "tool_not_started", f"{self._program}: not started, because the process is ending"
                )
            child = subprocess.Popen(  # noqa: S603 - no shell; the program is the operator's setting
                [place, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
            _running.add(child.pid)
        except OSError as error:
            raise ReaderError("tool_not_started", f"{self._program}: {error}") from None
        finally:
            _starting.discard(start)
        try:
            text, complaint = self._read(child, self._timeout if timeout_seconds is None else timeout_seconds)
            ended = _ended(child.pid)
        finally:
            exit_code = self._end(child)
        if exit_code is None or not ended:
            raise ReaderError("tool_timeout", f"{self._program} did not exit after closing its output")
        if exit_code < 0:
            raise ReaderError("tool_killed", f"{self._program} was ended by signal {-exit_code}")
        return ToolOutput(text.decode(errors="replace"), complaint.decode(errors="replace"), exit_code)

    def _read(self, child: "subprocess.Popen[bytes]", timeout: float) -> tuple[bytes, bytes]:
        assert child.stdout is not None
        assert child.stderr is not None
        deadline = time.monotonic() + timeout
        out, err = child.stdout.fileno(), child.stderr.fileno()
        texts: dict[int, bytearray] = {out: bytearray(), err: bytearray()}
        poll = select.poll()
        for descriptor in texts:
            poll.register(descriptor, select.POLLIN)
        open_pipes = set(texts)
        while open_pipes:
            left = deadline - time.monotonic()
            events = poll.poll(left * 1000) if left > 0 else []
            if not events:
                raise ReaderError("tool_timeout", f"{self._program} gave no answer within {timeout:.3g} s")
            for descriptor, _ in events:
                chunk = os.read(descriptor, _CHUNK)
                if not chunk:
                    poll.unregister(descriptor)
                    open_pipes.discard(descriptor)
                elif descriptor == out or len(texts[err]) < _STDERR_BYTES:
                    texts[descriptor] += chunk
            if len(texts[out]) > self._limit:
                raise ReaderError("tool_output_too_big", f"{self._program} printed over {self._limit} bytes")
        return bytes(texts[out]), bytes(texts[err])

    def _end(self, child: "subprocess.Popen[bytes]") -> int | None:
        """Close the pipes, kill the child's process group, and reap the child. The group is killed first:
        after reaping, its number could belong to another process."""
        import subprocess  # noqa: PLC0415 - as above

        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        _kill_group(child.pid)
        _running.discard(child.pid)
        try:
            return child.wait(timeout=_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._stuck = child
            return None


_starting: set[object] = set()  # starts in progress, whose process groups are not known yet
_running: set[int] = set()  # process groups of tools that run now
_over = False


def start_no_more_tools() -> None:
    """For the end of the process: code that runs several tools in turn must not start the next one."""
    global _over  # noqa: PLW0603 - one per process, like its child processes
    _over = True


def end_running_tools() -> None:
    """For the end of the process: kill all tools. Waits briefly for a tool that is being started; a hung file
    system may block the start."""
    deadline = time.monotonic() + _KILL_SECONDS
    while _starting and time.monotonic() < deadline:
        time.sleep(0.002)
    for group in tuple(_running):
        _kill_group(group)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _ended(pid: int) -> bool:
    """Wait briefly for the exit of a tool that has closed its output, without reaping it."""
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return True
        time.sleep(0.002)
    return False


# Slow tools run in the background; a collection uses the last result.

T = TypeVar("T")

log = logging.getLogger(__name__)

_PERIODS_KEPT = 3  # an older result is too old to use


@dataclass(frozen=True, slots=True)
class LastResult(Generic[T]):
    value: T | None = None
    age_seconds: float | None = None
    failures: tuple[str, ...] = ()  # reasons of runs that failed since the last call of `latest`
    failure: ReaderError | None = None  # of the last run, if that failed


class PeriodicRunner(Generic[T]):
    """Runs `source` every `period_seconds` in a thread of its own, from the first call of `latest()`. With a
    period of 0, for tests, `latest()` runs it in the caller's thread."""

    def __init__(
        self,
        source: Callable[[], T],
        period_seconds: float,
        *,
        name: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._period = period_seconds
        self._name = name
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._first_run = threading.Event()  # is over
        self._was_waited_for = False
        self._value: T | None = None
        self._taken_at: float | None = None
        self._failures: list[str] = []
        self._failure: ReaderError | None = None
        self._internal_error: str | None = None  # that was logged last

    def latest(self, until: float = 0.0) -> LastResult[T]:
        """The result of the last run, unless it is too old. The first call waits for the end of the first
        run, at most until `until` by `time.monotonic`; later calls do not wait."""
        if self._period == 0:
            self._run_once()
        elif self._is_started():
            self._wait_for_first_run(until)
        with self._lock:
            failures, self._failures = tuple(self._failures), []
            if self._taken_at is None:
                return LastResult(failures=failures, failure=self._failure)
            age = self._monotonic() - self._taken_at
            kept = self._period == 0 or age <= _PERIODS_KEPT * self._period
            return LastResult(self._value if kept else None, age, failures, self._failure)

    def close(self) -> None:
        """Does not wait for a run in progress."""
        self._stop.set()

    def _is_started(self) -> bool:
        if self._thread is not None:
            return True
        if self._stop.is_set():
            return False
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is available: the next call tries again
            self._note_failure(ReaderError("exhausted", "no thread could be started for the tool"))
            return False
        self._thread = thread
        return True

    def _wait_for_first_run(self, until: float) -> None:
        seconds = until - time.monotonic()
        if seconds > 0 and not self._was_waited_for:
            self._was_waited_for = True
            self._first_run.wait(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._run_once()
            self._first_run.set()
            self._stop.wait(self._period)

    def _run_once(self) -> None:
        try:
            value = self._source()
        except ReaderError as error:
            self._note_failure(error)
        except Exception as error:  # an error in one run must not end the later runs
            text = f"{type(error).__name__}: {error}"
            if text != self._internal_error:
                self._internal_error = text
                log.exception("%s: unexpected error", self._name)
            self._note_failure(ReaderError("internal", text))
        else:
            with self._lock:
                self._value, self._taken_at, self._failure = value, self._monotonic(), None

    def _note_failure(self, failure: ReaderError) -> None:
        with self._lock:
            self._failures.append(failure.reason)
            self._failure = failure
