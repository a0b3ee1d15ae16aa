"""A signal to a process of one's own, and to that process only: a pid can be another's by the time one has
read the question."""

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from accelscope.attribution.processes import boot_time, proc_stat, started_at
from accelscope.top.view.shown import ProcessView

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
_SAME_SECONDS = 2.0  # by which two accounts of one start may differ: the clock may have been set since


class Refusal(Exception):
    """No signal is sent; the text says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """Holds the process by a descriptor, which a later process of the same pid does not fit."""

    pid: int
    name: str
    user: str
    descriptor: int

    def send(self, number: signal.Signals) -> None:
        """Raises Refusal."""
        try:
            signal.pidfd_send_signal(self.descriptor, number)
        except ProcessLookupError:
            raise Refusal(f"{self.pid} {self.name} has ended meanwhile") from None
        except OSError as error:
            raise Refusal(f"{number.name} to {self.pid} {self.name}: {error.strerror}") from None

    def close(self) -> None:
        os.close(self.descriptor)


def aim(process: ProcessView, *, seen_at: float, proc_root: str = "/proc") -> Target:
    """The process that was seen. Raises Refusal where it is gone, another's, or not surely that one."""
    if Path(proc_root).resolve() != PROC:
        raise Refusal(
            f"what is shown is read from {proc_root}: its pids are not those of this machine's /proc"
        )
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise Refusal(f"{process.pid} {process.name or ''} has ended".rstrip()) from None
    except OSError as error:
        raise Refusal(f"{process.pid} cannot be reached: {error.strerror}") from None
    try:
        _check(process, descriptor, seen_at)
    except BaseException:
        os.close(descriptor)
        raise
    return Target(process.pid, process.name or "?", process.user or str(os.getuid()), descriptor)


def _check(process: ProcessView, descriptor: int, seen_at: float) -> None:
    try:
        started, uid = _started(process.pid), _uid(process.pid)
    except (OSError, ValueError):
        raise Refusal(f"{process.pid} {process.name or '?'}: /proc tells nothing of it") from None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(0):
        raise Refusal(f"{process.pid} {process.name or '?'} has ended")
    another = f"{process.pid} is another process by now: it was started after what is shown"
    if started > seen_at + _SAME_SECONDS:
        raise Refusal(another)
    if process.started_at is not None and abs(started - process.started_at) > _SAME_SECONDS:
        raise Refusal(another)
    if uid != os.getuid():
        raise Refusal(
            f"{process.pid} {process.name or '?'} is of {process.user or f'user {uid}'}: "
            "signals are sent to processes of one's own only"
        )


def _started(pid: int) -> float:
    """Seconds since the epoch."""
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
