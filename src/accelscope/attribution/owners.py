"""From the place of a process to its owner: the pod by name, or who else."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from accelscope.attribution.cgroup import Place
from accelscope.attribution.processes import HostProcess
from accelscope.kube.objects import KubePod
from accelscope.model import Owner, OwnerKind, UnattributedReason

GONE = Owner(kind=OwnerKind.UNKNOWN, reason=UnattributedReason.PROCESS_GONE)


@dataclass(frozen=True, slots=True)
class PodTable:
    """The pods of this node at one instant, by all that a process or the kubelet names them by."""

    asked: bool = False  # there is a source of pods
    up: bool = False  # and what it told is current
    by_uid: Mapping[str, KubePod] = field(default_factory=dict)  # also by the hash of a static pod's file
    by_container: Mapping[str, KubePod] = field(default_factory=dict)
    by_name: Mapping[tuple[str, str], KubePod] = field(default_factory=dict)  # namespace, name

    @classmethod
    def of(cls, pods: Mapping[str, KubePod], *, up: bool) -> "PodTable":
        by_uid, by_container, by_name = {}, {}, {}
        for pod in pods.values():
            by_uid[pod.uid] = pod
            if pod.config_hash is not None:
                by_uid[pod.config_hash] = pod
            by_name[pod.namespace, pod.name] = pod
            for container in pod.containers:
                if container.id is not None:
                    by_container[container.id] = pod
        return cls(True, up, by_uid, by_container, by_name)


NO_PODS = PodTable()


def owner_of(host: HostProcess | None, pods: PodTable) -> Owner:
    if host is None:
        return GONE
    if host.problem is not None:
        return Owner(kind=OwnerKind.UNKNOWN, reason=host.problem)
    place = host.place
    pod = _pod(place, pods)
    if pod is not None:
        return Owner(
            kind=OwnerKind.POD,
            namespace=pod.namespace,
            pod=pod.name,
            container=_container(place, pod),
            pod_uid=pod.uid,
            container_id=place.container_id,
        )
    if place.pod_uid is not None:
        reason = UnattributedReason.POD_UNKNOWN if pods.asked else UnattributedReason.NO_POD_SOURCE
        return Owner(
            kind=OwnerKind.POD,
            name=place.pod_uid,
            container=place.container_name,
            pod_uid=place.pod_uid,
            container_id=place.container_id,
            reason=reason,
        )
    kind, name = _beside_kubernetes(place, host.user)
    return Owner(
        kind=kind, name=name, container_id=place.container_id, reason=UnattributedReason.NOT_IN_A_POD
    )


def _pod(place: Place, pods: PodTable) -> KubePod | None:
    if place.pod_uid is not None:
        return pods.by_uid.get(place.pod_uid)
    if place.container_id is not None:
        return pods.by_container.get(place.container_id)
    return None


def _container(place: Place, pod: KubePod) -> str | None:
    """By its id, or that of the container of the pod that it runs in (docker in docker); the name that the
    mounts tell where there is no id. A pod with a single container needs neither: the kubelet may not have
    published the id yet."""
    for container in pod.containers:
        if container.id is not None and container.id in (place.container_id, *place.outer_ids):
            return container.name
    if place.container_name is not None:
        return place.container_name
    return pod.containers[0].name if len(pod.containers) == 1 else None


def _beside_kubernetes(place: Place, user: str) -> tuple[OwnerKind, str]:
    if place.slurm_job is not None:
        return OwnerKind.SLURM_JOB, place.slurm_job
    if place.container_id is not None:
        return OwnerKind.CONTAINER, place.container_id
    if place.unit is not None:
        return OwnerKind.SYSTEMD_UNIT, place.unit
    return OwnerKind.USER, user


class OwnerBook:
    """Owners of processes that are known, kept until the processes or the pods change. Processes of one place
    have one Owner: a node has thousands of processes, and few places."""

    def __init__(self) -> None:
        self._pods = NO_PODS
        self._hosts: Mapping[int, HostProcess] = {}
        self._owners: dict[int, Owner] = {}

    def owners(self, hosts: Mapping[int, HostProcess], pods: PodTable) -> Mapping[int, Owner]:
        """By pid."""
        if hosts is self._hosts and pods is self._pods:
            return self._owners
        by_place: dict[tuple[Place, str, UnattributedReason | None], Owner] = {}
        owners: dict[int, Owner] = {}
        for pid, host in hosts.items():
            place = host.place, host.user, host.problem
            owner = by_place.get(place)
            if owner is None:
                owner = by_place[place] = owner_of(host, pods)
            owners[pid] = owner
        self._hosts, self._pods, self._owners = hosts, pods, owners
        return owners
