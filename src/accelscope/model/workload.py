"""Whose a device is: pods, what they hold, what they use, and what nobody can be named for.

Three kinds of number, never mixed: **measured** (from processes), **allocated** (from the kubelet) and
**apportioned** (from shares, or the energy of a device split by use).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, TypeVar

from accelscope.model.device import Device
from accelscope.model.health import Counted


class OwnerKind(StrEnum):
    POD = "pod"
    CONTAINER = "container"  # of docker, podman or containerd, in no pod
    SLURM_JOB = "slurm_job"
    SYSTEMD_UNIT = "systemd_unit"
    USER = "user"
    NONE = "none"  # what no process accounts for: the driver's own, or a process that the driver hides
    UNKNOWN = "unknown"


class UnattributedReason(StrEnum):
    """Why something is not put down to a pod. Each means a different thing to do, or that all is well."""

    NOT_IN_A_POD = "not_in_a_pod"  # it runs beside Kubernetes: its owner says whose it is
    PROCESS_GONE = "process_gone"  # /proc does not have it: ended since, or hidden by a pid namespace
    NO_PERMISSION = "no_permission"  # its cgroup may not be read
    CGROUP_HIDDEN = "cgroup_hidden"  # another cgroup namespace, and its mounts do not tell either
    POD_UNKNOWN = "pod_unknown"  # a pod of which the source of pods has not heard (yet, or any more)
    NO_POD_SOURCE = "no_pod_source"  # a pod, but nobody can be asked for its name
    NO_PROCESS = "no_process"  # memory in use that no process is shown with


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a process is."""

    kind: OwnerKind
    """What the owner is. `none`: no process accounts for it; `unknown`: nothing could be found out."""
    name: str | None = None
    """Within the kind: the container's id, the job, the unit, the user; of a pod whose name is not known, its
    uid."""
    namespace: str | None = None
    """Namespace of the pod. Absent: no pod is known."""
    pod: str | None = None
    """Name of the pod. Absent: no pod is known."""
    container: str | None = None
    """Name of the container. Absent: no pod is known."""
    pod_uid: str | None = None
    """Uid of the pod. Absent: not in a pod."""
    container_id: str | None = None
    """Id of the container. Absent: not in a container."""
    reason: UnattributedReason | None = None
    """Why it is not attributed to a pod. Absent: it is put down to a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of this node that holds or uses a device."""

    uid: str
    """Its uid."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    owner_kind: str | None = None
    """What it belongs to: `Deployment`, `StatefulSet`, `Job` … Absent: it belongs to nothing."""
    owner_name: str | None = None
    """Name of what it belongs to. Absent: it belongs to nothing."""
    labels: tuple[tuple[str, str], ...] = ()
    """Its labels, those that `POD_LABELS` names."""


class AllocationSource(StrEnum):
    KUBELET = "kubelet"  # a device plugin's, from pod-resources
    CLAIM = "claim"  # dynamic resource allocation, from pod-resources
    ANNOTATION = "annotation"  # a scheduler that shares devices wrote it on the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One device id that a container was given."""

    namespace: str
    """Namespace of the pod."""
    pod: str
    """Name of the pod."""
    container: str
    """Name of the container."""
    source: AllocationSource
    """Who says so: `kubelet`, a device plugin's; `claim`, dynamic resource allocation; `annotation`, a
    scheduler that shares devices."""
    device_id: str
    """As the plugin names it; of a claim `driver/pool/device`."""
    pod_uid: str | None = None
    """Uid of the pod. Absent: while no source of pods tells it."""
    resource: str | None = None
    """What was asked for: `nvidia.com/gpu`. Absent: of a claim, or not told."""
    claim: str | None = None
    """Namespace and name of the claim. Absent: not of a claim."""
    device: str | None = None
    """`id` of the device. Absent: no device of this node is known by that id."""
    partition: str | None = None
    """`id` of the partition. Absent: not in a partition."""
    memory_bytes: int | None = None
    """Memory that the share may use."""
    compute_ratio: float | None = None
    """Part of the device's computing that the share may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """One container of a pod on one device or partition. Numbers are [measured, allocated or
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
    """Uid of the pod. Absent: while no source of pods tells it."""
    # measured, from its processes; None: the driver does not tell
    processes: int = 0
    """Measured: processes of the container on the device."""
    memory_used_bytes: int | None = None
    """Measured: device memory that its processes hold."""
    utilization_ratio: float | None = None
    """Measured: shares of the period in which its processes ran, added up."""
    memory_utilization_ratio: float | None = None
    """Measured: shares of the period in which its processes read or wrote device memory, added up."""
    encoder_utilization_ratio: float | None = None
    """Measured: its processes' use of the video encoders, added up."""
    decoder_utilization_ratio: float | None = None
    """Measured: its processes' use of the video decoders, added up."""
    # allocated
    allocated: int = 0
    """Allocated: ids of the device that it holds. 0: it only uses it."""
    resources: tuple[str, ...] = ()
    """Allocated: resource names under which it holds them."""
    idle_seconds: float | None = None
    """Allocated: time since it last did anything with what it holds. Absent: it holds nothing, or nobody can
    tell."""
    # apportioned
    memory_share_bytes: int | None = None
    """Apportioned: its share of the memory of a device that is cut into shares. Absent: the device is not
    shared."""
    compute_share_ratio: float | None = None
    """Apportioned: its share of the device's computing. Absent: the device is not shared."""
    device_share_ratio: float | None = None
    """Apportioned: fraction of the device that it holds. Those of one device add up to 1 at most.
    [Idle](concepts.md#idle) devices are sums of it. Absent: it holds nothing, it only uses the device."""
    energy_joules: float | None = None
    """Apportioned: energy of the device, split by use among the pods on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattributed:
    """Use of one device that is attributed to no pod, by owner."""

    device: str
    """`id` of the device."""
    kind: OwnerKind
    """What the owner is."""
    reason: UnattributedReason
    """Why it is not attributed to a pod."""
    name: str | None = None
    """Which owner, within the kind. Absent: of `none` and `unknown`."""
    processes: int = 0
    """Processes of the owner."""
    memory_used_bytes: int | None = None
    """Device memory that the owner's processes hold."""
    utilization_ratio: float | None = None
    """The use of the owner's processes together. Absent: the driver does not tell it by process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBalance:
    """What makes the parts of one device add up: memory of pods + unattributed - surplus = used; energy of
    pods + idle energy = energy of the device."""

    device: str
    """`id` of the device."""
    surplus_memory_bytes: int | None = None
    """By how much the processes' memory together exceeds what is used."""
    idle_energy_joules: float | None = None
    """Energy that no pod's use accounts for."""
    share_ratio: float | None = None
    """Into how many shares the device is cut, by setting (2: each has half of it). Absent: no setting cuts
    it."""
    jobs: tuple[str, ...] = ()
    """Batch jobs that the job-mapping folder names for the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionSourceState:
    """One source of attribution. [Which pod](attribution.md#sources) lists them."""

    source: str
    """`processes`, `pods`, `pod-resources` …"""
    up: bool
    """It answered when it was last asked."""
    detail: str | None = None
    """What exactly is asked: `api-server`, `kubelet`, `v1`, a path."""
    reason: str | None = None
    """A short word for why it is not up. Absent: while it is up."""
    error: str | None = None
    """The last error, for people; kept after the source is well again. Absent: no error yet."""
    last_success: float | None = None
    """When it last answered. Absent: before the first success."""
    errors: tuple[Counted, ...] = ()
    """Times that it failed, by reason."""


# --- process ------------------------------------------------------------
# A process that uses a device.


class ProcessType(StrEnum):
    COMPUTE = "compute"
    GRAPHICS = "graphics"
    BOTH = "both"


class HostUse(NamedTuple):
    """What a process takes of the node itself, whatever it does on devices; fields as of `Process`."""

    cpu_ratio: float | None = None
    resident_memory_bytes: int | None = None
    started_at: float | None = None


_NOT_TOLD = HostUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process on one device: one that uses two devices is there twice. Arguments are never read."""

    pid: int
    """Process id, as the node counts."""
    device: str | None = None
    """`id` of the device."""
    device_index: int | None = None
    """`index` of the device."""
    partition: str | None = None
    """`id` of the partition. Absent: not in a partition."""
    gpu_instance_id: int | None = None
    """MIG: the GPU instance. Absent: not of MIG."""
    compute_instance_id: int | None = None
    """MIG: the compute instance. Absent: not of MIG."""
    name: str | None = None
    """Name of the program."""
    user: str | None = None
    """Who runs it: a name, or a number where none is known."""
    type: ProcessType | None = None
    """What it does on the device."""
    mps: bool | None = None
    """It is a client of NVIDIA's Multi-Process Service."""
    memory_bytes: int | None = None
    """Device memory that it holds."""
    utilization_ratio: float | None = None
    """Fraction of the driver's last sample period in which it ran on the device."""
    memory_utilization_ratio: float | None = None
    """Fraction of the period in which it read or wrote device memory."""
    encoder_utilization_ratio: float | None = None
    """Its use of the video encoders."""
    decoder_utilization_ratio: float | None = None
    """Its use of the video decoders."""
    cpu_ratio: float | None = None
    """CPU time of the whole process on the node, the same in all of its entries. 1 is one CPU. Absent: not
    told, or in the first collection that sees the process."""
    resident_memory_bytes: int | None = None
    """Memory of the whole process on the node."""
    started_at: float | None = None
    """When it started, by the node's clock."""
    owner: Owner | None = None
    """Whose it is. Absent: nobody looked."""
    cores: tuple[int, ...] = ()
    """Numbers of the device's cores that it holds."""

    def described(
        self, name: str | None, user: str | None, owner: Owner, use: HostUse = _NOT_TOLD
    ) -> "Process":
        """The same with what is known of it besides."""
        return replace(self, name=name, user=user, owner=owner, **use._asdict())


# --- device share ------------------------------------------------------------
# How much of a device a container holds, and when that share counts as idle.
#
# A share is a fraction of the device, and the shares of one device never add up to more than 1, so that sums
# of shares are sums of devices.


# A share is idle once its holder has done nothing with it for so long. The recording rules have it in their
# names (`idle_1h`).
IDLE_SECONDS = 3600.0

Key = TypeVar("Key")


def device_shares(
    device: Device, holders: Mapping[Key, Sequence[Allocation]], share_ratio: float | None = None
) -> dict[Key, float]:
    """The share of each holder. `share_ratio` is the number of shares that a setting cuts the device into.

    An allocation is what the scheduler granted of the device (its compute, else its memory), else one of
    `share_ratio` shares, else an equal part among those who hold it. Of a partition, it is so much of the
    partition. Grants that exceed the device are scaled down.
    """
    allocations = [allocation for held in holders.values() for allocation in held]
    in_place = Counter(allocation.partition for allocation in allocations)

    def share(allocation: Allocation) -> float:
        granted = _granted(device, allocation)
        if granted is None:
            count = in_place[allocation.partition]
            granted = 1 / count if share_ratio is None else 1 / share_ratio
        return min(1.0, granted) * _fraction(device, allocation.partition)

    return _at_most_whole({key: sum(map(share, held)) for key, held in holders.items()})


def usage_shares(usages: Sequence[PodUsage]) -> list[float]:
    """The share of each of these, which are all of one device's. What an agent does not tell (one before
    schema 1.4) is an equal part; one that holds nothing has none."""
    holders = sum(usage.allocated > 0 for usage in usages)
    shares = {
        place: 1 / holders if usage.device_share_ratio is None else max(0.0, usage.device_share_ratio)
        for place, usage in enumerate(usages)
        if usage.allocated > 0
    }
    shares = _at_most_whole(shares)
    return [shares.get(place, 0.0) for place in range(len(usages))]


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
    """Of the device: by memory, or an equal part where partitions share their memory."""
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
