"""Pods, allocations, use per pod, and use that cannot be attributed.

Three kinds of number, never mixed: **measured** (from processes), **allocated** (from the kubelet) and
**apportioned** (from shares, or the energy of a device split by use).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, TypeVar

from accelscope.model.device import Device, ReasonCount


class OwnerKind(StrEnum):
    POD = "pod"
    CONTAINER = "container"  # of docker, podman or containerd, not in a pod
    SLURM_JOB = "slurm_job"
    SYSTEMD_UNIT = "systemd_unit"
    USER = "user"
    NONE = "none"  # no process accounts for it: use by the driver, or by a process that the driver hides
    UNKNOWN = "unknown"


class UnattributedReason(StrEnum):
    """Why something is not attributed to a pod."""

    NOT_IN_A_POD = "not_in_a_pod"  # it runs outside Kubernetes; the owner has its name
    PROCESS_GONE = "process_gone"  # not in /proc: it has ended, or a pid namespace hides it
    NO_PERMISSION = "no_permission"  # its cgroup cannot be read
    CGROUP_HIDDEN = "cgroup_hidden"  # another cgroup namespace, and its mounts do not name the pod
    POD_UNKNOWN = "pod_unknown"  # the pod source does not report the pod: not yet, or no longer
    NO_POD_SOURCE = "no_pod_source"  # a pod, but no source for its name is configured
    NO_PROCESS = "no_process"  # memory in use that belongs to no listed process


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Owner of a process."""

    kind: OwnerKind
    """Kind of owner. `none`: no process accounts for it; `unknown`: it could not be determined."""
    name: str | None = None
    """Id of the container, or name of the job, unit or user; for a pod whose name is unknown, its uid."""
    namespace: str | None = None
    """Namespace of the pod. Absent: the pod is unknown, or there is none."""
    pod: str | None = None
    """Name of the pod. Absent: the pod is unknown, or there is none."""
    container: str | None = None
    """Name of the container. Absent: the pod is unknown, or there is none."""
    pod_uid: str | None = None
    """Uid of the pod. Absent: not in a pod."""
    container_id: str | None = None
    """Id of the container. Absent: not in a container."""
    reason: UnattributedReason | None = None
    """Why it is not attributed to a pod. Absent: it is attributed to a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of this node that uses a device or has one allocated."""

    uid: str
    """Uid of the pod."""
    namespace: str
    """Namespace of the pod."""
    name: str
    """Name of the pod."""
    owner_kind: str | None = None
    """Kind of the pod's owner: `Deployment`, `StatefulSet`, `Job` … Absent: it has no owner."""
    owner_name: str | None = None
    """Name of the pod's owner. Absent: it has no owner."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the pod that `POD_LABELS` lists."""


