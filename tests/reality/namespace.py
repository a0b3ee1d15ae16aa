"""Runs a program as if this machine were a simulated node: with the node's /sys, /dev and /proc over the real
ones.

The program gets a mount namespace of its own, so that nothing changes for the machine. It may come from a
Debian tree (debian.py), which then is its root, or from this machine. Run as a script, this module enters the
namespace and becomes the program; a wrapper script that ends in such a line is a tool for the agent's
settings.
"""

import ctypes
import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

# The machine's own, which every program needs. A name that the node has wins.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_PROC = (
    *("self", "thread-self", "cpuinfo", "meminfo", "mounts", "filesystems", "version", "cmdline", "modules"),
    *("devices", "sys", "loadavg", "stat", "uptime", "bus", "driver"),
)
_SCRATCH = "/media"  # there on every Debian system; only this namespace's is used
_REAL_PROC = "/media/proc-of-machine"
_WRITABLE = ("tmp", "root", "run", "var/log")  # of a Debian tree

_CLONE_NEWNS = 0x00020000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a program runs."""

    node: str | None = (
        None  # the folder of a simulated node; None: a machine with no accelerator and an empty /dev
    )
    root: str | None = None  # a Debian tree; None: this machine's files
    environment: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)  # names below /media -> folders of this machine
    machine_sys: bool = False  # the machine's own /sys

    def command(self, words: Sequence[str | Path]) -> list[str]:
        """The command that runs `words` in this place."""
        return [sys.executable, "-I", "-S", __file__, json.dumps(asdict(self)), *map(str, words)]

    def run(
        self, words: Sequence[str | Path], *, seconds: float = _SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Raises subprocess.TimeoutExpired."""
        return subprocess.run(
            self.command(words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )

    def start(self, words: Sequence[str | Path]) -> subprocess.Popen[str]:
        """A program that is asked on its standard input."""
        return subprocess.Popen(
            self.command(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def write_wrapper(self, path: Path, program: str) -> Path:
        """A script that passes its arguments to `program` in this place."""
        path.write_text(f'#!/bin/sh\nexec {shlex.join(self.command([program]))} "$@"\n')
        path.chmod(0o755)
        return path


def why_not() -> str | None:
    """The reason why this machine cannot run programs in namespaces."""
    if os.geteuid() != 0:
        return "mount namespaces need root"
    tried = subprocess.run(Place().command(["true"]), capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no mount namespace: {tried.stderr.strip()[-200:]}"


# --- inside the namespace ------------------------------------------------------------
# Only the standard library: this part runs as a script, without the packages of the project.


def _enter(place: Place) -> None:
    """Moves this process into the namespace. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)

    def checked(result: int, what: str) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")

    def mount(source: str, target: str, kind: str | None = None, flags: int = 0) -> None:
        words = [word.encode() if word is not None else None for word in (source, target, kind)]
        checked(libc.mount(*words, flags, None), f"mount {source} on {target}")

    def bind(source: str, target: str, *, read_only: bool = False) -> None:
        mount(source, target, flags=_MS_BIND | _MS_REC)
        if read_only:
            mount("none", target, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY)

    checked(libc.unshare(_CLONE_NEWNS), "unshare")
    mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
    mount("tmpfs", _SCRATCH, "tmpfs")
    for name in ("root", "sys", "dev", "proc", *place.shared, Path(_REAL_PROC).name):
        Path(_SCRATCH, name).mkdir(exist_ok=True)
    bind("/proc", _REAL_PROC)
    for name, folder in place.shared.items():
        bind(folder, f"{_SCRATCH}/{name}")
    node = Path(place.node) if place.node is not None else None
    _fill_dev(node, Path(_SCRATCH, "dev"), bind)
    _fill_proc(node, Path(_SCRATCH, "proc"))
    if node is not None and (node / "sys").is_dir():
        bind(str(node / "sys"), f"{_SCRATCH}/sys", read_only=True)
    elif place.machine_sys:
        bind("/sys", f"{_SCRATCH}/sys")
    root = ""
    if place.root is not None:
        root = f"{_SCRATCH}/root"
        bind(place.root, root, read_only=True)
        for name in _WRITABLE:
            mount("tmpfs", f"{root}/{name}", "tmpfs")
        bind(_SCRATCH, f"{root}/media")
    for name in ("sys", "dev", "proc"):
        bind(f"{_SCRATCH}/{name}", f"{root}/{name}")
    if root:
        os.chroot(root)
        os.chdir("/")


def _fill_dev(node: Path | None, target: Path, bind: Callable[[str, str], None]) -> None:
    if node is not None and (node / "dev").is_dir():
        _copy(node / "dev", target)
    for name in _DEVICES:
        if not (target / name).exists() and Path("/dev", name).exists():
            (target / name).touch()
            bind(f"/dev/{name}", str(target / name))
    (target / "shm").mkdir(exist_ok=True)
    (target / "fd").symlink_to("/proc/self/fd")


def _copy(source: Path, target: Path) -> None:
    """Files of a device folder, which are empty, or devices, or block when they are opened."""
    for path in source.iterdir():
        copy, state = target / path.name, path.lstat()
        if stat.S_ISDIR(state.st_mode):
            copy.mkdir()
            _copy(path, copy)
        elif stat.S_ISLNK(state.st_mode):
            copy.symlink_to(path.readlink())
        elif stat.S_ISREG(state.st_mode):
            copy.write_bytes(path.read_bytes())
        else:
            os.mknod(copy, state.st_mode, state.st_rdev)


def _fill_proc(node: Path | None, target: Path) -> None:
    """The processes of the node, this one, and the files of the machine that describe no process."""
    found = node / "proc" if node is not None else None
    if found is not None and found.is_dir():
        for path in found.iterdir():
            (target / path.name).mkdir() if path.is_dir() else (target / path.name).write_bytes(
                path.read_bytes()
            )
            for file in path.rglob("*") if path.is_dir() else ():
                copy = target / file.relative_to(found)
                if file.is_symlink():
                    copy.symlink_to(file.readlink())
                elif file.is_dir():
                    copy.mkdir()
                elif file.is_file():
                    copy.write_bytes(file.read_bytes())
    release = target / "sys/kernel/osrelease"
    if release.is_file():  # the node has another kernel
        banner = Path(_REAL_PROC, "version").read_text()
        (target / "version").write_text(banner.replace(os.uname().release, release.read_text().strip(), 1))
    for name in (*_PROC, str(os.getpid())):
        if not os.path.lexists(target / name):
            (target / name).symlink_to(f"{_REAL_PROC}/{name}")


if __name__ == "__main__":
    _place = Place(**json.loads(sys.argv[1]))
    _enter(_place)
    _environment = dict(os.environ)
    if _place.root is not None:
        _environment = {"PATH": "/usr/sbin:/usr/bin", "HOME": "/root", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    os.execvpe(sys.argv[2], sys.argv[2:], {**_environment, **_place.environment})
