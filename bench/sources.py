"""Where other people's exporters come from. What is fetched or built goes to a folder of the user's cache,
never to the repository or to the Python that runs the benchmark."""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_LONGEST_SECONDS = 3600
_LAST_WORDS = 160  # characters of what a program said before it failed
_ADDRESS = re.compile(r"https?://\S+")


class NotObtained(Exception):
    """Why a program could not be had, in one line."""


class Source(Protocol):
    @property
    def takes(self) -> str:
        """How it is obtained and how long that takes, for somebody who waits."""
        ...

    def find(self) -> Sequence[str] | None:
        """What to run, or None where it is not there yet."""
        ...

    def obtain(self) -> None:
        """Raises NotObtained."""
        ...


def cache() -> Path:
    chosen = os.environ.get("ACCELSCOPE_BENCH_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "accelscope-bench"


@dataclass(frozen=True, slots=True)
class FromPyPI:
    """A module that is run with Python's -m: the one that is installed beside the benchmark, or else one in a
    virtual environment of its own."""

    package: str
    version: str
    module: str

    @property
    def takes(self) -> str:
        return f"pip install {self.package}=={self.version}, less than a minute"

    def find(self) -> Sequence[str] | None:
        if importlib.util.find_spec(self.module) is not None:
            return sys.executable, "-m", self.module
        python = self._folder / "bin" / "python"
        return (str(python), "-m", self.module) if (self._folder / "complete").exists() else None

    def obtain(self) -> None:
        _run([sys.executable, "-m", "venv", "--clear", str(self._folder)])
        pip = [str(self._folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, f"{self.package}=={self.version}"])
        (self._folder / "complete").touch()

    @property
    def _folder(self) -> Path:
        return cache() / f"{self.package}-{self.version}"


@dataclass(frozen=True, slots=True)
class FromDebian:
    package: str
    program: str

    @property
    def takes(self) -> str:
        return f"apt-get install {self.package}, less than a minute"

    def find(self) -> Sequence[str] | None:
        program = shutil.which(self.program)
        return (program,) if program else None

    def obtain(self) -> None:
        _install(self.package)


@dataclass(frozen=True, slots=True)
class FromCrates:
    crate: str
    version: str
    minutes: int  # of CPU time
    needs: tuple[str, ...]  # Debian's packages without which it does not compile

    @property
    def takes(self) -> str:
        return (
            f"cargo install {self.crate} {self.version}, about {self.minutes} minutes of CPU time; "
            f"needs {' '.join(self.needs)}"
        )

    def find(self) -> Sequence[str] | None:
        return _program(self._folder / "bin" / self.crate)

    def obtain(self) -> None:
        if shutil.which("cargo") is None:
            raise NotObtained("no cargo on PATH")
        if missing := _not_installed(self.needs):
            _install(*missing)
        command = ["cargo", "install", self.crate, "--version", self.version, "--locked", "--quiet"]
        _run([*command, "--root", str(self._folder)])

    @property
    def _folder(self) -> Path:
        return cache() / f"{self.crate}-{self.version}"


@dataclass(frozen=True, slots=True)
class Given:
    """A program that is named on the command line."""

    program: str

    @property
    def takes(self) -> str:
        return f"{self.program} is not an executable program"

    def find(self) -> Sequence[str] | None:
        program = shutil.which(self.program)
        return (program,) if program else None

    def obtain(self) -> None:
        raise NotObtained(self.takes)


def _not_installed(packages: Sequence[str]) -> list[str]:
    """None where it is not Debian that would know: the build tells what it misses."""
    if shutil.which("dpkg-query") is None:
        return []
    asked = ["dpkg-query", "--show", "--showformat=${binary:Package} ${db:Status-Status}\n", *packages]
    told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60).stdout
    states = (line.split() for line in told.splitlines())
    there = {name.partition(":")[0] for name, state in states if state == "installed"}
    return [package for package in packages if package not in there]


def _install(*packages: str) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NotObtained(f"needs of Debian {', '.join(packages)}, and root to install that")
    quietly = {"DEBIAN_FRONTEND": "noninteractive"}
    with contextlib.suppress(NotObtained):  # the lists that are there may do
        _run(["apt-get", "update"], quietly)
    _run(["apt-get", "install", "--yes", "--no-install-recommends", *packages], quietly)


def _program(path: Path) -> Sequence[str] | None:
    return (str(path),) if os.access(path, os.X_OK) else None


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    try:
        finished = subprocess.run(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotObtained(f"{command[0]}: {error}") from None
    if finished.returncode != 0:
        said = _ADDRESS.sub("its registry:", finished.stderr or finished.stdout)
        words = textwrap.shorten(" ".join(said.split()[::-1]), _LAST_WORDS, placeholder="").split()
        raise NotObtained(f"{Path(command[0]).name} failed: {' '.join(words[::-1])}")
