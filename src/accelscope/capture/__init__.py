"""What this node's drivers print, saved in one archive: a bug report that can be attached, and a test case.

Each vendor's plan is data (`capture.py` in its folder); `gather` carries it out, `mask` hides who the node
and its users are, `archive` writes the result. A source that fails is recorded with its error;
nothing here is fatal.
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
