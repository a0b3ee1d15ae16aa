"""Processes that a test, or what it tests, has started."""

import ctypes
import errno
import os
import subprocess
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS


def runs(pid: int) -> bool:
    """One that has ended and that nobody asked about (a zombie) does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def signal_another_thread(pid: int, number: int) -> None:
    """One that is not the process's main thread, as the kernel may do too."""
    libc = ctypes.CDLL(None, use_errno=True)
    # The oldest first: one that is about to end might take the signal with it.
    for tid in sorted(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()):
        if tid == pid:
            continue
        if libc.tgkill(pid, tid, number) == 0:
            return
        if ctypes.get_errno() != errno.ESRCH:  # it has ended meanwhile
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    raise AssertionError(f"{pid} has no other thread")


def end(process: subprocess.Popen[bytes], name: str, log: Path) -> None:
    """As a service manager does, and it ends well. Harmless when it has done so already."""
    process.terminate()
    try:
        code = process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"SIGTERM did not end {name}:\n{log.read_text(errors='replace')}") from None
    assert code == 0, f"{name} ended with {code}:\n{log.read_text(errors='replace')}"
