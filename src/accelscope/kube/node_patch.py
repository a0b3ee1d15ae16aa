"""Changes of the Node object: annotations by merge patch, labels by server-side apply.

Each names only keys of ours. A merge patch leaves every other key alone; server-side apply takes away what
the same field manager applied before and does not apply any more, and nothing of others.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from accelscope.kube.client import Client
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.paths import node_path, with_query

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML

# A Node lists every image on the machine: of the answer only the metadata is wanted, where the server can.
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True, slots=True)
class NodePatch:
    node: str
    path: str
    body: bytes
    content_type: str


def annotations_patch(
    node: str, annotations: Mapping[str, str | None], *, dry_run: bool = False
) -> NodePatch:
    """None takes the annotation away."""
    document = {"metadata": {"annotations": dict(annotations)}}
    return NodePatch(node, _path(node, dry_run=dry_run), _written(document), MERGE_PATCH)


def labels_patch(node: str, labels: Mapping[str, str], *, manager: str, dry_run: bool = False) -> NodePatch:
    """All labels that this manager wants the Node to have; those that it had applied beside are removed."""
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "labels": dict(labels)},
    }
    path = _path(node, ("fieldManager", manager), ("force", "true"), dry_run=dry_run)
    return NodePatch(node, path, _written(document), APPLY_PATCH)


def send(client: Client, patch: NodePatch) -> None:
    """Raises KubeError, also if what answers does not answer with that Node."""
    answer = client.request(
        "PATCH", patch.path, body=patch.body, content_type=patch.content_type, accept=_METADATA_ONLY
    )
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        document = None
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name") != patch.node:
        text = f"{client.endpoint.url}: the answer to a change of the Node {patch.node} is not that Node"
        raise KubeError(Reason.BAD_ANSWER, text)


def _path(node: str, *parameters: tuple[str, str], dry_run: bool) -> str:
    if dry_run:
        parameters = (*parameters, ("dryRun", "All"))
    return with_query(node_path(node), parameters)


def _written(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
