"""The folder that keeps, between runs, what takes minutes to make: programs, images, Go."""

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.kubernetes.errors import ClusterError

Say = Callable[[str], None]  # tells whoever waits what takes so long

_POLL_SECONDS = 0.5
_KEY_DIGITS = 16


def to_stderr(line: str) -> None:
    print(f"e2e: {line}", file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """ACCELSCOPE_E2E_CACHE, or accelscope-e2e where the user's caches are."""
    chosen = os.environ.get("ACCELSCOPE_E2E_CACHE")
    if chosen:
        folder = Path(chosen)
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "accelscope-e2e"
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def key_of(parts: Iterable[str | bytes]) -> str:
    """Of everything that a thing is made from: another ingredient makes another key."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8))
        digest.update(content)
    return digest.hexdigest()[:_KEY_DIGITS]


@contextmanager
def exclusive(path: Path, what: str, *, say: Say, seconds: float) -> Iterator[None]:
    """Held by one process at a time, and let go of by the kernel if that one dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    waits = False
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pass
            if not waits:
                say(f"another process holds {path} ({what}); waiting for it")
                waits = True
            if time.monotonic() > deadline:
                raise ClusterError(f"{what}: another process still holds {path} after {seconds:g} s")
            time.sleep(_POLL_SECONDS)
        yield


def made_once(folder: Path, make: Callable[[Path], None], what: str, *, say: Say, seconds: float) -> Path:
    """The folder, made if it is not there. It appears whole or not at all: `make` fills another one first."""
    if folder.is_dir():
        return folder
    with exclusive(folder.with_name(f"{folder.name}.lock"), what, say=say, seconds=seconds):
        if folder.is_dir():
            return folder
        begun = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        started = time.monotonic()
        say(f"making {what}")
        make(begun)
        begun.rename(folder)
        say(f"made {what} in {time.monotonic() - started:.0f} s")
    return folder
