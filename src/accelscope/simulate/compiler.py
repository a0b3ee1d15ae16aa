"""Builds the native parts of simulated drivers with the machine's C compiler, once per version of the
sources."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror=implicit-function-declaration")
_TIMEOUT_SECONDS = 120


class CompileError(RuntimeError):
    """The native parts could not be built; the message tells the user how to fix it."""


@dataclass(frozen=True, slots=True)
class NativePart:
    """A library (with a SONAME) or a program made from C sources of one folder."""

    name: str
    folder: Path
    sources: tuple[str, ...]
    headers: tuple[str, ...] = ()
    soname: str | None = None

    def fingerprint(self) -> str:
        """A hash of the sources and the flags."""
        digest = hashlib.sha256(repr((self.name, self.soname, _FLAGS)).encode())
        for name in (*self.sources, *self.headers):
            digest.update((self.folder / name).read_bytes())
        return digest.hexdigest()[:16]


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "accelscope"


def built(part: NativePart, cache: Path) -> Path:
    """The compiled part, from the cache or made now. Raises CompileError."""
    target = cache / f"{part.name}-{part.fingerprint()}"
    try:
        if target.is_file():
            return target
        compiler = _compiler()
        cache.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(dir=cache, prefix=f".{part.name}-")
    except OSError as error:
        raise CompileError(
            f"cannot store compiled drivers in {cache}: {error.strerror};"
            " set XDG_CACHE_HOME to use another folder"
        ) from None
    os.close(descriptor)
    try:
        _compile(part, compiler, Path(scratch))
        Path(scratch).chmod(0o755)
        Path(scratch).replace(target)  # atomic, also when two builds race
    finally:
        Path(scratch).unlink(missing_ok=True)
    return target


def _compiler() -> str:
    wanted = os.environ.get("CC")
    candidates: Sequence[str] = (wanted,) if wanted else _COMPILERS
    for name in candidates:
        if path := shutil.which(name):
            return path
    raise CompileError(
        f"no C compiler found (looked for {', '.join(candidates)}): install one, "
        "e.g. apt install gcc libc6-dev, or set the environment variable CC"
    )


def _compile(part: NativePart, compiler: str, target: Path) -> None:
    command = [compiler, *_FLAGS]
    if part.soname:
        command += ["-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{part.soname}"]
    command += ["-o", str(target), *(str(part.folder / name) for name in part.sources)]
    command += ["-lpthread", "-ldl"]
    try:
        # The command is the user's own compiler and our own sources, without a shell.
        result = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"cannot run {compiler}: {error}") from None
    if result.returncode != 0:
        first = next((line for line in result.stderr.splitlines() if "error" in line), "no message")
        raise CompileError(f"{compiler} cannot build {part.name}: {first}")
