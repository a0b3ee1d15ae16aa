"""Simulated nodes for tests, and the official binding pointed at one of them."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pynvml
import pytest

from accelscope.simulate import SimulatedNode, load_node, read_node

MakeNode = Callable[..., SimulatedNode]
OpenNvml = Callable[[SimulatedNode], AbstractContextManager[Any]]


@pytest.fixture
def make_node(tmp_path: Path, native_cache: Path) -> MakeNode:
    """`make_node("nvidia-mig", at=60)` or `make_node(yaml text)`: built and written."""
    made: list[SimulatedNode] = []

    def make(node: str, at: float = 60.0) -> SimulatedNode:
        spec = read_node(node) if "\n" in node else load_node(node)
        made.append(SimulatedNode(spec, tmp_path / f"node{len(made)}", cache=native_cache))
        made[-1].build(at)
        return made[-1]

    return make


@pytest.fixture(scope="session")
def ready_node(tmp_path_factory: pytest.TempPathFactory, native_cache: Path) -> MakeNode:
    """`ready_node("nvidia-mig")`: a ready-made node at 60 seconds that all tests share and none changes."""
    folder = tmp_path_factory.mktemp("ready")

    @cache
    def ready(name: str) -> SimulatedNode:
        node = SimulatedNode(load_node(name), folder / name, cache=native_cache)
        node.build(60.0)
        return node

    return ready


@contextmanager
def _open_nvml(node: SimulatedNode) -> Iterator[Any]:
    # The binding has no setting for the library's path; these are the names under which it keeps it.
    pynvml.nvmlLib = ctypes.CDLL(node.agent_settings()["nvml_library"])
    pynvml._nvmlGetFunctionPointer_cache.clear()
    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml.nvmlLib = None


@pytest.fixture
def open_nvml() -> OpenNvml:
    return _open_nvml
