"""The device plugin: offers a node's accelerators to the kubelet."""
