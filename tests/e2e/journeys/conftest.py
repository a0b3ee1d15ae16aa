"""What the journeys share: a machine that has nothing of ours, and a cluster as its owners have it."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.e2e.journeys.machine import Machine
from tests.e2e.journeys.owners import Owner
from tests.e2e.kubernetes import operator_kinds
from tests.e2e.kubernetes.agent_image import agent_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import NAMESPACE, PATIENCE_SECONDS, Release
from tests.e2e.page_commands import Shell
from tests.repository import REPOSITORY

_NOT_SOURCES = (".*", "__pycache__", "*.egg-info", "build", "dist", "node_modules", "tests")
_SECONDS = 300.0


def _run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which nothing was built. To be copied: setuptools leaves folders behind, and would pack what
    older builds left."""
    clone = tmp_path_factory.mktemp("sources") / "clone"
    shutil.copytree(REPOSITORY, clone, ignore=shutil.ignore_patterns(*_NOT_SOURCES))
    return clone


@pytest.fixture(scope="session")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make wheel` builds it, with what is locked for the tests."""
    clone = tmp_path_factory.mktemp("wheel") / "clone"
    shutil.copytree(sources, clone)
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", "dist")
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", *options, ".", cwd=clone)
    [built] = (clone / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="session")
def pipx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program, where a workstation has it from its distribution."""
    folder = tmp_path_factory.mktemp("pipx")
    _run(sys.executable, "-m", "venv", folder / "own", cwd=folder)
    lock = REPOSITORY / "requirements/pipx.txt"
    options = ("--quiet", "--require-hashes", "--no-deps", "--requirement")
    _run(folder / "own/bin/pip", "install", *options, lock, cwd=folder)
    (folder / "bin").mkdir()
    (folder / "bin" / "pipx").symlink_to(folder / "own/bin/pipx")
    # Of the wheel's own needs, the versions that all other tests have.
    locked = (REPOSITORY / "requirements/dev.txt").read_text()
    pins = re.findall(r"^[\w.-]+==[^\\\n]+", locked, re.MULTILINE)
    (folder / "constraints.txt").write_text("\n".join(pins))
    return folder


@pytest.fixture
def machine(pipx: Path, sources: Path, wheel: Path, tmp_path: Path) -> Callable[..., Machine]:
    """Makes one. Its user is in a clone, in which the wheel is built already."""

    def made(variables: Mapping[str, str], words: Mapping[str, str]) -> Machine:
        folder = tmp_path / "clone"
        shutil.copytree(sources, folder)
        (folder / "dist").mkdir()
        shutil.copy(wheel, folder / "dist")
        constraint = {"PIP_CONSTRAINT": str(pipx / "constraints.txt")}
        return Machine(folder, pipx / "bin", {**constraint, **variables}, words)

    return made


@pytest.fixture(scope="module")
def owner(cluster: Cluster, folder: Path) -> Iterator[Owner]:
    """Of a cluster with the Prometheus operator's kinds, who has pushed the image. What the pages have put
    there is gone afterwards."""
    cluster.import_image(agent_image())
    # Another module's may still be going.
    cluster.wait_for(f"namespace/{NAMESPACE}", "delete", seconds=PATIENCE_SECONDS)
    with ExitStack() as stack:
        stack.enter_context(operator_kinds.monitor_kinds(cluster))
        gone = ("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
        stack.callback(cluster.kubectl, *gone)
        stack.callback(Release(cluster, folder).remove)
        yield Owner(cluster, Shell(cluster, folder))
