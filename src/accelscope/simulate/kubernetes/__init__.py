"""The Kubernetes side of a simulated node: an API server that knows its pods, and the kubelet's socket."""

from accelscope.simulate.kubernetes.cluster import SimulatedCluster

__all__ = ["SimulatedCluster"]
