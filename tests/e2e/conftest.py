"""What the end-to-end tests share: folders that are gone afterwards, simulated nodes, and the cluster."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.e2e.kubernetes import feature_discovery, gpus
from tests.e2e.kubernetes.cache import to_stderr
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.errors import ClusterError
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode, load_node

FROZEN_AT = 1000.0  # seconds of simulated time


@pytest.hookimpl(wrapper=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """scripts/e2e runs what needs the cluster beside what does not."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker("cluster")
    yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """For what one module's processes write; removed, since a Prometheus writes much."""
    path = tmp_path_factory.mktemp("e2e")
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def frozen_node(folder: Path) -> SimulatedNode:
    """The eight-GPU node at one instant: what is read from it does not change."""
    node = SimulatedNode(load_node("nvidia-h100x8"), folder / "frozen")
    node.build()
    node.write(at=FROZEN_AT)
    return node


@pytest.fixture
def moving_node(tmp_path: Path) -> Iterator[SimulatedNode]:
    """The eight-GPU node, moving with the wall clock."""
    node = SimulatedNode(load_node("nvidia-h100x8"), tmp_path / "moving")
    node.build()
    stop = threading.Event()
    mover = threading.Thread(target=node.run, args=(stop,), kwargs={"period": 0.2})
    mover.start()
    wait_until(node.is_running, "the node moves")
    yield node
    stop.set()
    mover.join()
    shutil.rmtree(node.folder)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """One Kubernetes for all tests. Where it cannot be had, they fail: nothing else shows what they show."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        """At once: the first run builds for minutes."""
        with capture.global_and_fixture_disabled():
            to_stderr(line)

    with ExitStack() as stack:
        try:
            booted = stack.enter_context(Cluster(say))
        except ClusterError as error:
            pytest.fail(str(error), pytrace=False)
        yield booted
    assert booted.leftovers() == []


@pytest.fixture(scope="module")
def used_gpus(cluster: Cluster, folder: Path) -> Iterator[SimulatedNode]:
    """Two, which the pods `train` and `guest` use."""
    with gpus.used_gpus(cluster, folder) as node:
        yield node


@pytest.fixture(scope="module")
def features_folder(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """From which Node Feature Discovery labels the node."""
    with feature_discovery.features_folder(cluster, folder) as features:
        yield features
