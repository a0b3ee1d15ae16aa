"""scripts/sbom: CycloneDX by its rules, of what the locks hold, and the same bytes each time."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.repository import REPOSITORY

import accelscope

SCRIPT = REPOSITORY / "scripts" / "sbom"
LOCK_OF = {name: f"requirements/{name}.txt" for name in ("agent", "device-plugin", "fleet")}
NAMES = [*LOCK_OF, "page"]
# What builds, and is no part of the result.
BUILDERS_OF = dict.fromkeys(LOCK_OF, "deploy/image/build.txt") | {"page": "requirements/node.txt"}
# Of the specification 1.6: what a component may have of what we write, and how long a digest is.
COMPONENT_KEYS = {
    "type", "bom-ref", "name", "version", "scope", "purl", "hashes", "licenses", "externalReferences",
    "properties",
}  # fmt: skip
DIGITS = {"SHA-256": 64, "SHA-512": 128}


def make(folder: Path) -> dict[str, bytes]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return {path.name.removesuffix(".cdx.json"): path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return make(tmp_path_factory.mktemp("sbom"))


@pytest.fixture
def documents(made: dict[str, bytes]) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in made.items()}


def page_lock() -> dict[str, dict[str, Any]]:
    """By the path in node_modules."""
    packages = json.loads((REPOSITORY / "web" / "package-lock.json").read_text())["packages"]
    return {path: entry for path, entry in packages.items() if path}


def pins(lock: str) -> dict[tuple[str, str], set[str]]:
    """Hashes by name and version, of all markers."""
    found: dict[tuple[str, str], set[str]] = {}
    text = (REPOSITORY / lock).read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if re.match(r"[A-Za-z0-9]", line):
            requirement = Requirement(line.split("--hash")[0].strip())
            [pin] = requirement.specifier
            hashes = set(re.findall(r"--hash=sha256:(\S+)", line))
            found[canonicalize_name(requirement.name), pin.version] = hashes
    return found


def check_hashes(hashes: list[dict[str, str]]) -> None:
    assert hashes
    for each in hashes:
        assert each.keys() == {"alg", "content"}
        assert re.fullmatch(rf"[0-9a-f]{{{DIGITS[each['alg']]}}}", each["content"])


def check_licences(licences: list[dict[str, Any]]) -> None:
    """Either one expression, or licences by name."""
    expressions = [each for each in licences if "expression" in each]
    assert len(expressions) in (0, len(licences))
    assert len(expressions) <= 1
    for each in expressions:
        assert each.keys() == {"expression"}
        assert re.fullmatch(r"[A-Za-z0-9.+() -]+", each["expression"])
    for each in licences:
        if "license" in each:
            assert each.keys() == {"license"}
            assert each["license"].keys() == {"name"}
            assert each["license"]["name"]


@pytest.mark.parametrize("name", NAMES)
def test_by_the_rules_of_cyclonedx(documents: dict[str, Any], name: str) -> None:
    document = documents[name]
    assert document["bomFormat"] == "CycloneDX"
    assert document["specVersion"] == "1.6"
    assert document["version"] == 1
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", document["serialNumber"])
    whole = document["metadata"]["component"]
    assert whole["type"] in ("container", "application")
    assert whole["version"] == accelscope.__version__
    references = {whole["bom-ref"]}
    for component in document["components"]:
        assert component.keys() <= COMPONENT_KEYS
        assert component["type"] == "library"
        assert component["scope"] in ("required", "excluded")
        assert re.fullmatch(r"pkg:(pypi|npm)/[%\w./-]+@[\w.+-]+", component["purl"])
        assert component["bom-ref"] not in references, "twice"
        references.add(component["bom-ref"])
        check_licences(component.get("licenses", [{"expression": "MIT"}]))
        if "hashes" in component:
            check_hashes(component["hashes"])
        for reference in component.get("externalReferences", []):
            assert reference.keys() == {"type", "url", "hashes"}
            check_hashes(reference["hashes"])
    assert {each["ref"] for each in document["dependencies"]} == references
    for each in document["dependencies"]:
        assert set(each["dependsOn"]) <= references - {each["ref"]}
        assert each["dependsOn"] == sorted(set(each["dependsOn"]))
    assert document["compositions"] == [{"aggregate": "incomplete", "assemblies": [whole["bom-ref"]]}]


def from_pypi(document: Any, scope: str) -> dict[tuple[str, str], set[str]]:
    return {
        (each["name"], each["version"]): {
            said["content"] for reference in each["externalReferences"] for said in reference["hashes"]
        }
        for each in document["components"]
        if each["purl"].startswith("pkg:pypi/") and each["scope"] == scope
    }


@pytest.mark.parametrize("name", LOCK_OF)
def test_image_holds_what_its_lock_holds(documents: dict[str, Any], name: str) -> None:
    assert from_pypi(documents[name], "required") == pins(LOCK_OF[name])


@pytest.mark.parametrize("name", NAMES)
def test_what_builds_is_named_and_is_no_part(documents: dict[str, Any], name: str) -> None:
    document = documents[name]
    assert from_pypi(document, "excluded") == pins(BUILDERS_OF[name])
    assert pins(BUILDERS_OF[name])
    whole = document["metadata"]["component"]["bom-ref"]
    [needs] = [each["dependsOn"] for each in document["dependencies"] if each["ref"] == whole]
    assert {f"pkg:pypi/{each}@{version}" for each, version in pins(BUILDERS_OF[name])} <= set(needs)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_whose_it_is_and_what_is_missing(documents: dict[str, Any], name: str) -> None:
    about = documents[name]["metadata"]
    whole = about["component"]
    assert about["supplier"] == whole["supplier"] == {"name": "The AccelScope authors"}
    assert about["authors"] == [about["supplier"]]
    assert whole["purl"] == f"pkg:generic/{whole['name']}@{accelscope.__version__}"
    [missing] = about["properties"]
    assert missing["name"] == "accelscope:missing"
    assert "native libraries" in missing["value"]


def test_page_is_what_npm_locked_and_the_fleets_image_has_what_is_served_of_it(
    documents: dict[str, Any],
) -> None:
    def npm(name: str) -> dict[tuple[str, str], tuple[str, str]]:
        return {
            (each["name"], each["version"]): (each["hashes"][0]["content"], each["scope"])
            for each in documents[name]["components"]
            if each["purl"].startswith("pkg:npm/")
        }

    locked = {
        (path.rpartition("node_modules/")[2], entry["version"]): (
            base64.b64decode(entry["integrity"].removeprefix("sha512-")).hex(),
            "excluded" if entry.get("dev") else "required",
        )
        for path, entry in page_lock().items()
    }
    assert npm("page") == locked
    assert npm("fleet") == {name: said for name, said in locked.items() if said[1] == "required"}
    assert npm("fleet")
    assert npm("agent") == npm("device-plugin") == {}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_there_that_nobody_needs(documents: dict[str, Any], name: str) -> None:
    needs = {each["ref"]: each["dependsOn"] for each in documents[name]["dependencies"]}
    reached: set[str] = set()
    waiting = [documents[name]["metadata"]["component"]["bom-ref"]]
    while waiting:
        reference = waiting.pop()
        if reference not in reached:
            reached.add(reference)
            waiting += needs[reference]
    # A package that only another of the page's builders may bring along is locked and not asked for by name.
    optional = {each["bom-ref"] for each in documents[name]["components"] if each["scope"] == "excluded"}
    assert needs.keys() - reached <= optional


def test_licence_is_the_installed_packages_own(documents: dict[str, Any]) -> None:
    for component in documents["agent"]["components"]:
        assert component.get("licenses"), f"{component['name']} is installed, and says under what"


def test_the_same_locks_make_the_same_bytes(made: dict[str, bytes], tmp_path: Path) -> None:
    assert make(tmp_path / "again") == made


def test_nothing_tells_where_it_was_made(made: dict[str, bytes]) -> None:
    for text in made.values():
        assert not re.search(rb"https?://|timestamp", text)
        assert str(REPOSITORY).encode() not in text
