"""The Node object as far as we need it: its labels."""

from dataclasses import dataclass

from accelscope.kube.errors import DecodeError
from accelscope.kube.pods import kept


@dataclass(frozen=True, slots=True)
class KubeNode:
    name: str
    labels: tuple[tuple[str, str], ...] = ()  # those that are asked for, sorted


def decode_node(document: object, keep: frozenset[str]) -> KubeNode:
    """Raises DecodeError for what is no node."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        raise DecodeError("a node without a name")
    labels = metadata.get("labels")
    return KubeNode(name, kept(labels if isinstance(labels, dict) else {}, keep))
