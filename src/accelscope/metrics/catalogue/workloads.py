"""Metric families of pods, unattributed use, partitions and processes.

The help text of a pod family begins with the kind of value: measured (from processes), allocated (from the
kubelet) or apportioned (from shares, or the energy of a device split by use).
"""

from accelscope.metrics.family import Family, FamilyFactory, Scope
from accelscope.model import Allocation, DeviceBalance, Partition, Pod, PodUsage, Process, Unattributed

_NO_OWNER = ("",) * 6

usage = FamilyFactory[PodUsage](Scope.POD)
pod = FamilyFactory[Pod](Scope.POD_INFO)
unattributed = FamilyFactory[Unattributed](Scope.UNATTRIBUTED)
balance = FamilyFactory[DeviceBalance](Scope.BALANCE)
unknown = FamilyFactory[Allocation](Scope.UNKNOWN_ALLOCATION)
partition = FamilyFactory[Partition](Scope.PARTITION)
process = FamilyFactory[Process](Scope.PROCESS)

PODS: tuple[Family, ...] = (
    usage(
        "accelerator_pod_processes",
        "",
        "Measured: number of the container's processes on the device.",
        lambda u: u.processes,
    ),
    usage(
        "accelerator_pod_memory_used_bytes",
        "bytes",
        "Measured: device memory used by the container's processes.",
        lambda u: u.memory_used_bytes,
    ),
    usage(
        "accelerator_pod_utilization_ratio",
        "ratio",
        "Measured: sum over the container's processes of the fraction of the sample period they ran.",
        lambda u: u.utilization_ratio,
    ),
    usage(
        "accelerator_pod_memory_busy_ratio",
        "ratio",
        "Measured: sum over the container's processes of the fraction of the sample period they accessed "
        "device memory.",
        lambda u: u.memory_utilization_ratio,
    ),
    usage.series(
        "accelerator_pod_engine_utilization_ratio",
        "ratio",
        "Measured: sum over the container's processes of their utilisation of a fixed-function engine.",
        ("engine",),
        lambda u: [
            (("encoder",), u.encoder_utilization_ratio),
            (("decoder",), u.decoder_utilization_ratio),
        ],
    ),
    usage.series(
        "accelerator_pod_allocated",
        "",
        "Allocated: number of device ids of this device (more than one for a shared device) allocated to the "
        "container.",
        ("resource",),
        lambda u: [((",".join(u.resources),), u.allocated)] if u.allocated > 0 else [],
    ),
    usage(
        "accelerator_pod_idle_seconds",
        "seconds",
        "Allocated: time since the container last used the device allocated to it.",
        lambda u: u.idle_seconds,
    ),
    usage(
        "accelerator_pod_memory_share_bytes",
        "bytes",
        "Apportioned: the container's share of the memory of a shared device.",
        lambda u: u.memory_share_bytes,
    ),
    usage(
        "accelerator_pod_compute_share_ratio",
        "ratio",
        "Apportioned: the container's share of the compute capacity of a shared device.",
        lambda u: u.compute_share_ratio,
    ),
    usage(
        "accelerator_pod_device_share_ratio",
        "ratio",
        "Apportioned: fraction of the device allocated to the container; the fractions of one device add up "
        "to at most 1.",
        lambda u: u.device_share_ratio,
    ),
    usage(
        "accelerator_pod_energy_joules_total",
        "joules",
        "Apportioned: energy of the device, split among its pods by use; the rest is "
        "accelerator_idle_energy_joules_total.",
        lambda u: u.energy_joules,
    ),
)

POD_INFO: tuple[Family, ...] = (
    pod(
        "accelerator_pod_info",
        "",
        "Properties and owner of a pod that uses a device or has one allocated; the value is always 1.",
        lambda _: 1,
    ),
)

UNATTRIBUTED: tuple[Family, ...] = (
    unattributed(
        "accelerator_unattributed_memory_used_bytes",
        "bytes",
        "Measured: device memory in use that is not attributed to a pod, by owner and reason.",
        lambda u: u.memory_used_bytes,
    ),
    unattributed(
        "accelerator_unattributed_utilization_ratio",
        "ratio",
        "Measured: utilisation by processes that are not attributed to a pod, by owner and reason.",
        lambda u: u.utilization_ratio,
    ),
    unattributed(
        "accelerator_unattributed_processes",
        "",
        "Measured: processes that are not attributed to a pod, by owner and reason.",
        lambda u: u.processes,
    ),
)

