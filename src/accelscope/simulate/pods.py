"""Pods of a node: who they are, what they hold, and when.

Workloads that name the same pod (namespace and name, or its uid) are containers of one; those that name the
same container too run in one container.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace

from accelscope.simulate import spec
from accelscope.simulate import spec as identity
from accelscope.simulate.section import DescriptionError
from accelscope.simulate.spec import CgroupKind, CgroupSpec, HamiShare, NodeSpec, PodOwner, PodQos

# --- pod names ------------------------------------------------------------
# Names and labels as Kubernetes and its controllers make them, derived from the seed.


_NAMESPACES = ("inference", "research", "team-nlp", "team-vision", "platform")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # what the ends of names are made of, lest they be words


def derived_namespace(seed: int, key: object) -> str:
    return _NAMESPACES[spec.whole(0, len(_NAMESPACES) - 1, seed, "namespace", key)]


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
            return f"{owner.name}-{spec.whole(0, 2, seed, 'ordinal', key)}"
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
    digest = spec.digest(seed, "letters", *path)
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:count])


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device, or a part of one, as the vendor's device plugin offers it."""

    resource: str
    id: str
    numa_node: int  # -1: none
    shareable: bool = False  # whether the plugin makes replicas of it
    hami_type: str = ""  # as HAMi's annotation calls such devices


@dataclass(frozen=True, slots=True)
class Grant:
    """One device id that a container was given; `share` is what HAMi lets it use."""

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
    begin: float  # simulated time; -inf: long ago
    until: float

    def runs_at(self, at: float) -> bool:
        return self.begin <= at < self.until

    def done_at(self, at: float) -> bool:
        """A Job's pod stays when it has ended; those of others go."""
        return at >= self.until and self.owner is not None and self.owner.kind == "Job"


@dataclass(frozen=True, slots=True)
class Home:
    """Where the processes of a workload live, as /proc tells it."""

    pod_uid: str
    container: str
    container_id: str


# Device, instance, and what only the vendor knows of the workload.
Plugin = Callable[[str, int, int | None, Hashable], PluginDevice]


@dataclass(frozen=True, slots=True)
class _Wish:
    """A workload that runs in a pod, or an entry of `pods`, with every name decided."""

    key: object  # what ids are derived from
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
    place: int  # among all of them

    def shares_container(self, other: "_Wish") -> bool:
        return (self.namespace, self.pod, self.container) == (other.namespace, other.pod, other.container)

    def comes_after(self, other: "_Wish") -> bool:
        """Whether the other, of an earlier place, is still there when this one is."""
        return other.place < self.place and other.begin < self.until and self.begin < other.until


@dataclass(slots=True)
class _Draft:
    uid: str
    wishes: list[_Wish] = field(default_factory=list)

    def containers(self) -> dict[str, list[_Wish]]:
        result: dict[str, list[_Wish]] = {}
        for wish in self.wishes:
            result.setdefault(wish.container, []).append(wish)
        return result


def check_pods(spec: NodeSpec) -> None:
    """Raises DescriptionError for pods that contradict each other."""
    _drafts(spec)


def homes(spec: NodeSpec) -> dict[int, Home]:
    """By the workload's place in the description; of those only that run in pods."""
    result: dict[int, Home] = {}
    for draft in _drafts(spec):
        for name, wishes in draft.containers().items():
            container = _container_id(spec, wishes)
            result |= {
                wish.workload: Home(draft.uid, name, container)
                for wish in wishes
                if wish.workload is not None
            }
    return result


def pods_of(spec: NodeSpec, plugin: Plugin) -> tuple[SimulatedPod, ...]:
    drafts = _drafts(spec)
    grants = _grants([wish for draft in drafts for wish in draft.wishes], plugin)
    return tuple(_pod(spec, draft, grants) for draft in drafts)


def _pod(spec: NodeSpec, draft: _Draft, grants: dict[str, tuple[Grant, ...]]) -> SimulatedPod:
    first = draft.wishes[0]
    labels = dict(usual_labels(spec.seed, first.owner, first.pod, first.container))
    for wish in draft.wishes:
        labels |= dict(wish.cgroup.pod.labels)
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
                id=_container_id(spec, wishes),
                grants=tuple(grant for wish in wishes for grant in grants[wish.where]),
            )
            for name, wishes in draft.containers().items()
        ),
        begin=min(wish.begin for wish in draft.wishes),
        until=max(wish.until for wish in draft.wishes),
    )


def _container_id(spec: NodeSpec, wishes: list[_Wish]) -> str:
    given = next((wish.cgroup.container_id for wish in wishes if wish.cgroup.container_id), None)
    return given or identity.hex_id(spec.seed, "container", wishes[0].key)


