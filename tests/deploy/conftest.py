"""What the tests of chart and manifests share: a helm, and what it renders."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.kubernetes.cache import cache_folder

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "deploy" / "chart"

Objects = list[dict[str, Any]]
Render = Callable[..., Objects]
Template = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def helm() -> str:
    """Of PATH, or one that the end-to-end tests have built before."""
    built = sorted((cache_folder() / "bin").glob("helm-*/helm"))
    found = shutil.which("helm") or (str(built[-1]) if built else None)
    if found is None:
        pytest.skip("no helm on PATH, and make e2e has not built one yet")
    return found


@pytest.fixture
def template(helm: str, tmp_path: Path) -> Template:
    """What helm says to these values; the image's registry is set, unless they say otherwise."""

    def run(
        values: dict[str, Any],
        *,
        release: str = "accelscope",
        chart: Path = CHART,
        kubernetes: str = "1.34.0",
    ) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump({"image": {"registry": "registry.test"}, **values}))
        command = [helm, "template", release, str(chart), "--namespace=metrics", f"--values={file}"]
        return subprocess.run(
            [*command, f"--kube-version={kubernetes}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.fixture
def render(template: Template) -> Render:
    def run(**values: Any) -> Objects:
        done = template(values)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each is not None]

    return run
