"""Families about partitions of devices, and about processes."""

from accelscope.metrics.family import Declare, Family, Scope
from accelscope.model import Partition, Process

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
