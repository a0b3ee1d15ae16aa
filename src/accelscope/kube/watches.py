"""The watches that an agent has, each on objects of its own node only."""

from collections.abc import Callable
from typing import TypeVar

from accelscope.kube.client import Client
from accelscope.kube.listwatch import ListWatch
from accelscope.kube.node import KubeNode, decode_node
from accelscope.kube.paths import RESOURCE_SLICE_VERSIONS, one_node, pods_of, resource_slices_of
from accelscope.kube.pods import KubePod, decode_pod

T = TypeVar("T")


def watch_pods(client: Client, node: str, keep_labels: frozenset[str] = frozenset()) -> ListWatch[KubePod]:
    """By uid; pods that ended are left out."""
    return ListWatch(
        client,
        pods_of(node),
        decode=lambda document: decode_pod(document, keep_labels),
        key=lambda pod: pod.uid,
        keep=lambda pod: not pod.ended,
    )


def watch_node(client: Client, node: str, keep_labels: frozenset[str]) -> ListWatch[KubeNode]:
    """By name: one item, or none where there is no such node."""
    return ListWatch(
        client,
        one_node(node),
        decode=lambda document: decode_node(document, keep_labels),
        key=lambda found: found.name,
    )


def watch_resource_slices(
    client: Client,
    node: str,
    *,
    decode: Callable[[object], T],
    key: Callable[[T], str],
    versions: tuple[str, ...] = RESOURCE_SLICE_VERSIONS,
) -> ListWatch[T]:
    """In whichever of these versions the server has them; reason not_found where it has none."""
    return ListWatch(client, resource_slices_of(node, versions), decode=decode, key=key)
