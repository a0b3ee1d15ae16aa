"""Files of simulated nodes, which are replaced atomically because they may be read at any time.

Plain files imitate those of the kernel, with two differences. A plain file is replaced by each change, so a
reader must open it again for every reading. And reading it does not fail with EIO or EPERM, least of all for
root. Where a read must fail, there is a dangling Link (no such file) or a Folder (is a directory); where it
must hang, a BlockingFile.
"""

import fcntl
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from accelscope.simulate.spec import DescriptionError

_MAJORS = 512  # of character devices
_DEVICE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, as in sysfs; a dangling one is a file that cannot be read."""

    target: str


@dataclass(frozen=True, slots=True)
class BlockingFile:
    """A file whose opening blocks until it is replaced. A reader that waits then gets the new text, or
    nothing if there is none."""


@dataclass(frozen=True, slots=True)
class Folder:
    """An empty folder; where a file is expected, it causes a read error."""


@dataclass(frozen=True, slots=True)
class CharacterDevice:
    """A device file of a driver that does not exist, which fails to open with ENXIO. It is an empty plain
    file where the process may not make one, or where a driver of the machine has the number."""

    major: int
    minor: int

    def is_possible(self) -> bool:
        return self.major not in _majors_in_use() and os.geteuid() == 0


Content = str | bytes | Link | BlockingFile | Folder | CharacterDevice


@cache
def _majors_in_use() -> frozenset[int]:
    """Major numbers of the machine's own character devices."""
    try:
        characters, _, _ = Path("/proc/devices").read_text().partition("Block devices")
    except OSError:
        return frozenset(range(_MAJORS))  # not known: no number is safe
    return frozenset(int(line.split()[0]) for line in characters.splitlines() if line[:3].strip().isdecimal())


def write_bytes(path: Path, content: bytes) -> None:
    scratch = _scratch(path)
    try:
        scratch.write_bytes(content)
    except FileNotFoundError:  # checking first would be slow for a node with many processes
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(content)
    scratch.replace(path)


def copy_program(source: Path, path: Path) -> None:
    """Copies with a child process: a file that this process has open for writing is inherited by children
    that other threads start meanwhile, and executing it fails with "text file busy" as long as they live.
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
        case Link() | BlockingFile():
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = _scratch(path)
            if isinstance(content, Link):
                scratch.symlink_to(content.target)
            else:
                os.mkfifo(scratch)
            scratch.replace(path)
        case CharacterDevice():
            _put_device(path, content)


def _put_device(path: Path, device: CharacterDevice) -> None:
    scratch = _scratch(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if device.is_possible():
        with suppress(PermissionError):  # root of a container without the capability
            os.mknod(scratch, stat.S_IFCHR | _DEVICE_MODE, os.makedev(device.major, device.minor))
            scratch.replace(path)
            return
    write_text(path, "")


@contextmanager
def _released(path: Path, content: Content | None) -> Iterator[None]:
    """Unblocks readers of `path` if it is a BlockingFile. It is kept open for the duration of the context,
    because a reader that opens it before it is replaced would otherwise block forever."""
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
            with suppress(BlockingIOError):  # more than fits into a pipe
                os.write(descriptor, text)
    finally:
        os.close(descriptor)


class Tree:
    """Files in some folders of `root` that are updated repeatedly. Only changed files are written. Unwanted
    files and empty folders are removed last, after the files that may refer to them."""

    def __init__(self, root: Path, folders: tuple[str, ...]) -> None:
        self._root = root
        self._folders = folders
        self._written: dict[str, Content | None] | None = None  # content None: not written by this object

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

    def remake(self, name: str) -> None:
        """Replaces a folder by another one with the same files, as when the kernel makes it again."""
        path = self._root / name
        if not path.is_dir():
            return
        scratch, old = _scratch(path), _scratch(path.with_name(f"{path.name}.old"))
        shutil.copytree(path, scratch, symlinks=True)
        path.rename(old)
        scratch.rename(path)
        shutil.rmtree(old)

    def renew(self, changed: Mapping[str, str]) -> None:
        """Replaces the text of existing files; all others stay."""
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
            _put(path, content)  # the usual case
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
    """Existing files where folders are wanted, and the content of folders where files are wanted."""
    unwanted = set(there).difference(wanted)
    if not unwanted:
        return unwanted
    inside = {name for name in unwanted if not _parents(name).isdisjoint(wanted)}
    above = {parent for name in set(wanted).difference(there) for parent in _parents(name) & unwanted}
    return inside | above


def _parents(name: str) -> set[str]:
    return {name[:place] for place, letter in enumerate(name) if letter == "/"}


_LOCK = ".lock"  # held by the process that updates the folder
# A process that checks whether the folder is in use holds its lock for a moment.
_LOCK_SECONDS = 2.0
_LOCK_POLL_SECONDS = 0.01


class FolderInUse(RuntimeError):
    """Another process updates this folder."""


class LockedFolder:
    """A folder that one process at a time updates. It contains `what` if all files named in `marks` exist."""

    def __init__(self, path: Path, what: str, marks: tuple[str, ...]) -> None:
        self._path = path
        self._what = what
        self._marks = marks
        self._lock_file = path / _LOCK

    def check_content(self) -> None:
        """Raises DescriptionError for a folder with other files."""
        empty = not self._path.exists() or not any(self._path.iterdir())
        if not empty and not all((self._path / name).exists() for name in self._marks):
            raise DescriptionError(f"{self._path}: not empty and not {self._what}; choose a new folder")

    def check_not_running(self) -> None:
        """Raises FolderInUse."""
        if self.is_running():
            raise self._already_running()

    def is_running(self) -> bool:
        """Whether a process updates the folder."""
        if not self._lock_file.exists():
            return False
        try:
            with self._lock(0.0):
                return False
        except FolderInUse:
            return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Raises FolderInUse."""
        self._path.mkdir(parents=True, exist_ok=True)
        with self._lock(_LOCK_SECONDS):
            yield

    @contextmanager
    def _lock(self, timeout_seconds: float) -> Iterator[None]:
        end = time.monotonic() + timeout_seconds
        with self._lock_file.open("a") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() >= end:
                        raise self._already_running() from None
                    time.sleep(_LOCK_POLL_SECONDS)
                else:
                    break
            yield

    def _already_running(self) -> FolderInUse:
        return FolderInUse(f"{self._path} is in use by another process; stop it first")
