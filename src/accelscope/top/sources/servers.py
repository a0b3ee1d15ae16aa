"""What answers at a URL, for those who gave that of the other: an agent and a fleet have different paths."""

from collections.abc import Mapping

from accelscope.kube.errors import KubeError
from accelscope.top.sources.asking import Asker


def is_fleet(asker: Asker) -> bool:
    return _tells(asker, "/api/v1/version", "snapshot_schema")


def is_agent(asker: Asker) -> bool:
    return _tells(asker, "/snapshot", "schema_version")


def _tells(asker: Asker, path: str, key: str) -> bool:
    try:
        found = asker.get(path).document
    except KubeError:
        return False
    return isinstance(found, Mapping) and key in found
