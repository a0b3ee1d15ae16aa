"""The DCGM fields that AccelScope provides, as metric families with DCGM's names and units."""

from collections.abc import Callable, Iterable

from accelscope.metrics.dialects import (
    DeviceView,
    Rates,
    counter,
    gauge,
    gauges,
    mebibytes,
    megahertz,
    percent,
    rounded,
    thousandths,
)
from accelscope.metrics.family import Family
from accelscope.model import Device, EccCount, ErrorCount
from accelscope.vendors.nvidia import VENDOR
from accelscope.vendors.nvidia.gpu import NVML_THROTTLE_BITS

# The bits of NVML's mask, which DCGM exposes unchanged.
_THROTTLE_BITS = {reason: bit for bit, reason in NVML_THROTTLE_BITS.items()}
_ECC_SEVERITIES = {"SBE": "corrected", "DBE": "uncorrected"}
_ECC_PERIODS = {"VOL": False, "AGG": True}  # value: `EccCount.lifetime`
_ECC_BLOCKS = {"TOTAL": None, "DEV": "dram", "L2": "l2_cache", "REG": "register_file", "SRM": "sram"}
_NVLINK_ERRORS = {
    "CRC_FLIT": "crc_flit",
    "CRC_DATA": "crc_data",
    "REPLAY": "dl_replay",
    "RECOVERY": "dl_recovery",
}


def default_fields() -> tuple[Family, ...]:
    """The fields of dcgm-exporter's default list, in its order. Each page needs its own: rates have state."""
    return (*_families(), *_profiling())


def further_fields() -> tuple[Family, ...]:
    """The other fields that a counters file can contain."""
    return (
        *_clocks_and_heat(),
        *_power_limits(),
        *_states(),
        *_pcie(),
        *_memory(),
        *_ecc(),
        *_nvlink(),
        *_activity(),
    )


def bus_id(device: Device) -> str:
    """The PCI address as NVML writes it: in upper case, the domain with eight digits."""
    domain, _, rest = (device.pci_address or "").partition(":")
    return f"{domain:0>8}:{rest}".upper() if rest else ""


# Fields whose value is a text. A counters file can add them to every series as labels.
LABEL_FIELDS: dict[str, Callable[[DeviceView], str | None]] = {
    "DCGM_FI_DRIVER_VERSION": lambda v: v.device.driver_version,
    "DCGM_FI_DEV_NAME": lambda v: v.device.model,
    "DCGM_FI_DEV_SERIAL": lambda v: v.device.serial,
    "DCGM_FI_DEV_UUID": lambda v: v.device.uuid,
    "DCGM_FI_DEV_PCI_BUSID": lambda v: bus_id(v.device),
    "DCGM_FI_DEV_VBIOS_VERSION": lambda v: v.device.firmware_version,
}
DEFAULT_LABELS: tuple[str, ...] = ("DCGM_FI_DRIVER_VERSION",)


def unavailability_reason(field: str) -> str:
    """Why a field that is in neither list is not available."""
    if field in LABEL_FIELDS:
        return "a text: only available as a label"
    if field.endswith("_VIOLATION"):
        return "AccelScope reads which throttle reasons are active, not for how long"
    return _REASONS.get(field, "AccelScope does not read it")


_REASONS = {
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS": "licences of virtual GPUs are not read",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": "DCGM_FI_DEV_ENFORCED_POWER_LIMIT has the power limit in effect",
    "DCGM_EXP_XID_ERRORS_COUNT": "the native family accelerator_errors_total counts errors by code",
    "DCGM_EXP_XID_ERRORS_TOTAL": "the native family accelerator_errors_total counts errors by code",
    "DCGM_EXP_CLOCK_EVENTS_COUNT": "the native family accelerator_throttled has the reasons active now",
    "DCGM_EXP_GPU_HEALTH_STATUS": "the native family accelerator_health has the state",
}


def _clock(view: DeviceView, domain: str) -> int | None:
    return megahertz(next((c.hertz for c in view.device.clocks if c.domain == domain), None))


def _max_clock(view: DeviceView, domain: str) -> int | None:
    return megahertz(next((c.max_hertz for c in view.device.clocks if c.domain == domain), None))


def _memory_temperature(view: DeviceView) -> int | None:
    return rounded(next((s.celsius for s in view.device.sensors if s.name == "memory"), None))


def _temperature(view: DeviceView) -> int | None:
    return rounded(view.device.temperature_celsius)


def _unless_mig(view: DeviceView, ratio: float | None) -> int | None:
    """A percentage that DCGM measures for whole GPUs only."""
    return None if view.partition else percent(ratio)


