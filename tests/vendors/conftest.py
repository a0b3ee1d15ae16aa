"""A vendor's tests look at all of its parts: the fixtures are those of the packages that use these parts."""

from tests.deviceplugin.running_plugin import kubelet, logged, plugin_folder, start_plugin
from tests.doctor.node_folder import node
from tests.simulate.made_nodes import make_node, open_nvml, ready_node

__all__ = [
    "kubelet",
    "logged",
    "make_node",
    "node",
    "open_nvml",
    "plugin_folder",
    "ready_node",
    "start_plugin",
]