BALANCES: tuple[Family, ...] = (
    balance(
        "accelerator_surplus_memory_bytes",
        "bytes",
        "Measured: by how much the memory of all processes exceeds the used memory that the device reports.",
        lambda b: b.surplus_memory_bytes,
    ),
    balance(
        "accelerator_idle_energy_joules_total",
        "joules",
        "Apportioned: energy of the device that is not attributed to a pod.",
        lambda b: b.idle_energy_joules,
    ),
    balance(
        "accelerator_share_ratio",
        "ratio",
        "Apportioned: number of shares that the device is divided into by a setting.",
        lambda b: b.share_ratio,
    ),
    # `job` is Prometheus' own label.
    balance.series(
        "accelerator_job_info",
        "",
        "Allocated: a batch job that the job-mapping folder assigns to the device; the value is always 1.",
        ("job_id",),
        lambda b: [((job,), 1) for job in dict.fromkeys(b.jobs)],
    ),
)

UNKNOWN_ALLOCATIONS: tuple[Family, ...] = (
    unknown(
        "accelerator_unknown_allocation_info",
        "",
        "Allocated: a device id allocated to a container that matches no device of the node; always 1.",
        lambda _: 1,
    ),
)


def _owner_labels(p: Process) -> tuple[str, ...]:
    owner = p.owner
    if owner is None:
        return _NO_OWNER
    return (
        owner.namespace or "",
        owner.pod or "",
        owner.container or "",
        owner.kind.value,
        owner.name or "",
        owner.reason.value if owner.reason else "",
    )


PARTITIONS: tuple[Family, ...] = (
    partition.series(
        "accelerator_partition_info",
        "",
        "Properties of a partition of a device (MIG instance, compute partition); the value is always 1.",
        ("uuid", "profile", "gpu_instance", "compute_instance"),
        lambda p: [
            (
                (
                    p.uuid or "",
                    p.profile or "",
                    "" if p.gpu_instance_id is None else str(p.gpu_instance_id),
                    "" if p.compute_instance_id is None else str(p.compute_instance_id),
                ),
                1,
            )
        ],
    ),
    partition(
        "accelerator_partition_utilization_ratio",
        "ratio",
        "Fraction of the last sample period during which a kernel was running on the partition.",
        lambda p: p.utilization_ratio,
    ),
    partition(
        "accelerator_partition_sm_active_ratio",
        "ratio",
        "Fraction of time a multiprocessor of the partition had at least one warp.",
        lambda p: p.sm_active_ratio,
    ),
    partition(
        "accelerator_partition_tensor_active_ratio",
        "ratio",
        "Fraction of cycles the tensor pipe of the partition was active.",
        lambda p: p.tensor_active_ratio,
    ),
    partition(
        "accelerator_partition_dram_active_ratio",
        "ratio",
        "Fraction of cycles the memory interface of the partition was transferring data.",
        lambda p: p.dram_active_ratio,
    ),
    partition(
        "accelerator_partition_memory_total_bytes",
        "bytes",
        "Total memory of the partition; memory shared by several partitions is counted at the first.",
        lambda p: p.memory_total_bytes,
    ),
    partition(
        "accelerator_partition_memory_used_bytes",
        "bytes",
        "Memory in use on the partition.",
        lambda p: p.memory_used_bytes,
    ),
)

PROCESSES: tuple[Family, ...] = (
    process.series(
        "accelerator_process_info",
        "",
        "Properties and owner of a process on a device; the value is always 1.",
        ("user", "type", "mps", "namespace", "pod", "container", "owner_kind", "owner", "reason"),
        lambda p: [
            (
                (
                    p.user or "",
                    p.type.value if p.type else "",
                    "" if p.mps is None else str(p.mps).lower(),
                    *_owner_labels(p),
                ),
                1,
            )
        ],
    ),
    process(
        "accelerator_process_memory_bytes",
        "bytes",
        "Device memory used by the process.",
        lambda p: p.memory_bytes,
    ),
    process(
        "accelerator_process_utilization_ratio",
        "ratio",
        "Fraction of the last sample period during which the process was running on the device.",
        lambda p: p.utilization_ratio,
    ),
    process(
        "accelerator_process_memory_busy_ratio",
        "ratio",
        "Fraction of the last sample period during which the process accessed device memory.",
        lambda p: p.memory_utilization_ratio,
    ),
    process.series(
        "accelerator_process_engine_utilization_ratio",
        "ratio",
        "Utilisation of a fixed-function engine by the process.",
        ("engine",),
        lambda p: [
            (("encoder",), p.encoder_utilization_ratio),
            (("decoder",), p.decoder_utilization_ratio),
        ],
    ),
)