def _last_xid(view: DeviceView) -> ErrorCount | None:
    xids = [e for e in view.device.errors if e.kind == "xid" and e.count and e.code.isdecimal()]
    return max(xids, key=lambda e: e.last_seen or 0.0, default=None)


def _xid(view: DeviceView) -> list[tuple[tuple[str, ...], int]]:
    last = _last_xid(view)
    if last is None:
        return []
    return [((last.code, VENDOR.error_code(last.code).meaning), int(last.code))]


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
        return rounded(rate, 1e-6)

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
            "Fraction of time during which a kernel was running, in %.",
            lambda v: _unless_mig(v, v.device.utilization_ratio),
        ),
        gauge(
            "DCGM_FI_DEV_MEM_COPY_UTIL",
            "Fraction of time during which memory was read or written, in %; not the memory in use.",
            lambda v: _unless_mig(v, v.device.memory_utilization_ratio),
        ),
        gauge(
            "DCGM_FI_DEV_ENC_UTIL",
            "Utilisation of the video encoder, in %.",
            lambda v: _unless_mig(v, v.device.encoder_utilization_ratio),
        ),
        gauge(
            "DCGM_FI_DEV_DEC_UTIL",
            "Utilisation of the video decoder, in %.",
            lambda v: _unless_mig(v, v.device.decoder_utilization_ratio),
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
        gauge("DCGM_FI_DEV_FB_RESERVED", "Memory reserved by the driver, in MiB.", _reserved),
        counter(
            "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
            "Traffic over all NVLinks in both directions since the previous reading, in MB/s.",
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
    """DCGM gets these from its profiling module, which GeForce boards lack. MIG instances have no bus."""
    if bytes_per_second is None or view.partition or "GeForce" in (view.device.model or ""):
        return None
    return rounded(bytes_per_second)


def _profiling() -> tuple[Family, ...]:
    return (
        gauge(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            "Fraction of time during which the graphics or compute engine was active, 0-1.",
            lambda v: v.partition.utilization_ratio if v.partition else v.device.graphics_active_ratio,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            "Fraction of cycles in which a tensor pipe was active, 0-1.",
            lambda v: (v.partition or v.device).tensor_active_ratio,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_PROF_DRAM_ACTIVE",
            "Fraction of cycles in which memory was sending or receiving, 0-1.",
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


def _throttle_mask(view: DeviceView) -> int | None:
    """None if the driver reports no reasons, 0 if none of them is active."""
    throttles = view.device.throttles
    if not throttles:
        return None
    return sum(_THROTTLE_BITS.get(throttle.reason, 0) for throttle in throttles if throttle.active)


def _clocks_and_heat() -> tuple[Family, ...]:
    return (
        gauge(
            "DCGM_FI_DEV_VIDEO_CLOCK",
            "Clock of the video encoder and decoder, in MHz.",
            lambda v: _clock(v, "video"),
        ),
        gauge(
            "DCGM_FI_DEV_MAX_SM_CLOCK",
            "Highest clock of the multiprocessors, in MHz.",
            lambda v: _max_clock(v, "sm"),
        ),
        gauge(
            "DCGM_FI_DEV_MAX_MEM_CLOCK",
            "Highest clock of the memory, in MHz.",
            lambda v: _max_clock(v, "memory"),
        ),
        gauge(
            "DCGM_FI_DEV_MAX_VIDEO_CLOCK",
            "Highest clock of the video encoder and decoder, in MHz.",
            lambda v: _max_clock(v, "video"),
        ),
        gauge(
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
            "Reasons for lower clocks that are active now, as a mask of NVML's bits.",
            _throttle_mask,
        ),
        gauge(
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
            "The same as DCGM_FI_DEV_CLOCK_THROTTLE_REASONS, under its name in DCGM 4.",
            _throttle_mask,
        ),
        gauge(
            "DCGM_FI_DEV_SLOWDOWN_TEMP",
            "Temperature at which the GPU slows down, in degrees Celsius.",
            lambda v: rounded(v.device.temperature_slowdown_celsius),
        ),
        gauge(
            "DCGM_FI_DEV_SHUTDOWN_TEMP",
            "Temperature at which the GPU shuts down, in degrees Celsius.",
            lambda v: rounded(v.device.temperature_shutdown_celsius),
        ),
    )


def _power_limits() -> tuple[Family, ...]:
    return (
        gauge(
            "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
            "Power limit in effect, in W.",
            lambda v: v.device.power_limit_watts,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF",
            "Default power limit, in W.",
            lambda v: v.device.power_limit_default_watts,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN",
            "Lowest power limit that can be set, in W.",
            lambda v: v.device.power_limit_min_watts,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX",
            "Highest power limit that can be set, in W.",
            lambda v: v.device.power_limit_max_watts,
            decimals=6,
        ),
    )


def _states() -> tuple[Family, ...]:
    return (
        gauge(
            "DCGM_FI_DEV_PSTATE", "Performance state, 0 the fastest.", lambda v: v.device.performance_state
        ),
        gauge(
            "DCGM_FI_DEV_FAN_SPEED",
            "Speed of the first fan, in %.",
            lambda v: percent(v.device.fans[0].speed_ratio) if v.device.fans else None,
        ),
        gauge(
            "DCGM_FI_DEV_PERSISTENCE_MODE",
            "1 if the driver stays loaded without clients.",
            lambda v: v.device.persistence_mode,
        ),
        gauge("DCGM_FI_DEV_MIG_MODE", "1 if MIG is on.", lambda v: v.device.mig_enabled),
        gauge("DCGM_FI_DEV_ECC_CURRENT", "1 if error correction is on.", lambda v: v.device.ecc_enabled),
    )


def _pcie() -> tuple[Family, ...]:
    return (
        gauge(
            "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
            "Rate from the device to the host over PCIe, in KB of 1,000 bytes per second.",
            lambda v: rounded(v.device.pcie.transmit_bytes_per_second, 1e-3) if v.device.pcie else None,
        ),
        gauge(
            "DCGM_FI_DEV_PCIE_RX_THROUGHPUT",
            "Rate from the host to the device over PCIe, in KB of 1,000 bytes per second.",
            lambda v: rounded(v.device.pcie.receive_bytes_per_second, 1e-3) if v.device.pcie else None,
        ),
        gauge(
            "DCGM_FI_DEV_PCIE_LINK_GEN",
            "PCIe generation of the link now.",
            lambda v: v.device.pcie.generation if v.device.pcie else None,
        ),
        gauge(
            "DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
            "Highest PCIe generation that GPU and slot allow.",
            lambda v: v.device.pcie.max_generation if v.device.pcie else None,
        ),
        gauge(
            "DCGM_FI_DEV_PCIE_LINK_WIDTH",
            "PCIe lanes in use now.",
            lambda v: v.device.pcie.width if v.device.pcie else None,
        ),
        gauge(
            "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH",
            "PCIe lanes that GPU and slot allow.",
            lambda v: v.device.pcie.max_width if v.device.pcie else None,
        ),
    )


def _used_fraction(view: DeviceView) -> float | None:
    """Used / (total - reserved). MIG instances do not report reserved memory, but used + free is the same
    denominator."""
    part = view.partition
    used = (part or view.device).memory_used_bytes
    if part is not None:
        room = None if used is None or part.memory_free_bytes is None else used + part.memory_free_bytes
    else:
        total, reserved = view.device.memory_total_bytes, view.device.memory_reserved_bytes
        room = None if total is None or reserved is None else total - reserved
    return None if used is None or not room else used / room


def _bar1_free(view: DeviceView) -> int | None:
    total, used = view.device.bar1_total_bytes, view.device.bar1_used_bytes
    return None if total is None or used is None else mebibytes(total - used)


def _memory() -> tuple[Family, ...]:
    return (
        gauge(
            "DCGM_FI_DEV_FB_TOTAL",
            "Memory, in MiB.",
            lambda v: mebibytes((v.partition or v.device).memory_total_bytes),
        ),
        gauge(
            "DCGM_FI_DEV_FB_USED_PERCENT",
            "Memory in use as a fraction of the memory that is not reserved, 0-1.",
            _used_fraction,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_DEV_BAR1_TOTAL",
            "Size of the PCIe BAR1 window, in MiB.",
            lambda v: mebibytes(v.device.bar1_total_bytes),
        ),
        gauge(
            "DCGM_FI_DEV_BAR1_USED",
            "Mapped part of the PCIe BAR1 window, in MiB.",
            lambda v: mebibytes(v.device.bar1_used_bytes),
        ),
        gauge("DCGM_FI_DEV_BAR1_FREE", "Unmapped part of the PCIe BAR1 window, in MiB.", _bar1_free),
    )


def _counted(counts: Iterable[EccCount], severity: str, block: str | None, *, lifetime: bool) -> int | None:
    return next(
        (c.count for c in counts if (c.severity, c.block, c.lifetime) == (severity, block, lifetime)), None
    )


def _ecc_field(bits: str, period: str, place: str) -> Family:
    severity, lifetime, block = _ECC_SEVERITIES[bits], _ECC_PERIODS[period], _ECC_BLOCKS[place]
    where = "Memory errors" if block is None else f"Memory errors in {block.replace('_', ' ')}"
    since = "over the life of the board" if lifetime else "since the driver was loaded"
    return counter(
        f"DCGM_FI_DEV_ECC_{bits}_{period}_{place}",
        f"{where}, {severity}, {since}.",
        lambda v: _counted(v.device.ecc, severity, block, lifetime=lifetime),
    )


def _ecc() -> tuple[Family, ...]:
    return (
        *(
            _ecc_field(bits, period, place)
            for place in _ECC_BLOCKS
            for period in _ECC_PERIODS
            for bits in _ECC_SEVERITIES
        ),
        counter(
            "DCGM_FI_DEV_RETIRED_SBE",
            "Memory pages retired after several single-bit errors.",
            lambda v: _counted(v.device.retired_pages, "corrected", None, lifetime=True),
        ),
        counter(
            "DCGM_FI_DEV_RETIRED_DBE",
            "Memory pages retired after a double-bit error.",
            lambda v: _counted(v.device.retired_pages, "uncorrected", None, lifetime=True),
        ),
        gauge(
            "DCGM_FI_DEV_ROW_REMAP_PENDING",
            "1 if row remapping is pending until the next GPU reset.",
            lambda v: v.device.remapped_rows.pending if v.device.remapped_rows else None,
        ),
    )


def _link_errors(name: str, kind: str) -> Family:
    def total(view: DeviceView) -> int | None:
        counts = [
            error.count
            for link in view.device.links
            if link.kind == "nvlink"
            for error in link.errors
            if error.kind == kind
        ]
        return sum(counts) if counts else None

    words = kind.removeprefix("dl_").replace("_", " ")
    return counter(
        f"DCGM_FI_DEV_NVLINK_{name}_ERROR_COUNT_TOTAL", f"NVLink errors of all links: {words}.", total
    )


def _link_rate(name: str, text: str, total_of: Callable[[Device], list[float]]) -> Family:
    rates = Rates()

    def per_second(view: DeviceView) -> int | None:
        totals = total_of(view.device)
        return rounded(rates.per_second(view.device.id, view.device.read_at, sum(totals) if totals else None))

    return gauge(name, text, per_second)


def _nvlink() -> tuple[Family, ...]:
    return (
        *(_link_errors(name, kind) for name, kind in _NVLINK_ERRORS.items()),
        _link_rate(
            "DCGM_FI_PROF_NVLINK_TX_BYTES",
            "Rate sent over all NVLinks since the previous reading, in bytes per second.",
            lambda d: [
                link.transmit_bytes_total
                for link in d.links
                if link.kind == "nvlink" and link.transmit_bytes_total is not None
            ],
        ),
        _link_rate(
            "DCGM_FI_PROF_NVLINK_RX_BYTES",
            "Rate received over all NVLinks since the previous reading, in bytes per second.",
            lambda d: [
                link.receive_bytes_total
                for link in d.links
                if link.kind == "nvlink" and link.receive_bytes_total is not None
            ],
        ),
    )


def _whole_gpu(view: DeviceView, ratio: float | None) -> float | None:
    """A ratio that is read for whole GPUs only."""
    return None if view.partition else ratio


def _activity() -> tuple[Family, ...]:
    return (
        gauge(
            "DCGM_FI_PROF_SM_ACTIVE",
            "Fraction of cycles in which a multiprocessor had a warp, 0-1.",
            lambda v: (v.partition or v.device).sm_active_ratio,
            decimals=6,
        ),
        gauge(
            "DCGM_FI_PROF_SM_OCCUPANCY",
            "Resident warps as a fraction of the most that the multiprocessors can hold, 0-1.",
            lambda v: _whole_gpu(v, v.device.sm_occupancy_ratio),
            decimals=6,
        ),
        gauge(
            "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
            "Fraction of cycles in which an fp64 pipe was active, 0-1.",
            lambda v: _whole_gpu(v, v.device.fp64_active_ratio),
            decimals=6,
        ),
        gauge(
            "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
            "Fraction of cycles in which an fp32 pipe was active, 0-1.",
            lambda v: _whole_gpu(v, v.device.fp32_active_ratio),
            decimals=6,
        ),
        gauge(
            "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
            "Fraction of cycles in which an fp16 pipe was active, 0-1.",
            lambda v: _whole_gpu(v, v.device.fp16_active_ratio),
            decimals=6,
        ),
    )
