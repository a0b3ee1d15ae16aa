"""What the end-to-end tests share: a frozen simulated node, certificates, a token."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.certificates import Certificates, make_certificates

from accelscope.simulate import SimulatedNode, load_node

FROZEN_AT = 1000.0  # seconds of simulated time


@pytest.fixture(scope="session")
def frozen_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedNode]:
    """The eight-GPU node at one instant: what is read from it does not change."""
    folder = tmp_path_factory.mktemp("frozen")
    node = SimulatedNode(load_node("nvidia-h100x8"), folder)
    node.build()
    node.write(at=FROZEN_AT)
    yield node
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("let-prometheus-in\n")
    return path
