"""Every known difference between what a program reports and what the agent reports about the same node.

`right` is who is right. `holds` limits the entry to the difference that it explains: any other value of the
same field still fails.
"""

from tests.reality.comparison import Difference

DIFFERENCES: tuple[Difference, ...] = ()
