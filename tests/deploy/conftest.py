"""Fixtures for tests of the chart and the manifests: helm and rendered objects."""

import hashlib
import json
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.objects import Objects, read_objects
from tests.e2e.kubernetes.cache import cache_folder
from tests.repository import CHART

KUBERNETES = "1.34.0"

Render = Callable[..., Objects]
Template = Callable[..., subprocess.CompletedProcess[str]]


class Renderings:
    """Runs helm and caches its output, since many tests use the same rendering."""

    def __init__(self, helm: str, folder: Path) -> None:
        self._helm = helm
        self._folder = folder
        self._said: dict[tuple[str, ...], subprocess.CompletedProcess[str]] = {}
        self._objects: dict[str, bytes] = {}

    def template(
        self, release: str, *options: str, chart: Path = CHART, kubernetes: str = KUBERNETES
    ) -> subprocess.CompletedProcess[str]:
        words = (release, str(chart), *options, f"--kube-version={kubernetes}")
        if words not in self._said:
            self._said[words] = subprocess.run(
                [self._helm, "template", *words],
                cwd=self._folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        return self._said[words]

    def values(self, values: dict[str, Any]) -> str:
        """Write a values file; the same values give the same file."""
        text = json.dumps(values, sort_keys=True)
        path = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        path.write_text(text)
        return path.name

    def objects(self, done: subprocess.CompletedProcess[str]) -> Objects:
        """A new copy of the rendered objects."""
        assert done.returncode == 0, done.stderr
        if done.stdout not in self._objects:
            self._objects[done.stdout] = pickle.dumps(read_objects(done.stdout))
        found: Objects = pickle.loads(self._objects[done.stdout])
        return found


@pytest.fixture(scope="session")
def helm() -> str:
    """helm on PATH, or one that the end-to-end tests have built."""
    built = sorted((cache_folder() / "bin").glob("helm-*/helm"))
    found = shutil.which("helm") or (str(built[-1]) if built else None)
    if found is None:
        pytest.skip("no helm on PATH, and make e2e has not built one yet")
    return found


@pytest.fixture(scope="session")
def renderings(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Renderings:
    return Renderings(helm, tmp_path_factory.mktemp("renderings"))


@pytest.fixture
def template(renderings: Renderings) -> Template:
    """Output of helm for these values. image.registry is set unless the values set it."""

    def run(
        values: dict[str, Any],
        *,
        release: str = "accelscope",
        chart: Path = CHART,
        kubernetes: str = KUBERNETES,
    ) -> subprocess.CompletedProcess[str]:
        file = renderings.values({"image": {"registry": "registry.test"}, **values})
        options = ("--namespace=metrics", f"--values={file}")
        return renderings.template(release, *options, chart=chart, kubernetes=kubernetes)

    return run


@pytest.fixture
def render(template: Template, renderings: Renderings) -> Render:
    def run(**values: Any) -> Objects:
        return renderings.objects(template(values))

    return run
