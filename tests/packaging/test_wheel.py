"""The wheel holds everything the installed command needs, and runs from an empty environment.

Nothing is fetched: the backend is the installed one, and the install is of the wheel alone. The command must
come up without its dependencies, since each of them is imported only where it is used.
"""

import email
import fnmatch
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "src"
PAGE = "accelscope/fleet/page/static"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves folders behind and would pack what older builds left there."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    shutil.copytree(SOURCES, source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    target = tmp_path_factory.mktemp("dist")
    run(*PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", target, ".", cwd=source)
    [built] = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        [path] = [path for path in archive.namelist() if path.endswith(f".dist-info/{name}")]
        return archive.read(path).decode()


def test_every_file_of_the_package_is_in_it(names: set[str]) -> None:
    ours = {
        path.relative_to(SOURCES).as_posix()
        for path in (SOURCES / "accelscope").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours - names == set()


@pytest.mark.parametrize("pattern", ["accelscope/py.typed", "accelscope/simulate/*.c", "accelscope/*.yaml"])
def test_what_is_not_python_is_in_it_too(names: set[str], pattern: str) -> None:
    assert fnmatch.filter(names, pattern)


def test_page_is_in_it_where_it_is_built(names: set[str]) -> None:
    if not (SOURCES / PAGE / "index.html").exists():
        pytest.skip("the page is not built: make page")
    assert f"{PAGE}/index.html" in names
    assert fnmatch.filter(names, f"{PAGE}/assets/*.js")


def test_make_wheel_builds_the_page_first() -> None:
    recipe = run("make", "--dry-run", "wheel", cwd=REPOSITORY).splitlines()
    assert recipe.index("scripts/page") < next(at for at, line in enumerate(recipe) if "pip wheel" in line)


def test_nothing_else_is_in_it(names: set[str]) -> None:
    assert {name.split("/")[0].split("-")[0] for name in names} == {"accelscope"}


def test_licence_is_in_it(wheel: Path) -> None:
    assert "Apache License" in metadata(wheel, "licenses/LICENSE")
    assert email.message_from_string(metadata(wheel, "METADATA"))["License-Expression"] == "Apache-2.0"


def test_bare_install_asks_for_what_the_agent_needs_and_no_more(wheel: Path) -> None:
    requirements = email.message_from_string(metadata(wheel, "METADATA")).get_all("Requires-Dist", [])
    bare = {found.name for found in map(Requirement, requirements) if found.marker is None}
    assert bare == {"h2", "nvidia-ml-py", "PyYAML"}


def test_command_runs_from_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python = environment / "bin" / "python"
    run(*PIP, "--python", python, "install", "--no-index", "--no-deps", wheel, cwd=tmp_path)
    version = wheel.name.split("-")[1]
    assert version in run(environment / "bin" / "accelscope", "--version", cwd=tmp_path)
