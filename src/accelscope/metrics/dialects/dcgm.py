"""`dcgm`: the names of NVIDIA's dcgm-exporter."""

import re
from collections.abc import Iterable
from dataclasses import replace

from accelscope.metrics.dialects.amounts import mebibytes, megahertz, percent, thousandths, whole
from accelscope.metrics.dialects.between import Rates
from accelscope.metrics.dialects.dialect import (
    Dialect,
    Label,
    Labels,
    Missing,
    Section,
    counter,
    gauge,
    gauges,
)
from accelscope.metrics.dialects.view import DeviceView
from accelscope.metrics.dialects.xid import xid_text
from accelscope.metrics.family import Family
from accelscope.model import ErrorCount, Partition, Vendor

_COMPUTE_SLICE = re.compile(r"^\d+c\.")


def dialect() -> Dialect:
    return Dialect(
        name="dcgm",
        exporter="NVIDIA dcgm-exporter 4.5.3-4.8.2, the counters of its image (etc/default-counters.csv)",
        vendors=(Vendor.NVIDIA,),
        sections=(Section(LABELS, (*_families(), *_profiling())),),
        divide=instances,
        notes=NOTES,
        missing=MISSING,
    )


def instances(view: DeviceView) -> Iterable[DeviceView]:
    """GPU instances in the place of a GPU that is cut into them; the compute instances of one of them are not
    told apart."""
    by_instance: dict[int, Partition] = {}
    for partition in view.device.partitions:
        if partition.gpu_instance_id is not None:
            by_instance.setdefault(partition.gpu_instance_id, partition)
    return [replace(view, partition=partition) for partition in by_instance.values()] or (view,)


def _profile(view: DeviceView) -> str:
    """Of the GPU instance: `1c.3g.40gb` is a compute instance of a `3g.40gb`."""
    profile = view.partition.profile if view.partition else None
    return _COMPUTE_SLICE.sub("", profile or "")


def _bus_id(view: DeviceView) -> str:
    """NVML's own spelling: the domain with eight digits, upper case."""
    domain, _, rest = (view.device.pci_address or "").partition(":")
    return f"{domain:0>8}:{rest}".upper() if rest else ""


def _index(view: DeviceView) -> str:
    return "" if view.device.index is None else str(view.device.index)


def _instance_id(view: DeviceView) -> str:
    return str(view.partition.gpu_instance_id) if view.partition else ""


LABELS = Labels(
    leading=(
        Label("gpu", _index),
        Label("UUID", lambda v: v.device.uuid),
        Label("pci_bus_id", _bus_id),
        Label("device", lambda v: f"nvidia{_index(v)}"),
        Label("modelName", lambda v: v.device.model),
        Label("GPU_I_PROFILE", _profile, keep_empty=False),
        Label("GPU_I_ID", _instance_id, keep_empty=False),
        Label("Hostname", lambda v: v.node.name, keep_empty=False),
        Label("DCGM_FI_DRIVER_VERSION", lambda v: v.device.driver_version, keep_empty=False),
    ),
    others=(
        Label("container", lambda v: v.container, keep_empty=False),
        Label("namespace", lambda v: v.namespace, keep_empty=False),
        Label("pod", lambda v: v.pod, keep_empty=False),
    ),
)


def _clock(view: DeviceView, domain: str) -> int | None:
    return megahertz(next((c.hertz for c in view.device.clocks if c.domain == domain), None))


def _memory_temperature(view: DeviceView) -> int | None:
    return whole(next((s.celsius for s in view.device.sensors if s.name == "memory"), None))


def _temperature(view: DeviceView) -> int | None:
    return whole(view.device.temperature_celsius)


def _unless_cut(view: DeviceView, ratio: float | None) -> int | None:
    """What DCGM measures for whole GPUs only."""
    return None if view.partition else percent(ratio)


