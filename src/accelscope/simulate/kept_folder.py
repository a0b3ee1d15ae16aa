"""A folder that one process at a time keeps moving, and that nobody else's files are lost in."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelscope.simulate.section import DescriptionError

_LOCK = ".lock"  # held by the process that keeps the folder moving
# Whoever asks whether a folder moves holds its lock for a moment: who is to move it waits so long for that.
_ASKED_SECONDS = 2.0
_LOCK_POLL_SECONDS = 0.01


class AlreadyMoving(RuntimeError):
    """Another process already keeps this folder moving."""


class KeptFolder:
    """`what` was made in it where `marks`, which are names of files, are all there."""

    def __init__(self, path: Path, what: str, marks: tuple[str, ...]) -> None:
        self._path = path
        self._what = what
        self._marks = marks
        self._lock_file = path / _LOCK

    def check_ours(self) -> None:
        """Raises DescriptionError for a folder that holds something else."""
        empty = not self._path.exists() or not any(self._path.iterdir())
        if not empty and not all((self._path / name).exists() for name in self._marks):
            raise DescriptionError(f"{self._path}: not empty and not {self._what}; give a new folder")

    def check_still(self) -> None:
        """Raises AlreadyMoving."""
        if self.is_moving():
            raise self._already_moving()

    def is_moving(self) -> bool:
        """Whether some process keeps the folder moving."""
        if not self._lock_file.exists():
            return False
        try:
            with self._locked(0.0):
                return False
        except AlreadyMoving:
            return True

    @contextmanager
    def moving(self) -> Iterator[None]:
        """By this process, inside of this. Raises AlreadyMoving."""
        self._path.mkdir(parents=True, exist_ok=True)
        with self._locked(_ASKED_SECONDS):
            yield

    @contextmanager
    def _locked(self, patience_seconds: float) -> Iterator[None]:
        end = time.monotonic() + patience_seconds
        with self._lock_file.open("a") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() >= end:
                        raise self._already_moving() from None
                    time.sleep(_LOCK_POLL_SECONDS)
                else:
                    break
            yield

    def _already_moving(self) -> AlreadyMoving:
        return AlreadyMoving(f"{self._path} is kept moving by another process: stop it first")
