"""Pods of a simulated node: their identity, allocated devices and lifetime.

Workloads that name the same pod (namespace and name, or its uid) are containers of one pod; those that also
name the same container run in one container.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace

from accelscope.simulate import spec
from accelscope.simulate import spec as identity
from accelscope.simulate.spec import (
    CgroupKind,
    CgroupSpec,
    DescriptionError,
    HamiShare,
    NodeSpec,
    PodOwner,
    PodQos,
)

_NAMESPACES = ("inference", "research", "team-nlp", "team-vision", "platform")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of generated suffixes in Kubernetes: no vowels, so no words


def derived_namespace(seed: int, key: object) -> str:
    return _NAMESPACES[spec.whole(0, len(_NAMESPACES) - 1, seed, "namespace", key)]


def kubernetes_name(name: str) -> str:
    """The nearest valid name."""
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "main"


def template_hash(seed: int, owner: PodOwner) -> str:
    """The suffix of the ReplicaSet of a Deployment, and of its pods."""
    return _letters(10, seed, "template", owner.name)


def derived_pod_name(seed: int, owner: PodOwner, key: object) -> str:
    match owner.kind:
        case "Deployment":
            return f"{owner.name}-{template_hash(seed, owner)}-{_letters(5, seed, 'pod', key)}"
        case "StatefulSet":
            return f"{owner.name}-{spec.whole(0, 2, seed, 'ordinal', key)}"
        case _:
            return f"{owner.name}-{_letters(5, seed, 'pod', key)}"


def default_labels(seed: int, owner: PodOwner | None, pod: str, container: str) -> Iterator[tuple[str, str]]:
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
    digest = spec.digest(seed, "letters", *path)
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:count])


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device, or a part of one, as the vendor's device plugin offers it."""

    resource: str
    id: str
    numa_node: int  # -1: none
    shareable: bool = False  # the plugin can make replicas of it
    hami_type: str = ""  # the type in HAMi's annotation


@dataclass(frozen=True, slots=True)
class Grant:
    """One device id that is allocated to a container; `share` is set by HAMi."""

    resource: str
    device_id: str
    device: PluginDevice
    share: HamiShare | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedContainer:
    name: str
    id: str
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPod:
    namespace: str
    name: str
    uid: str
    qos: PodQos
    labels: tuple[tuple[str, str], ...]
    owner: PodOwner | None  # with a name
    containers: tuple[SimulatedContainer, ...]
    begin: float  # simulated time; -inf: before the start
    until: float

    def runs_at(self, at: float) -> bool:
        return self.begin <= at < self.until

    def done_at(self, at: float) -> bool:
        """The pod of a Job stays when it has ended; those of other owners are deleted."""
        return at >= self.until and self.owner is not None and self.owner.kind == "Job"


@dataclass(frozen=True, slots=True)
class ContainerHome:
    """The pod and container of a workload's processes, as in /proc."""

    pod_uid: str
    container: str
    container_id: str


# Vendor, device, instance, and `ProcessSpec.own`.
Plugin = Callable[[str, int, int | None, Hashable], PluginDevice]


@dataclass(frozen=True, slots=True)
class _PodRequest:
    """A workload that runs in a pod, or an entry of `pods`, with all names resolved."""

    key: object  # for ids that are derived from the seed
    workload: int | None
    where: str
    vendor: str
    devices: tuple[int, ...]
    instance: int | None
    own: Hashable
    cgroup: CgroupSpec
    begin: float
    until: float
    namespace: str
    pod: str
    owner: PodOwner | None
    container: str
    place: int  # index among all requests

    def shares_container(self, other: "_PodRequest") -> bool:
        return (self.namespace, self.pod, self.container) == (other.namespace, other.pod, other.container)

    def comes_after(self, other: "_PodRequest") -> bool:
        """Whether the other comes before this one and runs at the same time."""
        return other.place < self.place and other.begin < self.until and self.begin < other.until


@dataclass(slots=True)
class _PodDraft:
    uid: str
    requests: list[_PodRequest] = field(default_factory=list)

    def containers(self) -> dict[str, list[_PodRequest]]:
        result: dict[str, list[_PodRequest]] = {}
        for request in self.requests:
            result.setdefault(request.container, []).append(request)
        return result


def check_pods(spec: NodeSpec) -> None:
    """Raises DescriptionError for pods that contradict each other."""
    _drafts(spec)


def homes(spec: NodeSpec) -> dict[int, ContainerHome]:
    """By the index of the workload in the description, for workloads in pods."""
    result: dict[int, ContainerHome] = {}
    for draft in _drafts(spec):
        for name, requests in draft.containers().items():
            container = _container_id(spec, requests)
            result |= {
                request.workload: ContainerHome(draft.uid, name, container)
                for request in requests
                if request.workload is not None
            }
    return result


def pods_of(spec: NodeSpec, plugin: Plugin) -> tuple[SimulatedPod, ...]:
    drafts = _drafts(spec)
    grants = _grants([request for draft in drafts for request in draft.requests], plugin)
    return tuple(_pod(spec, draft, grants) for draft in drafts)


def _pod(spec: NodeSpec, draft: _PodDraft, grants: dict[str, tuple[Grant, ...]]) -> SimulatedPod:
    first = draft.requests[0]
    labels = dict(default_labels(spec.seed, first.owner, first.pod, first.container))
    for request in draft.requests:
        labels |= dict(request.cgroup.pod.labels)
    return SimulatedPod(
        namespace=first.namespace,
        name=first.pod,
        uid=draft.uid,
        qos=first.cgroup.qos,
        labels=tuple(labels.items()),
        owner=first.owner,
        containers=tuple(
            SimulatedContainer(
                name=name,
                id=_container_id(spec, requests),
                grants=tuple(grant for request in requests for grant in grants[request.where]),
            )
            for name, requests in draft.containers().items()
        ),
        begin=min(request.begin for request in draft.requests),
        until=max(request.until for request in draft.requests),
    )