def _last_xid(view: DeviceView) -> ErrorCount | None:
    seen = [e for e in view.device.errors if e.kind == "xid" and e.count and e.code.isdecimal()]
    return max(seen, key=lambda e: e.last_seen or 0.0, default=None)


def _xid(view: DeviceView) -> list[tuple[tuple[str, ...], int]]:
    last = _last_xid(view)
    return [] if last is None else [((last.code, xid_text(int(last.code))), int(last.code))]


def _reserved(view: DeviceView) -> int | None:
    part = view.partition
    if part is None:
        return mebibytes(view.device.memory_reserved_bytes)
    if part.memory_total_bytes is None or part.memory_used_bytes is None or part.memory_free_bytes is None:
        return None
    return mebibytes(max(0, part.memory_total_bytes - part.memory_used_bytes - part.memory_free_bytes))


def _families() -> tuple[Family, ...]:
    links = Rates()

    def link_megabytes_per_second(view: DeviceView) -> int | None:
        parts = [
            total
            for link in view.device.links
            if link.kind == "nvlink"
            for total in (link.transmit_bytes_total, link.receive_bytes_total)
            if total is not None
        ]
        total = sum(parts) if parts else None
        rate = links.per_second(view.device.id, view.device.read_at, total)
        return whole(rate, 1e-6)

    return (
        gauge("DCGM_FI_DEV_SM_CLOCK", "Clock of the multiprocessors, in MHz.", lambda v: _clock(v, "sm")),
        gauge("DCGM_FI_DEV_MEM_CLOCK", "Clock of the memory, in MHz.", lambda v: _clock(v, "memory")),
        gauge(
            "DCGM_FI_DEV_MEMORY_TEMP", "Temperature of the memory, in degrees Celsius.", _memory_temperature
        ),
        gauge("DCGM_FI_DEV_GPU_TEMP", "Temperature of the GPU, in degrees Celsius.", _temperature),
        gauge(
            "DCGM_FI_DEV_POWER_USAGE",
            "Power drawn by the board, in W.",
            lambda v: v.device.power_watts,
            decimals=6,
        ),
        counter(
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            "Energy used since the driver was loaded, in mJ.",
            lambda v: thousandths(v.device.energy_joules),
        ),
        counter(
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            "PCIe packets that had to be sent again.",
            lambda v: v.device.pcie.replays_total if v.device.pcie else None,
        ),
        gauge(
            "DCGM_FI_DEV_GPU_UTIL",
            "Share of time in which anything ran on the GPU, in %.",
            lambda v: _unless_cut(v, v.device.utilization_ratio),
        ),
        gauge(
            "DCGM_FI_DEV_MEM_COPY_UTIL",
            "Share of time in which memory was read or written, in %; not how full it is.",
            lambda v: _unless_cut(v, v.device.memory_utilization_ratio),
        ),
        gauge(
            "DCGM_FI_DEV_ENC_UTIL",
            "Utilisation of the video encoder, in %.",
            lambda v: _unless_cut(v, v.device.encoder_utilization_ratio),
        ),
        gauge(
            "DCGM_FI_DEV_DEC_UTIL",
            "Utilisation of the video decoder, in %.",
            lambda v: _unless_cut(v, v.device.decoder_utilization_ratio),
        ),
        gauges("DCGM_FI_DEV_XID_ERRORS", "Code of the last XID error.", ("err_code", "err_msg"), _xid),
        gauge(
            "DCGM_FI_DEV_FB_FREE",
            "Memory not in use, in MiB.",
            lambda v: mebibytes((v.partition or v.device).memory_free_bytes),
        ),
        gauge(
            "DCGM_FI_DEV_FB_USED",
            "Memory in use, in MiB.",
            lambda v: mebibytes((v.partition or v.device).memory_used_bytes),
        ),
        gauge("DCGM_FI_DEV_FB_RESERVED", "Memory that the driver keeps for itself, in MiB.", _reserved),
        counter(
            "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
            "Traffic over all NVLinks in both directions since the reading before, in MB/s.",
            link_megabytes_per_second,
        ),
        counter(
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            "Memory rows that were replaced because of uncorrectable errors.",
            lambda v: v.device.remapped_rows.uncorrectable if v.device.remapped_rows else None,
        ),
        counter(
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
            "Memory rows that were replaced because of correctable errors.",
            lambda v: v.device.remapped_rows.correctable if v.device.remapped_rows else None,
        ),
        gauge(
            "DCGM_FI_DEV_ROW_REMAP_FAILURE",
            "1 if a memory row could not be replaced.",
            lambda v: v.device.remapped_rows.failed if v.device.remapped_rows else None,
        ),
    )


