"""Families about whose the devices are: pods, other owners, and what makes their parts add up to the whole.

The help of each says which kind of number it is, because the three are never mixed: measured (from
processes), allocated (from the kubelet) or apportioned (from shares, or a device's energy split by use).
"""

from accelscope.metrics.family import Declare, Family, Scope
from accelscope.model import Allocation, DeviceBalance, Partition, Pod, PodUsage, Process, Unattributed

usage = Declare[PodUsage](Scope.POD)
pod = Declare[Pod](Scope.POD_INFO)
unattributed = Declare[Unattributed](Scope.UNATTRIBUTED)
balance = Declare[DeviceBalance](Scope.BALANCE)
unknown = Declare[Allocation](Scope.UNKNOWN_ALLOCATION)

PODS: tuple[Family, ...] = (
    usage(
        "accelerator_pod_processes",
        "",
        "Measured: processes of the container on the device.",
        lambda u: u.processes,
    ),
    usage(
        "accelerator_pod_memory_used_bytes",
        "bytes",
        "Measured: device memory that the container's processes hold.",
        lambda u: u.memory_used_bytes,
    ),
    usage(
        "accelerator_pod_utilization_ratio",
        "ratio",
        "Measured: shares of the driver's last sample period in which the container's processes ran on the "
        "device, added up.",
        lambda u: u.utilization_ratio,
    ),
    usage(
        "accelerator_pod_memory_busy_ratio",
        "ratio",
        "Measured: shares of the period in which the container's processes read or wrote device memory, "
        "added up.",
        lambda u: u.memory_utilization_ratio,
    ),
    usage.series(
        "accelerator_pod_engine_utilization_ratio",
        "ratio",
        "Measured: utilisation of a fixed-function engine by the container's processes, added up.",
        ("engine",),
        lambda u: [
            (("encoder",), u.encoder_utilization_ratio),
            (("decoder",), u.decoder_utilization_ratio),
        ],
    ),
    usage.series(
        "accelerator_pod_allocated",
        "",
        "Allocated: ids of the device (its shares, where it is shared) that the container holds. One that "
        "only uses it has no series.",
        ("resource",),
        lambda u: [((",".join(u.resources),), u.allocated)] if u.allocated > 0 else [],
    ),
    usage(
        "accelerator_pod_idle_seconds",
        "seconds",
        "Allocated: time since the container last did anything with what it holds.",
        lambda u: u.idle_seconds,
    ),
    usage(
        "accelerator_pod_memory_share_bytes",
        "bytes",
        "Apportioned: device memory that is the container's share of a device that is cut into shares.",
        lambda u: u.memory_share_bytes,
    ),
    usage(
        "accelerator_pod_compute_share_ratio",
        "ratio",
        "Apportioned: the container's share of the device's computing.",
        lambda u: u.compute_share_ratio,
    ),
    usage(
        "accelerator_pod_device_share_ratio",
        "ratio",
        "Apportioned: fraction of the device that the container holds. Those of one device add up to 1 at "
        "most. One that only uses the device has no series.",
        lambda u: u.device_share_ratio,
    ),
    usage(
        "accelerator_pod_energy_joules_total",
        "joules",
        "Apportioned: energy of the device, split by use among the pods on it. What nobody used is "
        "accelerator_idle_energy_joules_total.",
        lambda u: u.energy_joules,
    ),
)

POD_INFO: tuple[Family, ...] = (
    pod(
        "accelerator_pod_info",
        "",
        "Facts about a pod that holds or uses a device of this node, and what it belongs to; 1.",
        lambda _: 1,
    ),
)

UNATTRIBUTED: tuple[Family, ...] = (
    unattributed(
        "accelerator_unattributed_memory_used_bytes",
        "bytes",
        "Measured: device memory in use that is no pod's, by owner, and why.",
        lambda u: u.memory_used_bytes,
    ),
    unattributed(
        "accelerator_unattributed_utilization_ratio",
        "ratio",
        "Measured: shares of the driver's last sample period in which processes that are no pod's ran on the "
        "device, added up, by owner, and why.",
        lambda u: u.utilization_ratio,
    ),
    unattributed(
        "accelerator_unattributed_processes",
        "",
        "Measured: processes on the device that are no pod's, by owner, and why.",
        lambda u: u.processes,
    ),
)

