"""The simulated node that the real agent runs on."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from accelscope.simulate import SimulatedNode, load_node
from tools.demo.clusters import LAB_NODE
from tools.demo.scenes import SETTINGS_CHANGE
from tools.demo.story import PlayedScene

_USUAL, _OFTEN = "2s", "1s"
# Whose the simulated processes are; on the machine of whoever runs the demo the numbers are somebody else's.
_USERS = {0: "root", 1000: "anna", 1001: "mara", 1002: "lukas"}


class Lab:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings_file = folder / "demo-agent.yaml"
        self._passwd_file = folder / "passwd"

    def describe(self, node: str, file: Path) -> None:
        """Writes the description of the chosen node, with its name in the cluster."""
        described = yaml.safe_load(load_node(node).text)
        file.write_text(yaml.safe_dump({**described, "node": LAB_NODE}, sort_keys=False))

    def write_settings(self, *, often: bool = False) -> None:
        """What `accelscope simulate run` found, with how often to read; the agent re-reads the file."""
        found = (self.folder / "agent.yaml").read_text()
        if not self._passwd_file.exists():
            self._passwd_file.write_text("".join(f"{name}:x:{uid}:::::\n" for uid, name in _USERS.items()))
        scratch = self.settings_file.with_suffix(".new")
        scratch.write_text(
            f"{found}passwdFile: {self._passwd_file}\ncollectionInterval: {_OFTEN if often else _USUAL}\n"
        )
        scratch.replace(self.settings_file)

    def show(self, scenes: Iterable[PlayedScene]) -> None:
        """Replaces the current faults."""
        node = SimulatedNode.open(self.folder)
        vendor = next(iter(node.spec.vendors))
        scenes = tuple(scenes)
        node.write_faults(
            node.checked_fault({"kind": h.scene.kind, "vendor": vendor, "device": h.device})
            for h in scenes
            if h.scene.kind != SETTINGS_CHANGE
        )
        self.write_settings(often=any(h.scene.kind == SETTINGS_CHANGE for h in scenes))
