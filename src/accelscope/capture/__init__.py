"""Saves the outputs of this node's drivers in one archive, for bug reports and test cases.

Each vendor's plan is data (`capture.py` in its folder). `gather` executes the plans, `mask` hides identifying
values, `archive` writes the result. A source that fails is recorded with its error; no failure is fatal.
"""

from accelscope.capture.archive import write_archive
from accelscope.capture.gather import Gathered, gather
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
