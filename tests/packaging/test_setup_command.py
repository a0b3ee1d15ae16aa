"""Building in a clone, as pip does it: what an older build left there does not go into the wheel."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.repository import REPOSITORY

BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
MODULE = "src/accelscope/gone.py"
MANIFEST = "deploy/manifests/gone.yaml"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Small, with the files that decide what is built."""
    clone = tmp_path / "clone"
    for name in ("src/accelscope", "deploy/chart", "deploy/examples", "deploy/manifests", "deploy/systemd"):
        (clone / name).mkdir(parents=True)
        (clone / name / "kept.yaml").touch()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "src/accelscope/__init__.py"):
        shutil.copy(REPOSITORY / name, clone / name)
    for name in (MODULE, MANIFEST):
        (clone / name).touch()
    return clone


def built(clone: Path, target: Path) -> set[str]:
    """Names in the wheel."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(target)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=clone,
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(target / done.stdout.split()[-1]) as archive:
        return set(archive.namelist())


def test_a_deleted_file_is_not_in_the_next_wheel(clone: Path, tmp_path: Path) -> None:
    gone = {"accelscope/gone.py", "accelscope/files/manifests/gone.yaml"}
    first = built(clone, tmp_path / "first")
    assert gone <= first
    assert (clone / "build" / "lib" / "accelscope" / "gone.py").exists(), "what is left in the clone"
    for name in (MODULE, MANIFEST):
        (clone / name).unlink()
    assert built(clone, tmp_path / "second") == first - gone
