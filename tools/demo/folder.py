"""The demo's folder for files and logs. It is removed when the demo ends, or by the next demo."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "accelscope-demo-"
_LOCK = "running"  # held, and with a process id in it, as long as the demo runs


@contextmanager
def demo_folder() -> Iterator[Path]:
    remove_dead()
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name,
        (Path(name) / _LOCK).open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield Path(name)


def remove_dead() -> None:
    """Removes folders of killed demos, whose locks are free."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if _is_ours(folder) and _is_dead(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        return not folder.is_symlink() and folder.is_dir() and folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _is_dead(folder: Path) -> bool:
    """Where there is no lock, or nothing in it yet, nobody can tell: a demo may be about to begin."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return bool(os.read(lock, 1))
    except OSError:
        return False
    finally:
        os.close(lock)
