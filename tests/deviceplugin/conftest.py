from tests.deviceplugin.running_plugin import kubelet, logged, make_node, plugin_folder, start_plugin

__all__ = ["kubelet", "logged", "make_node", "plugin_folder", "start_plugin"]
