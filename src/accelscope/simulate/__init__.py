"""Simulated nodes: drivers, tools and processes as a real machine shows them, from one YAML file.

node = SimulatedNode(load_node("nvidia-h100x8"), "/tmp/node")
node.build()
node.write(at=60.0)
node.set_faults([Fault(kind=FaultKind.HANG, device=3)])
"""

from accelscope.simulate.description import load_node, read_node, ready_made
from accelscope.simulate.faults import Fault, FaultKind
from accelscope.simulate.folder import FolderInUse
from accelscope.simulate.node import SimulatedNode
from accelscope.simulate.spec import DescriptionError, NodeSpec
from accelscope.simulate.vendor import CompileError

__all__ = [
    "CompileError",
    "DescriptionError",
    "Fault",
    "FaultKind",
    "FolderInUse",
    "NodeSpec",
    "SimulatedNode",
    "load_node",
    "read_node",
    "ready_made",
]
