"""Simulated nodes, a kubelet, and plugins between them."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.costless import costless
from tests.deviceplugin.fake_kubelet import FakeKubelet

from accelscope.config.settings import settings_of as declared_settings
from accelscope.deviceplugin.app import Plugin
from accelscope.deviceplugin.kubelet import Timeouts
from accelscope.deviceplugin.settings import PluginSettings, load_settings
from accelscope.simulate import SimulatedNode

MakeNode = Callable[..., SimulatedNode]
StartPlugin = Callable[..., Plugin]


@pytest.fixture
def make_node(tmp_path: Path, native_cache: Path) -> MakeNode:
    """`make_node("furiosa-warboy")` or `make_node(yaml text)`: built and written."""
    made: list[SimulatedNode] = []

    def make(node: str) -> SimulatedNode:
        spec = costless(node)
        made.append(SimulatedNode(spec, tmp_path / f"node{len(made)}", cache=native_cache))
        made[-1].build(60.0)
        return made[-1]

    return make


@pytest.fixture
def plugin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: that of a socket has room for a hundred bytes."""
    folder = tmp_path_factory.mktemp("k") / "p"
    folder.mkdir()
    return folder


@pytest.fixture
def kubelet(plugin_folder: Path) -> Iterator[FakeKubelet]:
    kubelet = FakeKubelet(plugin_folder)
    kubelet.start()
    yield kubelet
    kubelet.stop()


def settings_of(node: SimulatedNode) -> dict[str, object]:
    """What points a plugin at a simulated node."""
    known = {declared.name for declared in declared_settings(PluginSettings)}
    return {name: value for name, value in node.agent_settings().items() if name in known}


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What plugins log; taken at the package's own logger, since a reload of settings replaces the root's
    handlers, which are put back here."""
    root, package, keep = logging.getLogger(), logging.getLogger("accelscope.deviceplugin"), _Keep()
    handlers, level = root.handlers[:], root.level
    package.addHandler(keep)
    package.setLevel(logging.INFO)
    yield keep.lines
    package.removeHandler(keep)
    package.setLevel(logging.NOTSET)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def start_plugin(plugin_folder: Path, logged: list[str]) -> Iterator[StartPlugin]:
    """`start_plugin(node, default_pe="Single")`: flags by the names of settings; `file` is --config-file."""
    started: list[Plugin] = []

    def start(
        node: SimulatedNode, *, file: Path | None = None, timeouts: Timeouts | None = None, **flags: object
    ) -> Plugin:
        arguments: dict[str, object] = {
            **settings_of(node),
            "exporter_host": "127.0.0.1",
            "exporter_port": "0",
            "node_name": "node-7",
            "pod_resources_socket": str(plugin_folder.parent / "pod-resources.sock"),
        }
        if file is None:
            arguments |= {"interval": "0.1", "plugin_dir": str(plugin_folder)}
        else:
            arguments["config_file"] = str(file)
        loaded = load_settings({**arguments, **flags}, {})
        quick = Timeouts(first_retry=0.1, longest_retry=0.3, stream=1.0, takeover=0.5)
        plugin = Plugin(loaded, {**arguments, **flags}, {}, timeouts=timeouts or quick)
        plugin.start()
        started.append(plugin)
        return plugin

    yield start
    for plugin in started:
        plugin.stop()
