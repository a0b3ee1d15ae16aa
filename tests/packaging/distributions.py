"""What `make wheel` builds."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.repository import REPOSITORY

NOT_SOURCES = (
    *(".git", ".venv", ".cache", ".hypothesis", ".*_cache", ".coverage*"),
    *("node_modules", "__pycache__", "*.egg-info", "build", "dist", "wheels"),
)


class Built(NamedTuple):
    sdist: Path
    wheel: Path


def build(source: Path, target: Path) -> Built:
    """From a copy: setuptools leaves folders behind and would pack what older builds left there. Nothing is
    fetched, the backend is the installed one."""
    shutil.copytree(REPOSITORY, source, ignore=shutil.ignore_patterns(*NOT_SOURCES))
    uv = str(Path(sys.executable).with_name("uv"))
    options = ["--offline", "--no-build-isolation", "--no-config", "--no-cache", "--python", sys.executable]
    done = subprocess.run(
        [uv, "build", *options, "--out-dir", str(target)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=source,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(source)
    [sdist], [wheel] = target.glob("*.tar.gz"), target.glob("*.whl")
    return Built(sdist, wheel)
