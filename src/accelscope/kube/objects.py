"""The fields of pods and Nodes that the agent needs, and patches of the Node object."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern

from accelscope.kube.client import Client
from accelscope.kube.endpoint import DecodeError, KubeError, Reason
from accelscope.kube.listwatch import node_path, with_query

_HASH = "kubernetes.io/config.hash"  # static pods run under this hash instead of their uid
_MIRROR = "kubernetes.io/config.mirror"  # the same hash, on the mirror pod in the API server
_TEMPLATE_HASH = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class PodContainer:
    name: str
    id: str | None = None  # without the scheme of the runtime; None: not started yet


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePod:
    uid: str
    namespace: str
    name: str
    phase: str | None = None
    config_hash: str | None = None
    owner_kind: str | None = None  # Deployment, StatefulSet, Job, Node (of a static pod) ...
    owner_name: str | None = None
    labels: tuple[tuple[str, str], ...] = ()  # the requested ones, sorted
    annotations: tuple[tuple[str, str], ...] = ()  # allocations of HAMi, sorted
    containers: tuple[PodContainer, ...] = ()  # containers, init containers, ephemeral containers
    container_count: int = 0  # number of containers among them
    init_count: int = 0  # number of init containers among them

    @property
    def ended(self) -> bool:
        """Its containers have ended and never start again. The object may still exist."""
        return self.phase in ("Succeeded", "Failed")


def decode_pod(document: object, keep_labels: frozenset[str]) -> KubePod:
    """Raises DecodeError if it is not a pod. Fields of a wrong type are left out."""
    pod = _mapping(document)
    metadata, spec, status = (_mapping(pod.get(part)) for part in ("metadata", "spec", "status"))
    uid, namespace, name = (_text(metadata.get(key)) for key in ("uid", "namespace", "name"))
    if uid is None or namespace is None or name is None:
        raise DecodeError("the pod has no uid, namespace or name")
    labels, annotations = _mapping(metadata.get("labels")), _mapping(metadata.get("annotations"))
    owner_kind, owner_name = _owner(metadata, labels)
    phase = _text(status.get("phase"))
    own = _containers(spec, status, "containers", "containerStatuses")
    init = _containers(spec, status, "initContainers", "initContainerStatuses")
    return KubePod(
        uid=uid,
        namespace=intern(namespace),
        name=name,
        phase=None if phase is None else intern(phase),
        config_hash=_text(annotations.get(_HASH)) or _text(annotations.get(_MIRROR)),
        owner_kind=owner_kind,
        owner_name=owner_name,
        labels=select_pairs(labels, keep_labels),
        annotations=select_pairs(annotations, [key for key in annotations if _is_allocation(key)]),
        containers=(
            *own,
            *init,
            *_containers(spec, status, "ephemeralContainers", "ephemeralContainerStatuses"),
        ),
        container_count=len(own),
        init_count=len(init),
    )


def select_pairs(
    texts: Mapping[str, object], keys: "frozenset[str] | list[str]"
) -> tuple[tuple[str, str], ...]:
    """The labels or annotations with these keys, sorted."""
    pairs = ((key, texts.get(key)) for key in sorted(keys))
    return tuple((intern(key), value) for key, value in pairs if isinstance(value, str) and _is_clean(value))


def _is_allocation(key: str) -> bool:
    if not key.startswith("hami.io/"):
        return False
    return key.endswith("-devices-allocated") or key == "hami.io/vgpu-mig-allocations"


def _owner(metadata: Mapping[str, object], labels: Mapping[str, object]) -> tuple[str | None, str | None]:
    for reference in _sequence(metadata.get("ownerReferences")):
        fields = _mapping(reference)
        kind, name = _text(fields.get("kind")), _text(fields.get("name"))
        if fields.get("controller") is not True or kind is None or name is None:
            continue
        suffix = _text(labels.get(_TEMPLATE_HASH))
        if kind == "ReplicaSet" and suffix is not None:
            # A ReplicaSet's name is that of its Deployment plus this hash, so no request is necessary.
            deployment = name.removesuffix(f"-{suffix}")
            if deployment and deployment != name:
                return "Deployment", deployment
        return intern(kind), name
    return None, None


def _containers(
    spec: Mapping[str, object], status: Mapping[str, object], where: str, statuses: str
) -> tuple[PodContainer, ...]:
    ids: dict[str, str] = {}
    for entry in _sequence(status.get(statuses)):
        fields = _mapping(entry)
        name, container_id = _text(fields.get("name")), _text(fields.get("containerID"))
        if name is not None and container_id is not None:
            bare = container_id.rpartition("://")[2]
            if bare:
                ids[name] = bare
    names = (_text(_mapping(entry).get("name")) for entry in _sequence(spec.get(where)))
    return tuple(PodContainer(intern(name), ids.get(name)) for name in names if name is not None)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value and _is_clean(value) else None


def _is_clean(text: str) -> bool:
    """False for text with surrogates, which JSON allows and UTF-8 cannot encode."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


@dataclass(frozen=True, slots=True)
class KubeNode:
    name: str
    labels: tuple[tuple[str, str], ...] = ()  # the requested ones, sorted


def decode_node(document: object, keep: frozenset[str]) -> KubeNode:
    """Raises DecodeError if it is not a Node."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        raise DecodeError("the Node has no name")
    labels = metadata.get("labels")
    return KubeNode(name, select_pairs(labels if isinstance(labels, dict) else {}, keep))


MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML

# A Node object contains all images of the machine, so only its metadata is requested.
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
    """None removes the annotation."""
    document = {"metadata": {"annotations": dict(annotations)}}
    return NodePatch(node, _path(node, dry_run=dry_run), _encode(document), MERGE_PATCH)


def labels_patch(node: str, labels: Mapping[str, str], *, manager: str, dry_run: bool = False) -> NodePatch:
    """Apply all labels of this manager. Labels that it applied earlier and that are missing now are
    removed."""
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "labels": dict(labels)},
    }
    path = _path(node, ("fieldManager", manager), ("force", "true"), dry_run=dry_run)
    return NodePatch(node, path, _encode(document), APPLY_PATCH)


def send(client: Client, patch: NodePatch) -> None:
    """Raises KubeError, also if the response is not that Node."""
    response = client.request(
        "PATCH", patch.path, body=patch.body, content_type=patch.content_type, accept=_METADATA_ONLY
    )
    try:
        document = json.loads(response.body)
    except (ValueError, RecursionError):
        document = None
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name") != patch.node:
        text = f"{client.endpoint.url}: the response to a patch of the Node {patch.node} is not that Node"
        raise KubeError(Reason.BAD_ANSWER, text)


def _path(node: str, *parameters: tuple[str, str], dry_run: bool) -> str:
    if dry_run:
        parameters = (*parameters, ("dryRun", "All"))
    return with_query(node_path(node), parameters)


def _encode(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
