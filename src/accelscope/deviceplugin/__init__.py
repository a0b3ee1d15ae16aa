"""The device plugin: what a kubelet is told of a node's accelerators, and what a container gets with them."""