def _drafts(spec: NodeSpec) -> tuple[_Draft, ...]:
    drafts: dict[str, _Draft] = {}
    names: dict[tuple[str, str], str] = {}
    for wish in _wishes(spec):
        given, named = wish.cgroup.pod_uid, wish.cgroup.pod.name is not None
        if given in drafts and not named:
            wish = _joined(wish, drafts[given].wishes[0])  # noqa: PLW2901
        name = (wish.namespace, wish.pod)
        if name in names and not named and given is None:
            raise DescriptionError(f"{wish.where}: there is a pod {'/'.join(name)} already; give it a name")
        uid = given or names.get(name) or identity.uuid(spec.seed, "pod", wish.key)
        if names.setdefault(name, uid) != uid:
            raise DescriptionError(f"{wish.where}: {'/'.join(name)} had another uid; give both the same")
        draft = drafts.setdefault(uid, _Draft(uid))
        if draft.wishes and (draft.wishes[0].namespace, draft.wishes[0].pod) != name:
            raise DescriptionError(f"{wish.where}: the pod {uid} had another name; give both the same")
        draft.wishes.append(wish)
    return tuple(drafts.values())


def _joined(wish: _Wish, first: _Wish) -> _Wish:
    """A workload that names its pod by the uid alone takes the names that it has."""
    return replace(wish, namespace=first.namespace, pod=first.pod, owner=first.owner)


def _wishes(spec: NodeSpec) -> Iterator[_Wish]:
    for number, process in enumerate(spec.processes):
        if process.cgroup.kind is CgroupKind.POD:
            yield _wish(
                spec,
                key=number,
                place=number,
                workload=number,
                where=f"processes[{number}].cgroup",
                called=kubernetes_name(process.name),
                held=(process.vendor, process.devices, process.instance, process.own),
                cgroup=process.cgroup,
                lifetime=(process.begin, process.until),
            )
    for number, holder in enumerate(spec.holders):
        yield _wish(
            spec,
            key=f"idle-{number}",
            place=len(spec.processes) + number,
            workload=None,
            where=f"pods[{number}]",
            called="notebook",
            held=(holder.vendor, holder.devices, holder.instance, holder.own),
            cgroup=holder.cgroup,
            lifetime=(holder.begin, holder.until),
        )


def _wish(
    spec: NodeSpec,
    *,
    key: object,
    place: int,
    workload: int | None,
    where: str,
    called: str,
    held: tuple[str, tuple[int, ...], int | None, Hashable],
    cgroup: CgroupSpec,
    lifetime: tuple[float | None, float | None],
) -> _Wish:
    pod = cgroup.pod
    owner = pod.owner or (PodOwner("Deployment") if pod.name is None else None)
    if owner is not None:
        owner = PodOwner(owner.kind, owner.name or called)
    begin, until = lifetime
    vendor, devices, instance, own = held
    return _Wish(
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


def _grants(wishes: list[_Wish], plugin: Plugin) -> dict[str, tuple[Grant, ...]]:
    """What each is given, by its place in the description. A device that several hold at one time is cut into
    replicas where its plugin can; where it cannot, the first has it and the others run without."""
    held: dict[str, list[_Wish]] = defaultdict(list)
    asked = []
    for wish in wishes:
        devices = [plugin(wish.vendor, device, wish.instance, wish.own) for device in wish.devices]
        if wish.cgroup.pod.allocated:
            own = [device for device in devices if not any(map(wish.shares_container, held[device.id]))]
            asked.append((wish, own))
            for device in own:
                held[device.id].append(wish)
    cut = {device for device, holders in held.items() if _is_cut(holders)}
    given: Counter[str] = Counter()
    result: dict[str, tuple[Grant, ...]] = {wish.where: () for wish in wishes}
    for wish, devices in asked:
        pod, grants = wish.cgroup.pod, []
        for device in devices:
            first, ids = given[device.id], [device.id]
            if pod.hami is not None:
                ids = [f"{device.id}-{first}"]
            elif device.shareable and device.id in cut:
                ids = [f"{device.id}::{first + number}" for number in range(pod.replicas or 1)]
            elif not device.shareable and any(map(wish.comes_after, held[device.id])):
                continue
            given[device.id] += len(ids)
            grants += [Grant(pod.resource or device.resource, id_, device, pod.hami) for id_ in ids]
        result[wish.where] = tuple(grants)
    return result


def _is_cut(holders: list[_Wish]) -> bool:
    whole = [wish for wish in holders if wish.cgroup.pod.hami is None]
    return any(wish.cgroup.pod.replicas or any(map(wish.comes_after, whole)) for wish in whole)
