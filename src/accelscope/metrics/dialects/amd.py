"""`amd`: the names of AMD's device-metrics-exporter."""

import re
from collections.abc import Iterable
from dataclasses import replace

from accelscope.metrics.dialects.amd_ecc import ECC_FAMILIES
from accelscope.metrics.dialects.amd_families import FAMILIES
from accelscope.metrics.dialects.dialect import Dialect, Label, Labels, Missing, Section, node_gauges
from accelscope.metrics.dialects.view import DeviceView, NodeView
from accelscope.model import Device, OwnerKind, Process, Vendor

# What the published charts write where nobody says otherwise; the dashboards select by it.
_CLUSTER_NAME = "amdgpu-k8s-metrics-exporter"


def _cluster_name(node: NodeView) -> str:
    return node.labels.get("cluster_name", _CLUSTER_NAME)


def _gpu_id(view: DeviceView) -> str:
    """As the exporter counts GPUs: each partition is one."""
    index = view.device.index
    if index is None:
        return ""
    before = [d for d in view.node.devices if d.index is not None and d.index < index]
    further = sum(len(device.partitions) - 1 for device in before if device.partitions)
    part = view.partition
    return str(index + further + (part.index or 0 if part is not None else 0))


def _uuid(device: Device) -> str:
    """As AMD's library writes it: the chip's own number around its PCI number."""
    if not re.fullmatch(r"0x[0-9a-f]{1,16}", device.uuid or "") or device.pci_device_id is None:
        return device.uuid or ""
    own = f"{int(device.uuid or '0', 16):016x}"
    code = device.pci_device_id.removeprefix("0x")
    return f"{own[:2]}ff{code}-0000-1000-80{own[2:4]}-{own[4:]}"


def _partition_id(view: DeviceView) -> str:
    if view.partition is not None:
        return "" if view.partition.index is None else str(view.partition.index)
    return "NA" if view.device.compute_partition is None else "0"


def _deployment(view: DeviceView) -> str:
    """Only a virtual function says what it is: by its name."""
    return "vm_vf" if re.search(r"\bVF\b", view.device.model or "") else ""


def _job_processes(view: DeviceView) -> list[tuple[str, Process]]:
    part = view.partition
    return [
        (p.owner.name, p)
        for p in view.processes
        if p.owner is not None
        and p.owner.kind is OwnerKind.SLURM_JOB
        and p.owner.name is not None
        and (part is None or p.partition in (None, part.id))
    ]


def _job(view: DeviceView) -> str:
    """The only batch job on the GPU: by the job-mapping folder, else by the processes on it."""
    jobs = set(view.jobs) or {job for job, _ in _job_processes(view)}
    return jobs.pop() if len(jobs) == 1 else ""


def _job_user(view: DeviceView) -> str:
    job = _job(view)
    users = {process.user or "" for name, process in _job_processes(view) if name == job}
    return users.pop() if len(users) == 1 else ""


LABELS = Labels(
    others=(
        Label("gpu_id", _gpu_id),
        Label("card_model", lambda v: v.device.part_number or v.device.model),
        Label("gpu_partition_id", _partition_id),
        Label("gpu_compute_partition_type", lambda v: (v.device.compute_partition or "none").lower()),
        Label("gpu_memory_partition_type", lambda v: (v.device.memory_partition or "none").lower()),
        Label("deployment_mode", _deployment),
        Label("serial_number", lambda v: v.device.serial),
        Label("hostname", lambda v: v.node.name),
        Label("pod", lambda v: v.pod),
        Label("namespace", lambda v: v.namespace),
        Label("container", lambda v: v.container),
        Label("job_id", _job),
        Label("job_user", _job_user),
        Label("job_partition", lambda _: ""),  # a batch system's queue, which no process tells
        # Optional there, on in the published charts, and asked for by the dashboards.
        Label("gpu_uuid", lambda v: _uuid(v.device)),
        Label("card_series", lambda v: v.device.model),
        Label("card_vendor", lambda _: "AMD"),
        Label("driver_version", lambda v: v.device.driver_version),
        Label("vbios_version", lambda v: v.device.vbios_version),
        Label("cluster_name", lambda v: _cluster_name(v.node)),
    )
)