def _rate(view: DeviceView, bytes_per_second: float | None) -> int | None:
    """DCGM takes these from its profiling module, which GeForce boards do not have, and an instance has no
    bus of its own."""
    if bytes_per_second is None or view.partition or "GeForce" in (view.device.model or ""):
        return None
    return whole(bytes_per_second)


def _profiling() -> tuple[Family, ...]:
    return (
        gauge(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            "Share of time in which the graphics or compute engine was active, 0-1.",
            lambda v: v.partition.utilization_ratio if v.partition else v.device.graphics_active_ratio,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            "Share of cycles in which a tensor pipe was active, 0-1.",
            lambda v: (v.partition or v.device).tensor_active_ratio,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_PROF_DRAM_ACTIVE",
            "Share of cycles in which memory was sending or receiving, 0-1.",
            lambda v: (v.partition or v.device).dram_active_ratio,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_PROF_PCIE_TX_BYTES",
            "Rate from the device to the host over PCIe, in bytes per second.",
            lambda v: _rate(v, v.device.pcie.transmit_bytes_per_second if v.device.pcie else None),
        ),
        gauge(
            "DCGM_FI_PROF_PCIE_RX_BYTES",
            "Rate from the host to the device over PCIe, in bytes per second.",
            lambda v: _rate(v, v.device.pcie.receive_bytes_per_second if v.device.pcie else None),
        ),
    )


NOTES = (
    "`Hostname` is the node's name. The label is named as up to 4.8.2; 4.8.3 writes it in lower case.",
    "A GPU that is cut into MIG instances is shown by its instances (`GPU_I_PROFILE`, `GPU_I_ID`) and not "
    "itself; values of the whole GPU, such as temperature and energy, stand on each of them.",
    "`pod`, `namespace` and `container` name who holds the GPU or instance, else the only pod whose "
    "processes use it. They are left out where there is none, as there, and where several pods share a GPU: "
    "its series has the values of all of them. `accelerator_pod_*` tell them apart.",
    "`DCGM_FI_DEV_XID_ERRORS` has no series until the first XID since the agent started. `err_msg` is a text "
    "for people; match on `err_code`.",
    "`DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` is a rate although its type is counter, as it is there up to "
    "4.8.2. It begins with the second reading.",
    "`DCGM_FI_PROF_*` come from NVML's GPM counters, which Hopper and later boards have; the two PCIe rates "
    "are there on other data centre boards too.",
    "dcgm-exporter's own chart leaves out `DCGM_FI_DEV_FB_RESERVED` and `DCGM_FI_DRIVER_VERSION`; its image, "
    "which this follows, has them.",
    "The dashboard `grafana/dcgm-exporter-dashboard.json` (12239) finds all names and labels that it uses. "
    "The OpenShift console plugin also asks for four fields that are in no default list.",
)
MISSING = (
    Missing("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "licences of virtual GPUs are not read"),
    Missing(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE, DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, DCGM_FI_PROF_DRAM_ACTIVE on boards "
        "before Hopper",
        "their profiling counters are only to be had through DCGM itself",
    ),
    Missing(
        "pod_uid, vgpu, hpc_job, dra_* and pod labels",
        "labels that are off by default there",
    ),
)
