"""Simulated nodes: drivers, tools and processes as a real machine shows them, from one YAML file."""

from accelscope.simulate.description import load_node, ready_made
from accelscope.simulate.node import SimulatedNode
from accelscope.simulate.spec import NodeSpec

__all__ = ["NodeSpec", "SimulatedNode", "load_node", "ready_made"]
