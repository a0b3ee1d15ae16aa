"""Wheel and source distribution hold everything: the program, its page, chart, dashboards and rules."""

import email
import fnmatch
import json
import re
import runpy
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.packaging.distributions import Built
from tests.repository import REPOSITORY

SOURCES = REPOSITORY / "src"
DEPLOY = REPOSITORY / "deploy"
PAGE = "accelscope/fleet/page/static"


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


def test_licences_of_what_is_bundled_into_the_page_are_beside_it(wheel: Path) -> None:
    if not (SOURCES / PAGE / "index.html").exists():
        pytest.skip("the page is not built: make page")
    bundled = json.loads((REPOSITORY / "web" / "package.json").read_text())["dependencies"]
    with zipfile.ZipFile(wheel) as archive:
        licences = archive.read(f"{PAGE}/licenses.txt").decode()
    for name, version in bundled.items():
        assert f"{name} - {version} (MIT)" in licences
    assert licences.count("Permission is hereby granted") >= len(bundled)


@pytest.mark.parametrize("folder", ["chart", "examples", "manifests", "systemd"])
def test_what_is_deployed_is_in_it(names: set[str], folder: str) -> None:
    ours = {
        f"accelscope/files/{path.relative_to(DEPLOY).as_posix()}"
        for path in (DEPLOY / folder).rglob("*")
        if path.is_file()
    }
    assert ours
    assert {name for name in names if name.startswith(f"accelscope/files/{folder}/")} == ours


def test_make_wheel_builds_the_page_first() -> None:
    words = ["make", "--dry-run", "wheel"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60, cwd=REPOSITORY)
    recipe = done.stdout.splitlines()
    assert recipe.index("scripts/page") < next(at for at, line in enumerate(recipe) if "uv build" in line)


def test_nothing_else_is_in_it(names: set[str]) -> None:
    assert {name.split("/")[0].split("-")[0] for name in names} == {"accelscope"}


def test_licence_is_in_it(wheel: Path) -> None:
    assert "Apache License" in metadata(wheel, "licenses/LICENSE")
    assert email.message_from_string(metadata(wheel, "METADATA"))["License-Expression"] == "Apache-2.0"


def test_bare_install_asks_for_what_the_agent_needs_and_no_more(wheel: Path) -> None:
    requirements = email.message_from_string(metadata(wheel, "METADATA")).get_all("Requires-Dist", [])
    bare = {found.name for found in map(Requirement, requirements) if found.marker is None}
    assert bare == {"h2", "nvidia-ml-py", "PyYAML"}


def test_source_distribution_is_the_repository_with_its_page(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    packed = {name for name in packed if not re.match(r"PKG-INFO$|setup\.cfg$|src/[^/]*\.egg-info/", name)}
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=REPOSITORY,
    )
    if listed.returncode != 0:
        pytest.skip("this is no clone: what belongs to the repository is not known")
    ours = {name for name in listed.stdout.splitlines() if (REPOSITORY / name).is_file()}
    page = {path.relative_to(REPOSITORY).as_posix() for path in (SOURCES / PAGE).rglob("*") if path.is_file()}
    assert packed == ours | page


@pytest.mark.parametrize("lock", ["agent", "device-plugin"])
def test_images_leave_page_and_files_out(wheel: Path, lock: str) -> None:
    install = runpy.run_path(str(DEPLOY / "image" / "install.py"))
    with zipfile.ZipFile(wheel) as archive:
        names = install["members"](archive, Path(f"requirements/{lock}.txt"))
    assert "accelscope/cli/main.py" in names
    assert [name for name in names if name.startswith(("accelscope/files/", PAGE))] == []
