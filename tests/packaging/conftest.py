"""Wheel and source distribution, built once for all tests of a worker."""

from pathlib import Path

import pytest
from tests.packaging.distributions import Built, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("source") / "accelscope", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def wheel(built: Built) -> Path:
    return built.wheel
