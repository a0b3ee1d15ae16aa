"""Dialect `amd`: the metric names of AMD's device-metrics-exporter."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from accelscope.metrics.dialects import (
    DeviceView,
    Dialect,
    Label,
    LabelOrder,
    MissingMetrics,
    NodeView,
    Section,
    Values,
    gauge,
    gauges,
    mebibytes,
    megahertz,
    millionths,
    node_gauges,
    percent,
    rounded,
    thousandths,
)
from accelscope.metrics.family import Family
from accelscope.model import Clock, Device, HealthState, OwnerKind, Process, Vendor
from accelscope.vendors.amd import DIALECT_PREFIX

_GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # per second, by PCIe generation
_HBM = re.compile(r"hbm[ _]?(\d+)")
_CLOCK_TYPES = {
    "graphics": "system",
    "gfx": "system",
    "system": "system",
    "sclk": "system",
    "memory": "memory",
    "mem": "memory",
    "mclk": "memory",
    "fabric": "fabric",
    "fclk": "fabric",
    "df": "fabric",
    "soc": "soc",
    "socclk": "soc",
    "dce": "dce",
    "dcefclk": "dce",
    "display": "dce",
    "pcie": "pcie",
    "video": "video",
    "vclk": "video",
    "data": "data",
    "dclk": "data",
}
_NEW_POWER = re.compile(r"MI3\d\d|gfx94|gfx95", re.IGNORECASE)


def of_device(view: DeviceView) -> Device:
    """The device, for its first partition only: values of the whole device are published there."""
    return _NOTHING if view.partition is not None and view.partition.index else view.device


_NOTHING = Device(vendor=Vendor("amd"), id="")


def _health(view: DeviceView) -> bool | None:
    device = of_device(view)
    if device is _NOTHING:
        return None
    if device.stale or device.health.state in (HealthState.CRITICAL, HealthState.LOST):
        return False
    return not any(e.count for e in device.ecc if e.severity == "uncorrected")


def _socket_power(view: DeviceView, *, new: bool) -> float | None:
    """Drivers report current power from the MI300 on, and average power for older GPUs."""
    device = of_device(view)
    is_new = _NEW_POWER.search(f"{device.model or ''} {device.architecture or ''}") is not None
    return device.power_watts if is_new is new else None


def _sensor(view: DeviceView, *names: str) -> float | None:
    found = {sensor.name.lower(): sensor.celsius for sensor in of_device(view).sensors}
    return next((found[name] for name in names if name in found), None)


def _hbm_temperatures(view: DeviceView) -> Values:
    for sensor in of_device(view).sensors:
        match = _HBM.fullmatch(sensor.name.lower())
        if match:
            yield (match[1],), sensor.celsius


def _clocks(view: DeviceView) -> list[tuple[tuple[str, str], Clock]]:
    named = [
        (clock, _CLOCK_TYPES.get(clock.domain.lower().rstrip("0123456789_")))
        for clock in of_device(view).clocks
    ]
    return [((str(place), kind), clock) for place, (clock, kind) in enumerate(named) if kind is not None]


def _memory(view: DeviceView, which: str) -> int | None:
    part = view.partition
    source = of_device(view) if part is None or part.memory_total_bytes is None else part
    total, used = source.memory_total_bytes, source.memory_used_bytes
    if not total:
        return None
    if which == "free":
        return None if used is None else mebibytes(total - used)
    return mebibytes(total if which == "total" else used)


def _pcie_speed(view: DeviceView, *, highest: bool) -> float | None:
    pcie = of_device(view).pcie
    if pcie is None:
        return None
    generation = pcie.max_generation if highest else pcie.generation
    return None if generation is None else _GIGATRANSFERS.get(generation)


def _pcie_bandwidth(view: DeviceView) -> float | None:
    """Both directions together, in megabits per second."""
    pcie = of_device(view).pcie
    if pcie is None:
        return None
    total, sent, received = (
        pcie.bytes_per_second,
        pcie.transmit_bytes_per_second,
        pcie.receive_bytes_per_second,
    )
    if total is None and sent is not None and received is not None:
        total = sent + received
    return None if total is None else rounded(total, 8e-6)


def _pcie_errors(name: str, code: str, text: str) -> Family:
    def value(view: DeviceView) -> int | None:
        errors = of_device(view).errors
        return next((e.count for e in errors if (e.kind, e.code) == ("pcie", code)), None)

    return gauge(f"pcie_{name}_count", text, value)


def _voltage(name: str, rail: str, text: str) -> Family:
    """Deprecated in the exporter, which still publishes them up to v1.4."""

    def value(view: DeviceView) -> int | None:
        return thousandths(next((r.volts for r in of_device(view).rails if r.name == rail), None))

    return gauge(f"gpu_{name}", text, value)


def _link_kilobytes(view: DeviceView, *, sent: bool) -> Values:
    for link in of_device(view).links:
        total = link.transmit_bytes_total if sent else link.receive_bytes_total
        if link.kind == "xgmi" and total is not None:
            yield (str(link.index),), rounded(total // 1024)


def _activity(view: DeviceView) -> int | None:
    ratio = view.partition.utilization_ratio if view.partition is not None else None
    return percent(of_device(view).utilization_ratio if ratio is None else ratio)


FAMILIES: tuple[Family, ...] = (
    gauge("gpu_health", "1 if the GPU is healthy, 0 if not.", _health),
    gauge(
        "gpu_package_power",
        "Current power of the socket, in W (MI3xx).",
        lambda v: _socket_power(v, new=True),
    ),
    gauge(
        "gpu_average_package_power",
        "Average power of the socket, in W (before MI3xx).",
        lambda v: _socket_power(v, new=False),
    ),
    gauge("gpu_power_usage", "Power of the GPU, in W.", lambda v: of_device(v).power_watts),
    gauge(
        "gpu_energy_consumed",
        "Energy used since the driver was loaded, in microjoules.",
        lambda v: millionths(of_device(v).energy_joules),
    ),
    gauge(
        "gpu_edge_temperature",
        "Temperature at the edge of the die, in degrees Celsius.",
        lambda v: _sensor(v, "edge"),
    ),
    gauge(
        "gpu_junction_temperature",
        "Temperature of the hottest spot of the die, in degrees Celsius.",
        lambda v: _sensor(v, "junction", "hotspot"),
    ),
    gauge(
        "gpu_memory_temperature",
        "Temperature of the memory, in degrees Celsius.",
        lambda v: _sensor(v, "memory", "mem"),
    ),
    gauges(
        "gpu_hbm_temperature",
        "Temperature of an HBM stack, in degrees Celsius.",
        ("hbm_index",),
        _hbm_temperatures,
    ),
    gauge("gpu_gfx_activity", "Utilisation of the graphics and compute engine, in %.", _activity),
    gauge(
        "gpu_umc_activity",
        "Utilisation of the memory controller, in %.",
        lambda v: percent(of_device(v).memory_utilization_ratio),
    ),
    gauges(
        "gpu_gfx_busy_instantaneous",
        "Current utilisation of one compute die, in %.",
        ("xcc_index",),
        lambda v: [((str(core.index),), percent(core.utilization_ratio)) for core in of_device(v).cores],
    ),
    gauges(
        "gpu_clock",
        "Current clock of a domain of the GPU, in MHz.",
        ("clock_index", "clock_type"),
        lambda v: [(labels, megahertz(clock.hertz)) for labels, clock in _clocks(v)],
    ),
    gauges(
        "gpu_max_clock",
        "Maximum clock of a domain of the GPU, in MHz.",
        ("clock_index", "clock_type"),
        lambda v: [(labels, megahertz(clock.max_hertz)) for labels, clock in _clocks(v)],
    ),
    _voltage("voltage", "soc", "Voltage of the SoC, in mV."),
    _voltage("gfx_voltage", "gfx", "Voltage of the graphics and compute engine, in mV."),
    _voltage("memory_voltage", "mem", "Voltage of the memory, in mV."),
    gauge("gpu_total_vram", "Total memory, in MB of 2^20 bytes.", lambda v: _memory(v, "total")),
    gauge("gpu_used_vram", "Used memory, in MB of 2^20 bytes.", lambda v: _memory(v, "used")),
    gauge("gpu_free_vram", "Free memory, in MB of 2^20 bytes.", lambda v: _memory(v, "free")),
    gauge("pcie_speed", "Current speed of the PCIe link, in GT/s.", lambda v: _pcie_speed(v, highest=False)),
    gauge(
        "pcie_max_speed",
        "Maximum speed of the PCIe link, in GT/s.",
        lambda v: _pcie_speed(v, highest=True),
    ),
    gauge("pcie_bandwidth", "Traffic over PCIe in both directions, in Mb/s.", _pcie_bandwidth),
    gauge(
        "pcie_replay_count",
        "PCIe replays.",
        lambda v: pcie.replays_total if (pcie := of_device(v).pcie) else None,
    ),
    _pcie_errors("recovery", "recovery", "Transitions of the PCIe link from L0 to recovery."),
    _pcie_errors("replay_rollover", "replay_rollover", "PCIe replay number rollovers."),
    _pcie_errors("nack_sent", "nak_sent", "PCIe NAKs sent by the GPU."),
    _pcie_errors("nack_received", "nak_received", "PCIe NAKs received by the GPU."),
    gauges(
        "gpu_xgmi_link_rx",
        "Data received over an XGMI link, in KB of 1024 bytes.",
        ("link_index",),
        lambda v: _link_kilobytes(v, sent=False),
    ),
    gauges(
        "gpu_xgmi_link_tx",
        "Data sent over an XGMI link, in KB of 1024 bytes.",
        ("link_index",),
        lambda v: _link_kilobytes(v, sent=True),
    ),
)


# ECC families, one for each severity and hardware block.

_SEVERITIES = {"correct": "corrected", "uncorrect": "uncorrected", "deferred": "deferred"}
_BLOCKS = (
    "sdma",
    "gfx",
    "mmhub",
    "athub",
    "bif",
    "hdp",
    "xgmi_wafl",
    "df",
    "smn",
    "sem",
    "mp0",
    "mp1",
    "fuse",
    "umc",
    "mca",
    "vcn",
    "jpeg",
    "ih",
    "mpio",
)
_DRIVER_NAMES = {"bif": "pcie_bif"}  # of blocks that the driver names differently


def _ecc_family(word: str, block: str | None) -> Family:
    severity = _SEVERITIES[word]
    names = {block, _DRIVER_NAMES.get(block, block)} if block else {None}

    def value(view: DeviceView) -> int | None:
        counts = (e for e in of_device(view).ecc if e.severity == severity and not e.lifetime)
        return next((e.count for e in counts if (e.block and e.block.lower()) in names), None)

    where = f"in {block.upper()}" if block else "of the GPU"
    return gauge(f"gpu_ecc_{word}_{block or 'total'}", f"{severity.capitalize()} ECC errors {where}.", value)


ECC_FAMILIES: tuple[Family, ...] = tuple(
    _ecc_family(word, block) for word in _SEVERITIES for block in (None, *_BLOCKS)
)


# The default of the published charts; AMD's dashboards select by it.
_CLUSTER_NAME = "amdgpu-k8s-metrics-exporter"


def _cluster_name(node: NodeView) -> str:
    return node.labels.get("cluster_name", _CLUSTER_NAME)


def _gpu_id(view: DeviceView) -> str:
    """The exporter numbers partitions as GPUs."""
    index = view.device.index
    if index is None:
        return ""
    before = [d for d in view.node.devices if d.index is not None and d.index < index]
    further = sum(len(device.partitions) - 1 for device in before if device.partitions)
    part = view.partition
    return str(index + further + (part.index or 0 if part is not None else 0))


def _uuid(device: Device) -> str:
    """In the form of AMD's library, which combines the unique id of the chip and its PCI device id."""
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
    """Only virtual functions can be recognised, by their name."""
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
    """The batch job on the GPU, from the job-mapping folder, else from its processes. Empty if there are
    several."""
    jobs = set(view.jobs) or {job for job, _ in _job_processes(view)}
    return jobs.pop() if len(jobs) == 1 else ""


