"""Programs of PyPI in environments of their own, with pinned versions, below the cache."""

import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.kubernetes.cache import Say, cache_folder, key_of, made_once, to_stderr
from tests.e2e.kubernetes.commands import run

_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment of the Python that runs the tests."""

    package: str
    version: str
    others: tuple[str, ...] = ()  # what the package depends on, with versions
    source: bool = False  # PyPI has no wheel of it

    def python(self, say: Say = to_stderr) -> Path:
        """Its interpreter. Raises CommandFailed if pip cannot install the version with this Python."""
        wanted = (f"{self.package}=={self.version}", *self.others)
        key = key_of((sys.executable, sys.version, platform.machine(), *wanted))

        def make(folder: Path) -> None:
            run([sys.executable, "-m", "venv", "--without-pip", folder])
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
            binary = ["--only-binary=:all:", *((f"--no-binary={self.package}",) if self.source else ())]
            install = ["install", "--no-deps", *binary, *wanted]
            run([*pip, "--python", folder / "bin" / "python", *install], seconds=_SECONDS)

        folder = cache_folder() / "pypi" / f"{self.package}-{self.version}-{key}"
        what = f"{self.package} {self.version}"
        return made_once(folder, make, what, say=say, seconds=_SECONDS) / "bin" / "python"
