"""Saves the outputs of this node's drivers in one archive, for bug reports and test cases.

Each vendor's plan is data (`capture.py` in its folder). `gather` executes the plans and writes the archive,
`mask` hides identifying values. A source that fails is recorded with its error; no failure is fatal.
"""

from accelscope.capture.gather import Gathered, gather, write_archive
from accelscope.capture.mask import Mask, NodeNames
from accelscope.capture.plan import Command, Plan, Tree, plans

__all__ = [
    "Command",
    "Gathered",
    "Mask",
    "NodeNames",
    "Plan",
    "Tree",
    "gather",
    "plans",
    "write_archive",
]