class AllocationSource(StrEnum):
    KUBELET = "kubelet"  # by a device plugin, from pod-resources
    CLAIM = "claim"  # dynamic resource allocation, from pod-resources
    ANNOTATION = "annotation"  # a scheduler that shares devices wrote it on the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One device id allocated to a container."""

    namespace: str
    """Namespace of the pod."""
    pod: str
    """Name of the pod."""
    container: str
    """Name of the container."""
    source: AllocationSource
    """Source of the allocation: `kubelet`, a device plugin; `claim`, dynamic resource allocation;
    `annotation`, a scheduler that shares devices."""
    device_id: str
    """Device id as the device plugin reports it; for a claim `driver/pool/device`."""
    pod_uid: str | None = None
    """Uid of the pod. Absent: no pod source reports it."""
    resource: str | None = None
    """Resource name: `nvidia.com/gpu`. Absent: a claim, or not reported."""
    claim: str | None = None
    """Namespace and name of the claim. Absent: not a claim."""
    device: str | None = None
    """`id` of the device. Absent: it matches no device of this node."""
    partition: str | None = None
    """`id` of the partition. Absent: not in a partition."""
    memory_bytes: int | None = None
    """Memory that the container may use."""
    compute_ratio: float | None = None
    """Fraction of the device's compute capacity that the container may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """Use of one device or partition by one container of a pod. Values are [measured, allocated or
    apportioned](concepts.md#measured-allocated-apportioned)."""

    device: str
    """`id` of the device."""
    namespace: str
    """Namespace of the pod."""
    pod: str
    """Name of the pod."""
    container: str
    """Name of the container."""
    partition: str | None = None
    """`id` of the partition. Absent: not in a partition."""
    pod_uid: str | None = None
    """Uid of the pod. Absent: no pod source reports it."""
    # measured, from its processes; None: the driver does not report it
    processes: int = 0
    """Measured: number of the container's processes on the device."""
    memory_used_bytes: int | None = None
    """Measured: device memory used by the container's processes."""
    utilization_ratio: float | None = None
    """Measured: sum over the container's processes of the fraction of the sample period they ran."""
    memory_utilization_ratio: float | None = None
    """Measured: sum over the container's processes of the fraction of the sample period they accessed device
    memory."""
    encoder_utilization_ratio: float | None = None
    """Measured: sum over the container's processes of their utilisation of the video encoders."""
    decoder_utilization_ratio: float | None = None
    """Measured: sum over the container's processes of their utilisation of the video decoders."""
    # allocated
    allocated: int = 0
    """Allocated: number of device ids of this device (more than one for a shared device) allocated to the
    container."""
    resources: tuple[str, ...] = ()
    """Allocated: resource names of these device ids."""
    idle_seconds: float | None = None
    """Allocated: time since the container last used the device allocated to it. Absent: nothing is allocated
    to it, or its use is unknown."""
    # apportioned
    memory_share_bytes: int | None = None
    """Apportioned: the container's share of the memory of a shared device. Absent: the device is not
    shared."""
    compute_share_ratio: float | None = None
    """Apportioned: the container's share of the compute capacity of a shared device. Absent: the device is
    not shared."""
    device_share_ratio: float | None = None
    """Apportioned: fraction of the device allocated to the container; the fractions of one device add up to
    at most 1. [Idle](concepts.md#idle) devices are sums of it. Absent: nothing is allocated to it."""
    energy_joules: float | None = None
    """Apportioned: energy of the device, split among its pods by use. Absent: the utilisation of the device
    and its processes is unknown, as with MIG, or the device reports neither energy nor power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattributed:
    """Use of one device by one owner that is not attributed to a pod."""

    device: str
    """`id` of the device."""
    kind: OwnerKind
    """Kind of owner."""
    reason: UnattributedReason
    """Why it is not attributed to a pod."""
    name: str | None = None
    """Name of the owner. Absent: for `none` and `unknown`."""
    processes: int = 0
    """Measured: number of the owner's processes on the device."""
    memory_used_bytes: int | None = None
    """Measured: device memory in use by the owner."""
    utilization_ratio: float | None = None
    """Measured: utilisation by the owner's processes. Absent: the driver does not report it by process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBalance:
    """Differences between the total of a device and the sum over its pods: memory of pods + unattributed -
    surplus = used; energy of pods + idle energy = energy of the device."""

    device: str
    """`id` of the device."""
    surplus_memory_bytes: int | None = None
    """Measured: by how much the memory of all processes exceeds the used memory that the device reports."""
    idle_energy_joules: float | None = None
    """Apportioned: energy of the device that is not attributed to a pod."""
    share_ratio: float | None = None
    """Apportioned: number of shares that the device is divided into by a setting. Absent: no setting divides
    it."""
    jobs: tuple[str, ...] = ()
    """Allocated: batch jobs that the job-mapping folder assigns to the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionSourceState:
    """One source of attribution. [Which pod](attribution.md#sources) lists them."""

    source: str
    """Name of the source: `processes`, `pods`, `pod-resources` …"""
    up: bool
    """The last request succeeded."""
    detail: str | None = None
    """Endpoint that is read: `api-server`, `kubelet`, `v1`, a path."""
    reason: str | None = None
    """Why it is not up, as a keyword. Absent: while it is up."""
    error: str | None = None
    """Text of the last error; it stays after the source has recovered. Absent: no error yet."""
    last_success: float | None = None
    """Time of the last successful request. Absent: before the first success."""
    errors: tuple[ReasonCount, ...] = ()
    """Failed requests, by reason."""


# --- process ------------------------------------------------------------
# A process that uses a device.


class ProcessType(StrEnum):
    COMPUTE = "compute"
    GRAPHICS = "graphics"
    BOTH = "both"


class HostUse(NamedTuple):
    """Use of the node's CPU and memory by a process; fields as in `Process`."""

    cpu_ratio: float | None = None
    resident_memory_bytes: int | None = None
    started_at: float | None = None


_NO_HOST_USE = HostUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process on one device. A process on two devices has two entries. Arguments are never read."""

    pid: int
    """Process id in the node's pid namespace."""
    device: str | None = None
    """`id` of the device."""
    device_index: int | None = None
    """`index` of the device."""
    partition: str | None = None
    """`id` of the partition. Absent: not in a partition."""
    gpu_instance_id: int | None = None
    """MIG: id of the GPU instance. Absent: not in a MIG instance."""
    compute_instance_id: int | None = None
    """MIG: id of the compute instance. Absent: not in a MIG instance."""
    name: str | None = None
    """Name of the program."""
    user: str | None = None
    """User of the process: a name, or a number if it has no name."""
    type: ProcessType | None = None
    """Kind of work on the device."""
    mps: bool | None = None
    """The process is a client of NVIDIA's Multi-Process Service."""
    memory_bytes: int | None = None
    """Device memory used by the process."""
    utilization_ratio: float | None = None
    """Fraction of the last sample period during which the process was running on the device."""
    memory_utilization_ratio: float | None = None
    """Fraction of the last sample period during which the process accessed device memory."""
    encoder_utilization_ratio: float | None = None
    """Utilisation of the video encoders by the process."""
    decoder_utilization_ratio: float | None = None
    """Utilisation of the video decoders by the process."""
    cpu_ratio: float | None = None
    """CPU time of the whole process on the node, the same in all of its entries; 1 is one CPU. Absent: not
    reported, or the first collection with this process."""
    resident_memory_bytes: int | None = None
    """Resident memory of the whole process on the node."""
    started_at: float | None = None
    """Start time of the process, by the node's clock."""
    owner: Owner | None = None
    """Owner of the process. Absent: attribution is off."""
    cores: tuple[int, ...] = ()
    """Numbers of the device's cores that the process has opened."""

    def described(
        self, name: str | None, user: str | None, owner: Owner, use: HostUse = _NO_HOST_USE
    ) -> "Process":
        """A copy with these properties, which the driver does not report."""
        return replace(self, name=name, user=user, owner=owner, **use._asdict())


# --- device share ------------------------------------------------------------
# The fraction of a device that is allocated to a container, and when it counts as idle.
#
# The shares of one device never add up to more than 1, so a sum of shares is a number of devices.


# A share is idle after this time without use. The names of the recording rules contain it (`idle_1h`).
IDLE_SECONDS = 3600.0

Key = TypeVar("Key")


def device_shares(
    device: Device, holders: Mapping[Key, Sequence[Allocation]], share_ratio: float | None = None
) -> dict[Key, float]:
    """The share of each holder. `share_ratio` is the number of shares that a setting divides the
    device into.

    The share of an allocation is the fraction that the scheduler granted (of compute, else of memory), else
    one of `share_ratio` shares, else an equal part for each allocation. In a partition, it is that fraction
    of the partition. Grants that exceed the device are scaled down.
    """
    allocations = [allocation for listed in holders.values() for allocation in listed]
    per_partition = Counter(allocation.partition for allocation in allocations)

    def share(allocation: Allocation) -> float:
        granted = _granted(device, allocation)
        if granted is None:
            count = per_partition[allocation.partition]
            granted = 1 / count if share_ratio is None else 1 / share_ratio
        return min(1.0, granted) * _fraction(device, allocation.partition)

    return _at_most_whole({key: sum(map(share, listed)) for key, listed in holders.items()})


def usage_shares(usages: Sequence[PodUsage]) -> list[float]:
    """The share of each usage; all must be of one device. Without `device_share_ratio` (agents before schema
    1.4) it is an equal part, and without an allocation it is 0."""
    holders = sum(usage.allocated > 0 for usage in usages)
    shares = {
        position: 1 / holders if usage.device_share_ratio is None else max(0.0, usage.device_share_ratio)
        for position, usage in enumerate(usages)
        if usage.allocated > 0
    }
    shares = _at_most_whole(shares)
    return [shares.get(position, 0.0) for position in range(len(usages))]


def is_idle(idle_seconds: float | None) -> bool:
    return idle_seconds is not None and idle_seconds >= IDLE_SECONDS


def _granted(device: Device, allocation: Allocation) -> float | None:
    if allocation.compute_ratio is not None:
        return allocation.compute_ratio
    total = device.memory_total_bytes
    if allocation.partition is not None:
        memory = {partition.id: partition.memory_total_bytes for partition in device.partitions}
        total = memory.get(allocation.partition)
    if allocation.memory_bytes is None or not total:
        return None
    return allocation.memory_bytes / total


def _fraction(device: Device, partition: str | None) -> float:
    """The partition as a fraction of the device: by memory, or an equal part if partitions share memory."""
    if partition is None or not device.partitions:
        return 1.0
    memory = {each.id: each.memory_total_bytes for each in device.partitions}
    own, total = memory.get(partition), device.memory_total_bytes
    if own is None or not total or None in memory.values():
        return 1 / len(device.partitions)
    return min(1.0, own / total)


def _at_most_whole(shares: dict[Key, float]) -> dict[Key, float]:
    total = sum(shares.values())
    return shares if total <= 1 else {key: share / total for key, share in shares.items()}