def _job_user(view: DeviceView) -> str:
    job = _job(view)
    users = {process.user or "" for name, process in _job_processes(view) if name == job}
    return users.pop() if len(users) == 1 else ""


LABELS = LabelOrder(
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
        Label("job_partition", lambda _: ""),  # the queue of the batch system, which is unknown
        # Optional in the exporter, enabled in the published charts and used by the dashboards.
        Label("gpu_uuid", lambda v: _uuid(v.device)),
        Label("card_series", lambda v: v.device.model),
        Label("card_vendor", lambda _: "AMD"),
        Label("driver_version", lambda v: v.device.driver_version),
        Label("vbios_version", lambda v: v.device.vbios_version),
        Label("cluster_name", lambda v: _cluster_name(v.node)),
    )
)


def parts(view: DeviceView) -> Iterable[DeviceView]:
    """A partitioned GPU has a series for each partition."""
    views = [replace(view, partition=partition) for partition in view.device.partitions]
    return views if len(views) > 1 else (view,)


def dialect(options: Mapping[str, str]) -> Dialect:
    amd = Dialect(
        name="amd",
        exporter="AMD device-metrics-exporter v1.5.1",
        vendors=(Vendor("amd"),),
        node_families=(
            node_gauges(
                "gpu_nodes_total",
                "Number of GPUs in the node.",
                ("cluster_name", "hostname"),
                lambda n: [((_cluster_name(n), n.name), len(n.devices))],
            ),
        ),
        sections=(Section(LABELS, (*FAMILIES, *ECC_FAMILIES)),),
        divide=parts,
        notes=NOTES,
        missing=MISSING,
        prefix_setting=DIALECT_PREFIX.name,
    )
    prefix = DIALECT_PREFIX.of(options)
    return amd.prefixed(prefix) if prefix else amd


