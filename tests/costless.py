"""Simulated nodes whose tools cost nothing, for tests that are not about what a run costs."""

import re

from accelscope.simulate import load_node, read_node
from accelscope.simulate.spec import NodeSpec


def costless(node: str) -> NodeSpec:
    """`node` is the name of a ready-made one, or a description."""
    text = node if "\n" in node else load_node(node).text
    return read_node(re.sub(r"^  (?:tool|amd_smi|rocm_smi): \{cost_ms: .*\}\n", "", text, flags=re.MULTILINE))
