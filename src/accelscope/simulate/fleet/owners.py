"""Whose the processes of a simulated node are, and what its pods were given: as an agent finds out."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from accelscope.model import (
    Allocation,
    AllocationSource,
    HostUse,
    Owner,
    OwnerKind,
    Pod,
    Process,
    UnattributedReason,
)
from accelscope.simulate.fleet.names import Names
from accelscope.simulate.fleet.vendors.seen import Offer
from accelscope.simulate.pods import Grant, SimulatedContainer, SimulatedPod, homes
from accelscope.simulate.proc import docker_container, slurm_job
from accelscope.simulate.spec import CgroupKind, NodeSpec
from accelscope.simulate.workload import SimulatedProcess

_COMM_LENGTH = 15  # the kernel keeps no more of a name
_CORES = "_cores_"  # in ids of parts of a Furiosa card


class Owners:
    """Of the processes of one node."""

    def __init__(
        self,
        spec: NodeSpec,
        processes: Iterable[SimulatedProcess],
        pods: Iterable[SimulatedPod],
        names: Names,
    ) -> None:
        by_uid = {pod.uid: pod for pod in pods}
        places = homes(spec)
        self._known: dict[int, tuple[str, str, Owner]] = {}
        for process in processes:
            home = places.get(process.workload)
            if home is None:
                owner = _beside_kubernetes(spec.seed, process, names)
            else:
                pod = by_uid[home.pod_uid]
                owner = Owner(
                    kind=OwnerKind.POD,
                    namespace=pod.namespace,
                    pod=names.pod(pod),
                    container=home.container,
                    pod_uid=names.id(pod.uid),
                    container_id=names.id(home.container_id),
                )
            self._known[process.pid] = process.spec.name[:_COMM_LENGTH], user_name(process), owner

    def described(self, processes: Iterable[Process], uses: Mapping[int, HostUse]) -> tuple[Process, ...]:
        """`uses` are what each takes of the node, by pid."""
        return tuple(process.described(*self._known[process.pid], uses[process.pid]) for process in processes)

    def pods_of(self, process_name: str) -> Iterator[str]:
        """Uids of the pods with a process of that name."""
        for name, _, owner in self._known.values():
            if owner.pod_uid is not None and name == process_name[:_COMM_LENGTH]:
                yield owner.pod_uid


def user_name(process: SimulatedProcess) -> str:
    """Simulated nodes have one user with a name."""
    return "root" if process.spec.uid == 0 else str(process.spec.uid)


def _beside_kubernetes(seed: int, process: SimulatedProcess, names: Names) -> Owner:
    cgroup, reason = process.spec.cgroup, UnattributedReason.NOT_IN_A_POD
    match cgroup.kind:
        case CgroupKind.SLURM:
            return Owner(kind=OwnerKind.SLURM_JOB, name=str(slurm_job(seed, process)), reason=reason)
        case CgroupKind.DOCKER:
            container = names.id(docker_container(seed, process))
            return Owner(kind=OwnerKind.CONTAINER, name=container, container_id=container, reason=reason)
        case _:
            if cgroup.unit is not None:
                return Owner(kind=OwnerKind.SYSTEMD_UNIT, name=cgroup.unit, reason=reason)
            return Owner(kind=OwnerKind.USER, name=user_name(process), reason=reason)


def pod_of(pod: SimulatedPod, names: Names) -> Pod:
    return Pod(
        uid=names.id(pod.uid),
        namespace=pod.namespace,
        name=names.pod(pod),
        owner_kind=None if pod.owner is None else pod.owner.kind,
        owner_name=None if pod.owner is None else pod.owner.name,
    )


def allocations(
    pods: Iterable[SimulatedPod], offers: Mapping[str, Offer], names: Names
) -> tuple[Allocation, ...]:
    """What the kubelet tells, then what schedulers wrote on the pods."""
    given = [
        _allocation(pod, container, grant, offers, names) for pod in pods for container, grant in _grants(pod)
    ]
    return (
        *(one for one in given if one.source is AllocationSource.KUBELET),
        *(one for one in given if one.source is AllocationSource.ANNOTATION),
    )


def _grants(pod: SimulatedPod) -> Iterator[tuple[SimulatedContainer, Grant]]:
    for container in pod.containers:
        for grant in container.grants:
            yield container, grant


def _allocation(
    pod: SimulatedPod,
    container: SimulatedContainer,
    grant: Grant,
    offers: Mapping[str, Offer],
    names: Names,
) -> Allocation:
    known = grant.device.id.partition(_CORES)[0]
    offer = offers[known]
    allocation = Allocation(
        namespace=pod.namespace,
        pod=names.pod(pod),
        container=container.name,
        source=AllocationSource.KUBELET,
        device_id=offer.name + grant.device_id.removeprefix(known),
        pod_uid=names.id(pod.uid),
        resource=grant.resource,
        device=offer.device,
        partition=offer.partition,
    )
    if grant.share is None:
        return allocation
    return replace(
        allocation,
        source=AllocationSource.ANNOTATION,
        device_id=offer.name,
        memory_bytes=grant.share.memory_bytes,
        compute_ratio=grant.share.cores_percent / 100,
    )
