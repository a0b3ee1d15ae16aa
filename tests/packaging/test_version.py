"""One number: that of the package. Chart, image, manifests, documentation and change log follow it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.repository import CHART, MANIFESTS, REPOSITORY

import accelscope

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
FILES = [*PAGES, *sorted(MANIFESTS.glob("*.yaml"))]
IMAGE = re.compile(r"(?:/accelscope(?:-fleet)?:|--build-arg VERSION=)([\w.-]+)")


def test_command_tells_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "accelscope", "--version"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == f"accelscope {accelscope.__version__}\n"


@pytest.mark.parametrize("key", ["version", "appVersion"])
def test_chart_has_it(key: str) -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())[key] == accelscope.__version__


def test_an_image_that_is_built_without_a_version_has_it() -> None:
    recipe = (REPOSITORY / "deploy" / "image" / "Dockerfile").read_text()
    assert re.findall(r"^ARG VERSION=(.*)$", recipe, re.MULTILINE) == [accelscope.__version__]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_images_are_named_by_it(file: Path) -> None:
    assert set(IMAGE.findall(file.read_text())) <= {accelscope.__version__, "VERSION"}


def test_some_files_name_images() -> None:
    assert len([file for file in FILES if IMAGE.search(file.read_text())]) > 5


def test_change_log_tells_what_is_in_it() -> None:
    headings = re.findall(r"^## (.*)$", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(accelscope.__version__)}\] - \d{{4}}-\d\d-\d\d", headings[1])