def exporter_labels(_: Mapping[str, str]) -> LabelOrder:
    return LABELS


NOTES = (
    "`--amd-dialect-prefix` is prepended to each name. It is empty by default, as in the exporter's image; "
    "the published charts set `amd_`.",
    "All metrics are gauges, including energy and error totals, as in the exporter.",
    "`cluster_name` is the static label of that name (`--labels cluster_name=...`), else the default of the "
    "published charts. The other static labels are on `accelerator_info` only.",
    "`card_model` is the part number of the board (`102-G30211-0C`), by which AMD's dashboards distinguish "
    "MI2xx from MI3xx, or the market name if the board has no part number. `card_series` is the market name.",
    "`gpu_uuid` has the form of AMD's library (`ccff74a1-0000-1000-80…`), which combines the unique id of "
    "the chip and its PCI device id. From ROCm 10 on, it contains the partition's number instead of `ff`.",
    "`vbios_version` needs `amd-smi`, and so does `pcie_bandwidth` before MI300: the driver's files do not "
    "have them. Without it the label is empty and the series is absent.",
    "`gpu_id` counts partitions, as `amd-smi` does: with eight partitions per GPU, the second GPU starts at "
    "8.",
    "`gpu_energy_consumed` is updated with every collection. AMD's library multiplies the same counter by "
    "15.3 µJ instead of 2⁻¹⁶ J (15.259 µJ), so its values are 0.27 % higher.",
    "`pod`, `namespace` and `container` are those to which the GPU or partition is allocated, else the only "
    "pod whose processes use it. They are empty for a free GPU, and for a GPU that several pods share: use "
    "`accelerator_pod_*` there.",
    "`job_id` is the batch job of the GPU in the job-mapping folder, else the Slurm job of its processes if "
    "there is only one. `job_user` is the user of that job's processes. `job_partition` is always empty.",
    "`clock_type` is written as v1.5.1 does (`system`); older versions write `GPU_CLOCK_TYPE_SYSTEM`. "
    "`clock_index` counts the clocks that the driver reports.",
    "`gpu_partition_id` of a GPU with a single partition is `0`; some versions of the exporter write `NA`.",
    "`deployment_mode` is `vm_vf` for a virtual function, otherwise empty.",
    "`gpu_power_usage` and the two package powers are the same reading. The power of a module with two dies "
    "is published at the first die, so `sum()` is correct.",
    "For a partitioned GPU, sensors are published at partition 0. The other partitions have activity and "
    "memory if the driver reports them.",
    "`gpu_health` is 0 after an uncorrectable memory error, and when the device is critical, lost or does "
    "not respond.",
)
MISSING = (
    MissingMetrics(
        "gpu_total_visible_vram, gpu_used_visible_vram, gpu_free_visible_vram, gpu_total_gtt, gpu_used_gtt, "
        "gpu_free_gtt, gpu_vram_max_bandwidth, gpu_min_clock",
        "not read",
    ),
    MissingMetrics("pcie_rx, pcie_tx", "not read; the exporter publishes 0"),
    MissingMetrics("pcie_bidirectional_bandwidth", "the driver's short sampling window is not read"),
    MissingMetrics(
        "gpu_vcn_busy_instantaneous, gpu_jpeg_busy_instantaneous, gpu_mma_activity, gpu_vcn_activity, "
        "gpu_jpeg_activity",
        "engines of single dies are not read; the three activities are deprecated",
    ),
    MissingMetrics("gpu_process_cu_occupancy", "see `accelerator_process_utilization_ratio`"),
    MissingMetrics(
        "gpu_xgmi_nbr_0_*, gpu_xgmi_nbr_1_*, gpu_xgmi_nbr_*_tx_thrput",
        "event counters that only AMD's library has",
    ),
    MissingMetrics(
        "gpu_violation_*, gpu_current_accumulated_counter, gpu_afid_errors",
        "residencies of throttle reasons and AFIDs are not read",
    ),
    MissingMetrics(
        "gpu_ecc_correct_*, gpu_ecc_uncorrect_* of blocks without error counters",
        "unknown values are omitted; the exporter publishes 0",
    ),
    MissingMetrics("gpu_prof_*", "profiling is off by default in the exporter"),
    MissingMetrics("pod_uuid, kfd_process_id and pod labels", "labels that are optional in the exporter"),
)
