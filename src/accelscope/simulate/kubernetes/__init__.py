"""The Kubernetes side of a simulated node: an API server with its pods, and the kubelet's socket."""

from accelscope.simulate.kubernetes.cluster import SimulatedCluster

__all__ = ["SimulatedCluster"]
