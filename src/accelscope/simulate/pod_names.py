"""Names and labels as Kubernetes and its controllers make them, derived from the seed."""

import re
from collections.abc import Iterator

from accelscope.simulate import identity
from accelscope.simulate.spec import PodOwner

_NAMESPACES = ("inference", "research", "team-nlp", "team-vision", "platform")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # what the ends of names are made of, lest they be words


def derived_namespace(seed: int, key: object) -> str:
    return _NAMESPACES[identity.whole(0, len(_NAMESPACES) - 1, seed, "namespace", key)]


def kubernetes_name(name: str) -> str:
    """The nearest that is allowed."""
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "main"


def template_hash(seed: int, owner: PodOwner) -> str:
    """Of a Deployment's pods: the name of its ReplicaSet ends with it."""
    return _letters(10, seed, "template", owner.name)


def derived_pod_name(seed: int, owner: PodOwner, key: object) -> str:
    match owner.kind:
        case "Deployment":
            return f"{owner.name}-{template_hash(seed, owner)}-{_letters(5, seed, 'pod', key)}"
        case "StatefulSet":
            return f"{owner.name}-{identity.whole(0, 2, seed, 'ordinal', key)}"
        case _:
            return f"{owner.name}-{_letters(5, seed, 'pod', key)}"


def usual_labels(seed: int, owner: PodOwner | None, pod: str, container: str) -> Iterator[tuple[str, str]]:
    yield "app.kubernetes.io/name", container if owner is None else str(owner.name)
    if owner is None:
        return
    match owner.kind:
        case "Deployment":
            yield "pod-template-hash", template_hash(seed, owner)
        case "Job":
            yield "batch.kubernetes.io/job-name", str(owner.name)
            yield "job-name", str(owner.name)
        case "StatefulSet":
            yield "statefulset.kubernetes.io/pod-name", pod
        case _:
            return


def _letters(count: int, seed: int, *path: object) -> str:
    digest = identity.digest(seed, "letters", *path)
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:count])
