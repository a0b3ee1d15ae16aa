"""The keys of the clusters file by section, taken from the fleet's error message for an unknown key."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from accelscope.config import ConfigError
from accelscope.fleet.clusters import load_clusters

Place = tuple[str, ...]

SECTIONS: list[Place] = [
    (),
    ("capabilities",),
    ("kubeconfig",),
    ("server",),
    ("sources",),
    ("sources", "agents"),
    ("sources", "exec"),
    ("sources", "prometheus"),
]


def keys_of(place: Place, folder: Path) -> set[str]:
    section: dict[str, Any] = {"nonsense": 1}
    if place[-1:] in (("server",), ("prometheus",)):
        section["url"] = "https://x"
    entry = section
    for name in reversed(place):
        entry = {name: entry}
    file = folder / "clusters.yaml"
    file.write_text(yaml.safe_dump({"clusters": [{"id": "x", **entry}]}))
    with pytest.raises(ConfigError, match='unknown key "nonsense"; allowed: ') as caught:
        load_clusters(str(file))
    return set(str(caught.value).partition("allowed: ")[2].partition(";")[0].split(", "))