def parts(view: DeviceView) -> Iterable[DeviceView]:
    """A series for each partition of a GPU that is cut into several."""
    cut = [replace(view, partition=partition) for partition in view.device.partitions]
    return cut if len(cut) > 1 else (view,)


def dialect() -> Dialect:
    return Dialect(
        name="amd",
        exporter="AMD device-metrics-exporter v1.5.1",
        vendors=(Vendor.AMD,),
        node_families=(
            node_gauges(
                "gpu_nodes_total",
                "GPUs of the node.",
                ("cluster_name", "hostname"),
                lambda n: [((_cluster_name(n), n.name), len(n.devices))],
            ),
        ),
        sections=(Section(LABELS, (*FAMILIES, *ECC_FAMILIES)),),
        divide=parts,
        notes=NOTES,
        missing=MISSING,
    )


NOTES = (
    "`--amd-dialect-prefix` is put before each name. It is empty by default, as that of the plain container; "
    "the published charts write `amd_`.",
    "All are gauges, also energy and error totals, as there.",
    "`cluster_name` is the node's static label of that name (`--labels cluster_name=...`), else what the "
    "published charts write. The other static labels stand on `accelerator_info` only.",
    "`card_model` is the part number of the board (`102-G30211-0C`), by which AMD's dashboards distinguish "
    "MI2xx from MI3xx, and the market name where the board has none. `card_series` is the market name.",
    "`gpu_uuid` has the form of AMD's library (`ccff74a1-0000-1000-80…`), which is made from the chip's "
    "unique id and its PCI number. Libraries from ROCm 10 on write the partition's number in place of `ff`.",
    "`vbios_version` and `pcie_bandwidth` need `amd-smi`: the driver's files do not have them. Without it "
    "the label is empty and the series is absent.",
    "`gpu_id` counts partitions, as `amd-smi` does: on GPUs that are cut into eight, the second GPU begins "
    "at 8.",
    "`gpu_energy_consumed` moves with every collection. AMD's library multiplies the same counter by 15.3 µJ "
    "instead of 2⁻¹⁶ J (15.259 µJ), so its numbers are 0.27 % higher.",
    "`pod`, `namespace` and `container` name who holds the GPU or partition, else the only pod whose "
    "processes use it. They are empty for a free GPU, and for one that several pods share: "
    "`accelerator_pod_*` tell them apart.",
    "`job_id` is the batch job that the job-mapping folder names for the GPU, else the Slurm job of the "
    "processes on it, where there is one only; `job_user` is the user of that job's processes. "
    "`job_partition` is always empty.",
    "`deployment_mode` is `vm_vf` for a virtual function and else empty.",
    "`gpu_power_usage` and the two package powers are the same reading. Two dies that share one module's "
    "power show it at the first: `sum()` is right.",
    "Of a partitioned GPU, sensors stand at partition 0; the others have activity and memory where the "
    "driver tells them.",
    "`gpu_health` is 0 after an uncorrectable memory error, and when the device is critical, lost or does "
    "not answer.",
)
MISSING = (
    Missing(
        "gpu_total_visible_vram, gpu_used_visible_vram, gpu_free_visible_vram, gpu_total_gtt, gpu_used_gtt, "
        "gpu_free_gtt, gpu_vram_max_bandwidth, gpu_min_clock",
        "not among what is read of a GPU",
    ),
    Missing("pcie_bidirectional_bandwidth", "the driver's own short window is not read"),
    Missing(
        "gpu_vcn_busy_instantaneous, gpu_jpeg_busy_instantaneous, gpu_mma_activity, gpu_vcn_activity, "
        "gpu_jpeg_activity",
        "engines by die are not read; the three activities are deprecated",
    ),
    Missing("gpu_process_cu_occupancy", "`accelerator_process_utilization_ratio` has it, as a share"),
    Missing(
        "gpu_xgmi_nbr_0_*, gpu_xgmi_nbr_1_*, gpu_xgmi_nbr_*_tx_thrput",
        "event counters that only the vendor's library has",
    ),
    Missing("gpu_violation_*, gpu_afid_errors", "residencies of throttle reasons and AFIDs are not read"),
    Missing("gpu_prof_*", "profiling is off by default there"),
    Missing("pod_uuid, kfd_process_id and pod labels", "labels that are optional there"),
)
