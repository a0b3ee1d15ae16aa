"""Sends a signal to a process of the same user. A process descriptor and checks of its start time and user
make sure that the pid has not been reused.
"""

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from accelscope.attribution.processes import boot_time, proc_stat, started_at
from accelscope.top.view.model import ProcessView

PROC = Path("/proc")
SIGNALS = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGSTOP,
    signal.SIGCONT,
    signal.SIGKILL,
)
_SAME_SECONDS = 2.0  # tolerance of start times, because the clock may have been set


class SignalError(Exception):
    """No signal is sent. The text is the reason."""


@dataclass(frozen=True, slots=True)
class SignalTarget:
    """A process, identified by a descriptor that a later process with the same pid does not match."""

    pid: int
    name: str
    user: str
    descriptor: int

    def send(self, number: signal.Signals) -> None:
        """Raises SignalError."""
        try:
            signal.pidfd_send_signal(self.descriptor, number)
        except ProcessLookupError:
            raise SignalError(f"{self.pid} {self.name} has ended") from None
        except OSError as error:
            raise SignalError(f"{number.name} to {self.pid} {self.name}: {error.strerror}") from None

    def close(self) -> None:
        os.close(self.descriptor)


def aim(process: ProcessView, *, seen_at: float, proc_root: str = "/proc") -> SignalTarget:
    """Raises SignalError if the process has ended, belongs to another user, or may be a different one."""
    if Path(proc_root).resolve() != PROC:
        raise SignalError(f"the processes are read from {proc_root}, not from /proc of this machine")
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise SignalError(f"{process.pid} {process.name or ''} has ended".rstrip()) from None
    except OSError as error:
        raise SignalError(f"cannot open process {process.pid}: {error.strerror}") from None
    try:
        _check(process, descriptor, seen_at)
    except BaseException:
        os.close(descriptor)
        raise
    return SignalTarget(process.pid, process.name or "?", process.user or str(os.getuid()), descriptor)


def _check(process: ProcessView, descriptor: int, seen_at: float) -> None:
    try:
        started, uid = _started(process.pid), _uid(process.pid)
    except (OSError, ValueError):
        raise SignalError(f"cannot read {process.pid} {process.name or '?'} from /proc") from None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(0):
        raise SignalError(f"{process.pid} {process.name or '?'} has ended")
    another = f"{process.pid} is now a different process"
    if started > seen_at + _SAME_SECONDS:
        raise SignalError(another)
    if process.started_at is not None and abs(started - process.started_at) > _SAME_SECONDS:
        raise SignalError(another)
    if uid != os.getuid():
        raise SignalError(
            f"{process.pid} {process.name or '?'} belongs to {process.user or f'user {uid}'}; "
            "signals can only be sent to your own processes"
        )


def _started(pid: int) -> float:
    """Unix time."""
    booted = boot_time((PROC / "stat").read_text(errors="replace"))
    if booted is None:
        raise ValueError("no btime")
    return started_at(proc_stat((PROC / str(pid) / "stat").read_bytes()), booted)


def _uid(pid: int) -> int:
    for line in (PROC / str(pid) / "status").read_bytes().decode(errors="replace").split("\n"):
        name, _, value = line.partition(":")
        if name == "Uid":
            return int(value.split()[0])
    raise ValueError("no Uid")
