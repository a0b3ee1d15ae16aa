from tests.deviceplugin.running_plugin import kubelet, make_node, plugin_folder, said, start_plugin

__all__ = ["kubelet", "make_node", "plugin_folder", "said", "start_plugin"]