def _container_id(spec: NodeSpec, requests: list[_PodRequest]) -> str:
    given = next((request.cgroup.container_id for request in requests if request.cgroup.container_id), None)
    return given or identity.hex_id(spec.seed, "container", requests[0].key)


def _drafts(spec: NodeSpec) -> tuple[_PodDraft, ...]:
    drafts: dict[str, _PodDraft] = {}
    names: dict[tuple[str, str], str] = {}
    for request in _requests(spec):
        given, named = request.cgroup.pod_uid, request.cgroup.pod.name is not None
        if given in drafts and not named:
            request = _joined(request, drafts[given].requests[0])  # noqa: PLW2901
        name = (request.namespace, request.pod)
        if name in names and not named and given is None:
            raise DescriptionError(
                f"{request.where}: there is already a pod {'/'.join(name)}; give this one a name"
            )
        uid = given or names.get(name) or identity.uuid(spec.seed, "pod", request.key)
        if names.setdefault(name, uid) != uid:
            raise DescriptionError(
                f"{request.where}: {'/'.join(name)} has another uid above; use the same for both"
            )
        draft = drafts.setdefault(uid, _PodDraft(uid))
        if draft.requests and (draft.requests[0].namespace, draft.requests[0].pod) != name:
            raise DescriptionError(
                f"{request.where}: the pod {uid} has another name above; use the same for both"
            )
        draft.requests.append(request)
    return tuple(drafts.values())


def _joined(request: _PodRequest, first: _PodRequest) -> _PodRequest:
    """Takes over the names of the pod for a workload that names it only by its uid."""
    return replace(request, namespace=first.namespace, pod=first.pod, owner=first.owner)


def _requests(spec: NodeSpec) -> Iterator[_PodRequest]:
    for number, process in enumerate(spec.processes):
        if process.cgroup.kind is CgroupKind.POD:
            yield _request(
                spec,
                key=number,
                place=number,
                workload=number,
                where=f"processes[{number}].cgroup",
                called=kubernetes_name(process.name),
                allocated=(process.vendor, process.devices, process.instance, process.own),
                cgroup=process.cgroup,
                lifetime=(process.begin, process.until),
            )
    for number, holder in enumerate(spec.holders):
        yield _request(
            spec,
            key=f"idle-{number}",
            place=len(spec.processes) + number,
            workload=None,
            where=f"pods[{number}]",
            called="notebook",
            allocated=(holder.vendor, holder.devices, holder.instance, holder.own),
            cgroup=holder.cgroup,
            lifetime=(holder.begin, holder.until),
        )


def _request(
    spec: NodeSpec,
    *,
    key: object,
    place: int,
    workload: int | None,
    where: str,
    called: str,
    allocated: tuple[str, tuple[int, ...], int | None, Hashable],
    cgroup: CgroupSpec,
    lifetime: tuple[float | None, float | None],
) -> _PodRequest:
    pod = cgroup.pod
    owner = pod.owner or (PodOwner("Deployment") if pod.name is None else None)
    if owner is not None:
        owner = PodOwner(owner.kind, owner.name or called)
    begin, until = lifetime
    vendor, devices, instance, own = allocated
    return _PodRequest(
        key=key,
        workload=workload,
        where=where,
        vendor=vendor,
        devices=devices,
        instance=instance,
        own=own,
        cgroup=cgroup,
        begin=-math.inf if begin is None else begin,
        until=math.inf if until is None else until,
        namespace=pod.namespace or derived_namespace(spec.seed, pod.name or key),
        pod=pod.name or derived_pod_name(spec.seed, owner or PodOwner("Deployment", called), key),
        owner=owner,
        container=pod.container or called,
        place=place,
    )


def _grants(requests: list[_PodRequest], plugin: Plugin) -> dict[str, tuple[Grant, ...]]:
    """The grants by path in the description. A device of several containers at one time is divided into
    replicas if its plugin supports that; if not, the first container gets it and the others get nothing."""
    allocated: dict[str, list[_PodRequest]] = defaultdict(list)
    asked = []
    for request in requests:
        devices = [
            plugin(request.vendor, device, request.instance, request.own) for device in request.devices
        ]
        if request.cgroup.pod.allocated:
            own = [
                device for device in devices if not any(map(request.shares_container, allocated[device.id]))
            ]
            asked.append((request, own))
            for device in own:
                allocated[device.id].append(request)
    cut = {device for device, holders in allocated.items() if _is_cut(holders)}
    given: Counter[str] = Counter()
    result: dict[str, tuple[Grant, ...]] = {request.where: () for request in requests}
    for request, devices in asked:
        pod, grants = request.cgroup.pod, []
        for device in devices:
            first, ids = given[device.id], [device.id]
            if pod.hami is not None:
                ids = [f"{device.id}-{first}"]
            elif device.shareable and device.id in cut:
                ids = [f"{device.id}::{first + number}" for number in range(pod.replicas or 1)]
            elif not device.shareable and any(map(request.comes_after, allocated[device.id])):
                continue
            given[device.id] += len(ids)
            grants += [Grant(pod.resource or device.resource, id_, device, pod.hami) for id_ in ids]
        result[request.where] = tuple(grants)
    return result


def _is_cut(holders: list[_PodRequest]) -> bool:
    whole = [request for request in holders if request.cgroup.pod.hami is None]
    return any(request.cgroup.pod.replicas or any(map(request.comes_after, whole)) for request in whole)
