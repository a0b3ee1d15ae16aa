"""Writing files that others read at any moment: each appears whole, or not yet.

What the kernel shows is imitated with plain files, which differ from it in two ways. A plain file is another
one after each change, so a reader must open it anew for every reading. And it does not fail: a user who may
read everything (root) is denied nothing, and no plain file answers EIO or EPERM. Where a read is to fail,
there is a Link to nowhere (no such file) or a Folder in place of the file (is a directory); where it is to
hang, a Blocking one.
"""

import fcntl
import os
import stat
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from accelscope.simulate.section import DescriptionError


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, as sysfs is full of them; to nowhere, it is a file that cannot be read."""

    target: str


@dataclass(frozen=True, slots=True)
class Blocking:
    """A file that cannot be opened for reading before something else takes its place. Whoever waits for it
    then gets the text that comes, or nothing if none does."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with nothing in it; where a file is expected, a read error."""


Content = str | bytes | Link | Blocking | Folder


def write_bytes(path: Path, content: bytes) -> None:
    scratch = _scratch(path)
    try:
        scratch.write_bytes(content)
    except FileNotFoundError:  # its folder: looking first would cost a node of many processes dearly
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(content)
    scratch.replace(path)


def copy_program(source: Path, path: Path) -> None:
    """By a child process: what this one had open for writing, a child that another thread starts meanwhile
    would have open as well, and whoever executes the program would be told "text file busy".

    Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = _scratch(path)
    # The command is the system's, and the paths are our own, without a shell.
    done = subprocess.run(  # noqa: S603
        ["install", "-m", "755", str(source), str(scratch)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise OSError(done.stderr.strip())
    scratch.replace(path)


def _scratch(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def _put(path: Path, content: Content) -> None:
    match content:
        case str():
            write_text(path, content)
        case bytes():
            write_bytes(path, content)
        case Folder():
            path.mkdir(parents=True, exist_ok=True)
        case Link() | Blocking():
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = _scratch(path)
            if isinstance(content, Link):
                scratch.symlink_to(content.target)
            else:
                os.mkfifo(scratch)
            scratch.replace(path)


@contextmanager
def _released(path: Path, content: Content | None) -> Iterator[None]:
    """Those who wait for the Blocking file that is there, if it is one, wait no longer than this lasts. It is
    held open meanwhile: whoever comes before it is gone would otherwise wait for ever."""
    try:
        blocking = stat.S_ISFIFO(path.lstat().st_mode)
    except FileNotFoundError:
        blocking = False
    if not blocking:
        yield
        return
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield
        text = content.encode() if isinstance(content, str) else content
        if isinstance(text, bytes):
            with suppress(BlockingIOError):  # more than a pipe holds: what fits has been given
                os.write(descriptor, text)
    finally:
        os.close(descriptor)


class Tree:
    """Files in some folders of `root` that are brought to a wanted state again and again.

    Only what differs from last time is written. Files that are not wanted (any more) go last, after all that
    might have named them; so do folders that this leaves empty."""

    def __init__(self, root: Path, folders: tuple[str, ...]) -> None:
        self._root = root
        self._folders = folders
        self._written: dict[str, Content | None] | None = None  # None as content: there, but not by us

    def bring_to(self, wanted: Mapping[str, Content]) -> None:
        """Writes in the order of `wanted`."""
        written = self._found() if self._written is None else self._written
        self._written = written
        for name in _in_the_way(written.keys(), wanted.keys()):
            self._remove(name)
        for name, content in wanted.items():
            before = written.get(name)
            if before != content:
                self._replace(self._root / name, before, content)
                written[name] = content
        for name in written.keys() - wanted.keys():
            self._remove(name)

    def renew(self, changed: Mapping[str, str]) -> None:
        """Other texts for files that are there; all others stay as they are."""
        written = self._written or {}
        for name, content in changed.items():
            if isinstance(written.get(name), str) and written[name] != content:
                write_text(self._root / name, content)
                written[name] = content

    def _found(self) -> dict[str, Content | None]:
        found: dict[str, Content | None] = {}
        for top in self._folders:
            for place, folders, files in os.walk(self._root / top):
                links = [name for name in folders if Path(place, name).is_symlink()]
                names = [Path(place, name) for name in (*files, *links)]
                for path in names if folders or files else [Path(place)]:
                    found[path.relative_to(self._root).as_posix()] = None
        return found

    def _replace(self, path: Path, before: Content | None, content: Content) -> None:
        if isinstance(before, str | bytes) and isinstance(content, str | bytes):
            _put(path, content)  # nearly always
            return
        with _released(path, content):
            if path.is_dir() and not path.is_symlink():
                if not isinstance(content, Folder):
                    path.rmdir()
            elif isinstance(content, Folder):
                path.unlink(missing_ok=True)
            _put(path, content)

    def _remove(self, name: str) -> None:
        assert self._written is not None
        path = self._root / name
        with _released(path, None):
            if not path.is_dir() or path.is_symlink():
                path.unlink(missing_ok=True)
            elif not any(path.iterdir()):
                path.rmdir()
        del self._written[name]
        folder = path.parent
        while folder != self._root and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def _in_the_way(there: Collection[str], wanted: Collection[str]) -> set[str]:
    """Files where folders must be, and all of a folder where a file must be."""
    unwanted = set(there).difference(wanted)
    if not unwanted:
        return unwanted
    inside = {name for name in unwanted if not _parents(name).isdisjoint(wanted)}
    above = {parent for name in set(wanted).difference(there) for parent in _parents(name) & unwanted}
    return inside | above


def _parents(name: str) -> set[str]:
    return {name[:place] for place, letter in enumerate(name) if letter == "/"}


# --- kept folder ------------------------------------------------------------
# A folder that one process at a time keeps moving, and that nobody else's files are lost in.


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
