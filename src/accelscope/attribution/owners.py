"""Finds the owner of a process from its location: a pod, or a Slurm job, container, systemd unit or user."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from accelscope.attribution.cgroup import ProcessLocation
from accelscope.attribution.processes import HostProcess
from accelscope.kube.objects import KubePod
from accelscope.model import Owner, OwnerKind, UnattributedReason

GONE = Owner(kind=OwnerKind.UNKNOWN, reason=UnattributedReason.PROCESS_GONE)


@dataclass(frozen=True, slots=True)
class PodTable:
    """The pods of this node at one instant, indexed by every name that a process or the kubelet uses."""

    has_source: bool = False
    up: bool = False  # the source is up: the table is current
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
    location = host.location
    pod = _pod(location, pods)
    if pod is not None:
        return Owner(
            kind=OwnerKind.POD,
            namespace=pod.namespace,
            pod=pod.name,
            container=_container(location, pod),
            pod_uid=pod.uid,
            container_id=location.container_id,
        )
    if location.pod_uid is not None:
        reason = UnattributedReason.POD_UNKNOWN if pods.has_source else UnattributedReason.NO_POD_SOURCE
        return Owner(
            kind=OwnerKind.POD,
            name=location.pod_uid,
            container=location.container_name,
            pod_uid=location.pod_uid,
            container_id=location.container_id,
            reason=reason,
        )
    kind, name = _owner_outside_kubernetes(location, host.user)
    return Owner(
        kind=kind, name=name, container_id=location.container_id, reason=UnattributedReason.NOT_IN_A_POD
    )


def _pod(location: ProcessLocation, pods: PodTable) -> KubePod | None:
    if location.pod_uid is not None:
        return pods.by_uid.get(location.pod_uid)
    if location.container_id is not None:
        return pods.by_container.get(location.container_id)
    return None


def _container(location: ProcessLocation, pod: KubePod) -> str | None:
    """By its id, or by the id of the pod's container in which it runs (docker in docker); without an id, by
    the name in the mounts. A pod with one container needs neither, because the kubelet may not have published
    the id yet."""
    for container in pod.containers:
        if container.id is not None and container.id in (location.container_id, *location.outer_ids):
            return container.name
    if location.container_name is not None:
        return location.container_name
    return pod.containers[0].name if len(pod.containers) == 1 else None


def _owner_outside_kubernetes(location: ProcessLocation, user: str) -> tuple[OwnerKind, str]:
    if location.slurm_job is not None:
        return OwnerKind.SLURM_JOB, location.slurm_job
    if location.container_id is not None:
        return OwnerKind.CONTAINER, location.container_id
    if location.unit is not None:
        return OwnerKind.SYSTEMD_UNIT, location.unit
    return OwnerKind.USER, user


class OwnerCache:
    """Owners by pid, until the processes or the pods change. Processes with the same location share an Owner:
    a node has thousands of processes, but few locations."""

    def __init__(self) -> None:
        self._pods = NO_PODS
        self._hosts: Mapping[int, HostProcess] = {}
        self._owners: dict[int, Owner] = {}

    def owners(self, hosts: Mapping[int, HostProcess], pods: PodTable) -> Mapping[int, Owner]:
        """By pid."""
        if hosts is self._hosts and pods is self._pods:
            return self._owners
        by_location: dict[tuple[ProcessLocation, str, UnattributedReason | None], Owner] = {}
        owners: dict[int, Owner] = {}
        for pid, host in hosts.items():
            location = host.location, host.user, host.problem
            owner = by_location.get(location)
            if owner is None:
                owner = by_location[location] = owner_of(host, pods)
            owners[pid] = owner
        self._hosts, self._pods, self._owners = hosts, pods, owners
        return owners
