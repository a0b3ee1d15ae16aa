"""Whose a device is: pods, what they hold, what they use, and what nobody can be named for.

Three kinds of number, never mixed: **measured** (from processes), **allocated** (from the kubelet) and
**apportioned** (from shares, or the energy of a device split by use).
"""

from dataclasses import dataclass
from enum import StrEnum

from accelscope.model.counted import Counted


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
    """Whose a process is. `name` tells within the kind: the container's id, the job, the unit, the user; of a
    pod whose name is not known, its uid."""

    kind: OwnerKind
    name: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    pod_uid: str | None = None
    container_id: str | None = None
    reason: UnattributedReason | None = None  # None: it is put down to a pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of this node that holds or uses a device."""

    uid: str
    namespace: str
    name: str
    owner_kind: str | None = None  # Deployment, StatefulSet, Job ...
    owner_name: str | None = None
    labels: tuple[tuple[str, str], ...] = ()  # those that a setting names


class AllocationSource(StrEnum):
    KUBELET = "kubelet"  # a device plugin's, from pod-resources
    CLAIM = "claim"  # dynamic resource allocation, from pod-resources
    ANNOTATION = "annotation"  # a scheduler that shares devices wrote it on the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One device id that a container was given."""

    namespace: str
    pod: str
    container: str
    source: AllocationSource
    device_id: str  # as the plugin names it; of a claim: driver/pool/device
    pod_uid: str | None = None  # absent while no source of pods tells it
    resource: str | None = None  # nvidia.com/gpu
    claim: str | None = None  # namespace/name
    device: str | None = None  # Device.id; None: none of this node's devices is known by that id
    partition: str | None = None  # Partition.id
    memory_bytes: int | None = None  # what the share may use, where the one who shares says so
    compute_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """One container of a pod on one device or partition."""

    device: str  # Device.id
    namespace: str
    pod: str
    container: str
    partition: str | None = None
    pod_uid: str | None = None
    # measured, from its processes; None: the driver does not tell
    processes: int = 0
    memory_used_bytes: int | None = None
    utilization_ratio: float | None = None
    memory_utilization_ratio: float | None = None
    encoder_utilization_ratio: float | None = None
    decoder_utilization_ratio: float | None = None
    # allocated
    allocated: int = 0  # device ids of this device or partition that it holds; 0: it only uses it
    resources: tuple[str, ...] = ()  # under which names
    idle_seconds: float | None = None  # since it last did anything with what it holds
    # apportioned
    memory_share_bytes: int | None = None
    compute_share_ratio: float | None = None
    device_share_ratio: float | None = None  # of the device that it holds: see device_shares
    energy_joules: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattributed:
    """What is in use on one device and is no pod's, by owner."""

    device: str
    kind: OwnerKind
    reason: UnattributedReason
    name: str | None = None
    processes: int = 0
    memory_used_bytes: int | None = None
    utilization_ratio: float | None = None  # of its processes together


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBalance:
    """What makes the parts of one device add up to the whole: memory of pods + unattributed - surplus = used;
    energy of pods + idle energy = energy of the device."""

    device: str
    surplus_memory_bytes: int | None = None  # by which processes' figures exceed what is used
    idle_energy_joules: float | None = None
    share_ratio: float | None = None  # into how many shares the device is cut, by setting
    jobs: tuple[str, ...] = ()  # batch jobs that the job-mapping folder names for it


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionSourceState:
    """One of the places that tell whose what is."""

    source: str  # processes, pods, pod-resources, annotations, resource-slices ...
    up: bool
    detail: str | None = None  # what exactly is asked: api-server, kubelet, v1, v1alpha1, a path
    reason: str | None = None  # a short word for why it is not up
    error: str | None = None  # the last error, for people; kept after the source is well again
    last_success: float | None = None  # seconds since the epoch
    errors: tuple[Counted, ...] = ()