BALANCES: tuple[Family, ...] = (
    balance(
        "accelerator_surplus_memory_bytes",
        "bytes",
        "Measured: by how much the processes' memory together exceeds what the device says is used. Memory "
        "of pods + unattributed - surplus = used.",
        lambda b: b.surplus_memory_bytes,
    ),
    balance(
        "accelerator_idle_energy_joules_total",
        "joules",
        "Apportioned: energy of the device that no pod's use accounts for.",
        lambda b: b.idle_energy_joules,
    ),
    balance(
        "accelerator_share_ratio",
        "ratio",
        "Apportioned: into how many shares the device is cut, by setting (2: each has half of it).",
        lambda b: b.share_ratio,
    ),
    # Not `job`: that label is Prometheus' own.
    balance.series(
        "accelerator_job_info",
        "",
        "Allocated: a batch job that the job-mapping folder names for the device; 1.",
        ("job_id",),
        lambda b: [((job,), 1) for job in dict.fromkeys(b.jobs)],
    ),
)

UNKNOWN_ALLOCATIONS: tuple[Family, ...] = (
    unknown(
        "accelerator_unknown_allocation_info",
        "",
        "Allocated: a device id that a container holds and that none of this node's devices is known by; 1.",
        lambda _: 1,
    ),
)


# --- parts ------------------------------------------------------------
# Families about partitions of devices, and about processes.


partition = Declare[Partition](Scope.PARTITION)
process = Declare[Process](Scope.PROCESS)

_NOBODY_LOOKED = ("",) * 6


def _owner(p: Process) -> tuple[str, ...]:
    owner = p.owner
    if owner is None:
        return _NOBODY_LOOKED
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
        "Facts about a partition of a device (a MIG instance, a compute partition); 1.",
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
        "Share of time in which anything ran on the partition.",
        lambda p: p.utilization_ratio,
    ),
    partition(
        "accelerator_partition_sm_active_ratio",
        "ratio",
        "Share of time in which the partition's multiprocessors had a warp.",
        lambda p: p.sm_active_ratio,
    ),
    partition(
        "accelerator_partition_tensor_active_ratio",
        "ratio",
        "Share of cycles in which a tensor pipe of the partition was active.",
        lambda p: p.tensor_active_ratio,
    ),
    partition(
        "accelerator_partition_dram_active_ratio",
        "ratio",
        "Share of cycles in which the partition's memory was sending or receiving.",
        lambda p: p.dram_active_ratio,
    ),
    partition(
        "accelerator_partition_memory_total_bytes",
        "bytes",
        "Memory of the partition. Memory that several partitions share stands at the first of them.",
        lambda p: p.memory_total_bytes,
    ),
    partition(
        "accelerator_partition_memory_used_bytes",
        "bytes",
        "Memory of the partition that is in use.",
        lambda p: p.memory_used_bytes,
    ),
)

PROCESSES: tuple[Family, ...] = (
    process.series(
        "accelerator_process_info",
        "",
        "Facts about a process on a device, and whose it is; 1.",
        ("user", "type", "mps", "namespace", "pod", "container", "owner_kind", "owner", "reason"),
        lambda p: [
            (
                (
                    p.user or "",
                    p.type.value if p.type else "",
                    "" if p.mps is None else str(p.mps).lower(),
                    *_owner(p),
                ),
                1,
            )
        ],
    ),
    process(
        "accelerator_process_memory_bytes",
        "bytes",
        "Device memory that the process holds.",
        lambda p: p.memory_bytes,
    ),
    process(
        "accelerator_process_utilization_ratio",
        "ratio",
        "Share of the driver's last sample period in which the process ran on the device.",
        lambda p: p.utilization_ratio,
    ),
    process(
        "accelerator_process_memory_busy_ratio",
        "ratio",
        "Share of the period in which the process read or wrote device memory.",
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
