"""A simulated node that stands still, for `accelscope top` of this node."""

import json
import re
from pathlib import Path

from accelscope.simulate import SimulatedNode, load_node


def settings_file(kind: str, at: float, folder: Path, cache: Path, **more: object) -> str:
    """Path of an agent's settings for a node of that kind as it is at that second."""
    node = SimulatedNode(load_node(kind), folder / "node", cache=cache)
    node.build(at)
    settings = {**node.agent_settings(), **more}
    keys = {re.sub(r"_(.)", lambda found: found[1].upper(), name): value for name, value in settings.items()}
    path = folder / "agent.json"  # which is YAML too
    path.write_text(json.dumps(keys))
    return str(path)
