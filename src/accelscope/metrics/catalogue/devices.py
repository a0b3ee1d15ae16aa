"""Metric families of whole devices."""

from collections.abc import Callable

from accelscope.metrics.family import Family, FamilyFactory, Scope, Stability
from accelscope.model import Device, HealthState, Link, Pcie

device = FamilyFactory[Device](Scope.DEVICE)

INFO_LABELS = (
    "model",
    "uuid",
    "serial",
    "pci_address",
    "driver_version",
    "firmware_version",
    "architecture",
    "device_name",
    "numa_node",
    "compute_partition",
    "memory_partition",
)


def _info(d: Device) -> list[tuple[tuple[str, ...], float]]:
    facts = (
        d.model,
        d.uuid,
        d.serial,
        d.pci_address,
        d.driver_version,
        d.firmware_version,
        d.architecture,
        d.device_name,
        None if d.numa_node is None else str(d.numa_node),
        d.compute_partition,
        d.memory_partition,
    )
    return [(tuple(fact or "" for fact in facts), 1.0)]


def _health_cause(d: Device) -> list[tuple[tuple[str, ...], float]]:
    health = d.health
    if health.state is HealthState.OK:
        return []
    texts = (health.cause, health.meaning, health.action, health.origin)
    return [((health.state.value, *(text or "" for text in texts)), 1.0)]


_NO_PCIE = Pcie()


def _pcie(d: Device) -> Pcie:
    return d.pcie or _NO_PCIE


def _memory_used_ratio(d: Device) -> float | None:
    if d.memory_used_bytes is None or not d.memory_total_bytes:
        return None
    return d.memory_used_bytes / d.memory_total_bytes


def _over_links(d: Device, value: Callable[[Link], float | None]) -> list[tuple[tuple[str, ...], float]]:
    """Sums over all links of one kind. /snapshot has the values of each link."""
    totals: dict[str, float] = {}
    for link in d.links:
        part = value(link)
        if part is not None:
            totals[link.kind] = totals.get(link.kind, 0.0) + part
    return [((kind,), total) for kind, total in totals.items()]


def _ecc_last_seen(d: Device) -> list[tuple[tuple[str, ...], float]]:
    latest: dict[str, float] = {}
    for count in d.ecc:
        if count.last_seen is not None:
            latest[count.severity] = max(count.last_seen, latest.get(count.severity, 0.0))
    return [((severity,), at) for severity, at in latest.items()]


def _link_errors(d: Device) -> list[tuple[tuple[str, ...], float]]:
    totals: dict[tuple[str, ...], float] = {}
    for link in d.links:
        for error in link.errors:
            key = (link.kind, error.kind)
            totals[key] = totals.get(key, 0.0) + error.count
    return list(totals.items())


DEVICES: tuple[Family, ...] = (
    device.series(
        "accelerator_info", "", "Properties of a device as labels; the value is always 1.", INFO_LABELS, _info
    ),
    device(
        "accelerator_up",
        "",
        "1 if the device was read in the last collection, 0 if not; then only its identity is published.",
        lambda d: not d.stale,
    ),
    device.series(
        "accelerator_health",
        "",
        "1 for the current health state of the device, 0 for the others.",
        ("state",),
        lambda d: [((state.value,), d.health.state is state) for state in HealthState],
    ),
    device.series(
        "accelerator_health_cause_info",
        "",
        "Cause of a health state that is not ok, as labels; the value is always 1.",
        ("state", "cause", "reason", "action", "origin"),
        _health_cause,
    ),
    device(
        "accelerator_health_since_timestamp_seconds",
        "seconds",
        "Unix time at which the current health state with its cause began; only while it is not ok.",
        lambda d: None if d.health.state is HealthState.OK else d.health.since,
    ),
    device(
        "accelerator_last_read_timestamp_seconds",
        "seconds",
        "Unix time of the last successful read of the device.",
        lambda d: d.read_at,
    ),
    device(
        "accelerator_uptime_seconds",
        "seconds",
        "Time since the device started.",
        lambda d: d.uptime_seconds,
    ),
    device(
        "accelerator_utilization_ratio",
        "ratio",
        "Fraction of the last sample period during which a kernel was running.",
        lambda d: d.utilization_ratio,
    ),
    device(
        "accelerator_memory_busy_ratio",
        "ratio",
        "Fraction of the last sample period during which device memory was read or written.",
        lambda d: d.memory_utilization_ratio,
    ),
    device.series(
        "accelerator_engine_utilization_ratio",
        "ratio",
        "Utilisation of an engine of the device, such as the video encoder.",
        ("engine",),
        lambda d: [
            (("encoder",), d.encoder_utilization_ratio),
            (("decoder",), d.decoder_utilization_ratio),
            (("jpeg",), d.jpeg_utilization_ratio),
            (("optical_flow",), d.optical_flow_utilization_ratio),
            (("vector",), d.vector_utilization_ratio),
            (("control_cpu",), d.control_cpu_utilization_ratio),
        ],
    ),
    device(
        "accelerator_graphics_active_ratio",
        "ratio",
        "Fraction of time the graphics or compute engine was active, from profiling counters.",
        lambda d: d.graphics_active_ratio,
    ),
    device(
        "accelerator_sm_active_ratio",
        "ratio",
        "Fraction of time a multiprocessor had at least one warp, averaged over all multiprocessors.",
        lambda d: d.sm_active_ratio,
    ),
    device(
        "accelerator_sm_occupancy_ratio",
        "ratio",
        "Resident warps as a fraction of the maximum that the multiprocessors support.",
        lambda d: d.sm_occupancy_ratio,
    ),
    device(
        "accelerator_tensor_active_ratio",
        "ratio",
        "Fraction of cycles the tensor pipe was active.",
        lambda d: d.tensor_active_ratio,
    ),
    device(
        "accelerator_dram_active_ratio",
        "ratio",
        "Fraction of cycles the device memory interface was transferring data.",
        lambda d: d.dram_active_ratio,
    ),
    device.series(
        "accelerator_pipe_active_ratio",
        "ratio",
        "Fraction of cycles a floating-point pipe was active.",
        ("pipe",),
        lambda d: [
            (("fp64",), d.fp64_active_ratio),
            (("fp32",), d.fp32_active_ratio),
            (("fp16",), d.fp16_active_ratio),
        ],
        stability=Stability.EXPERIMENTAL,
    ),
    device.series(
        "accelerator_core_utilization_ratio",
        "ratio",
        "Utilisation of one core, on devices that report each core.",
        ("core",),
        lambda d: [((str(c.index),), c.utilization_ratio) for c in d.cores],
    ),
    device.series(
        "accelerator_core_clock_hertz",
        "hertz",
        "Clock frequency of one core, on devices that report each core.",
        ("core",),
        lambda d: [((str(c.index),), c.clock_hertz) for c in d.cores],
    ),
    device.series(
        "accelerator_core_occupied",
        "",
        "1 if a process has opened the core, whether or not it is running.",
        ("core",),
        lambda d: [((str(c.index),), c.occupied) for c in d.cores],
        stability=Stability.EXPERIMENTAL,
    ),
    device(
        "accelerator_memory_total_bytes",
        "bytes",
        "Total memory of the device.",
        lambda d: d.memory_total_bytes,
    ),
    device(
        "accelerator_memory_used_bytes",
        "bytes",
        "Memory in use, without memory reserved by the driver where the driver reports it separately.",
        lambda d: d.memory_used_bytes,
    ),
    device(
        "accelerator_memory_used_ratio",
        "ratio",
        "accelerator_memory_used_bytes as a fraction of accelerator_memory_total_bytes.",
        _memory_used_ratio,
    ),
    device(
        "accelerator_memory_free_bytes", "bytes", "Free memory of the device.", lambda d: d.memory_free_bytes
    ),
    device(
        "accelerator_memory_reserved_bytes",
        "bytes",
        "Memory reserved by the driver or firmware.",
        lambda d: d.memory_reserved_bytes,
    ),
    device(
        "accelerator_bar1_total_bytes", "bytes", "Size of the PCIe BAR1 window.", lambda d: d.bar1_total_bytes
    ),
    device(
        "accelerator_bar1_used_bytes",
        "bytes",
        "Mapped bytes of the PCIe BAR1 window.",
        lambda d: d.bar1_used_bytes,
    ),
    device(
        "accelerator_temperature_celsius",
        "celsius",
        "Temperature of the device's main sensor.",
        lambda d: d.temperature_celsius,
    ),
    device.series(
        "accelerator_sensor_temperature_celsius",
        "celsius",
        "Temperature of each sensor of the device.",
        ("sensor",),
        lambda d: [((s.name,), s.celsius) for s in d.sensors],
    ),
    device(
        "accelerator_temperature_slowdown_celsius",
        "celsius",
        "Temperature at which the device reduces its clocks.",
        lambda d: d.temperature_slowdown_celsius,
    ),
    device(
        "accelerator_temperature_shutdown_celsius",
        "celsius",
        "Temperature at which the device shuts down.",
        lambda d: d.temperature_shutdown_celsius,
    ),
    device("accelerator_power_watts", "watts", "Power draw of the device.", lambda d: d.power_watts),
    device(
        "accelerator_power_limit_watts",
        "watts",
        "Power limit currently enforced.",
        lambda d: d.power_limit_watts,
    ),
    device.series(
        "accelerator_power_limit_range_watts",
        "watts",
        "Power limits of the board: default, lowest and highest that can be set.",
        ("bound",),
        lambda d: [
            (("default",), d.power_limit_default_watts),
            (("min",), d.power_limit_min_watts),
            (("max",), d.power_limit_max_watts),
        ],
    ),
    device(
        "accelerator_energy_joules_total",
        "joules",
        "Energy used since the driver was loaded.",
        lambda d: d.energy_joules,
    ),
    device.series(
        "accelerator_rail_volts",
        "volts",
        "Voltage of a supply rail.",
        ("rail",),
        lambda d: [((r.name,), r.volts) for r in d.rails],
    ),
    device.series(
        "accelerator_rail_amperes",
        "amperes",
        "Current of a supply rail.",
        ("rail",),
        lambda d: [((r.name,), r.amperes) for r in d.rails],
    ),
    device.series(
        "accelerator_rail_watts",
        "watts",
        "Power of a supply rail; rails can include each other, so do not add them up.",
        ("rail",),
        lambda d: [((r.name,), r.watts) for r in d.rails],
    ),
    device.series(
        "accelerator_fan_speed_ratio",
        "ratio",
        "Fan speed as a fraction of its maximum.",
        ("fan",),
        lambda d: [((str(f.index),), f.speed_ratio) for f in d.fans],
    ),
    device.series(
        "accelerator_fan_speed_rpm",
        "rpm",
        "Fan speed in revolutions per minute.",
        ("fan",),
        lambda d: [((str(f.index),), f.speed_rpm) for f in d.fans],
    ),
    device.series(
        "accelerator_clock_hertz",
        "hertz",
        "Current frequency of a clock of the device.",
        ("clock",),
        lambda d: [((c.domain,), c.hertz) for c in d.clocks],
    ),
    device.series(
        "accelerator_clock_max_hertz",
        "hertz",
        "Maximum frequency of a clock of the device.",
        ("clock",),
        lambda d: [((c.domain,), c.max_hertz) for c in d.clocks],
    ),
    device.series(
        "accelerator_throttled",
        "",
        "1 if clocks are currently reduced for this reason, 0 if not; only reasons that the driver reports.",
        ("reason",),
        lambda d: [((t.reason,), t.active) for t in d.throttles],
    ),
    device(
        "accelerator_performance_state",
        "",
        "Performance state; 0 is the fastest.",
        lambda d: d.performance_state,
    ),
    device(
        "accelerator_persistence_mode",
        "",
        "1 if persistence mode is on: the driver stays loaded when no process uses the device.",
        lambda d: d.persistence_mode,
    ),
    device("accelerator_ecc_enabled", "", "1 if ECC is enabled.", lambda d: d.ecc_enabled),
    device("accelerator_mig_enabled", "", "1 if MIG mode is enabled.", lambda d: d.mig_enabled),
    device(
        "accelerator_pcie_generation",
        "",
        "Current PCIe generation of the link.",
        lambda d: _pcie(d).generation,
    ),
    device(
        "accelerator_pcie_max_generation",
        "",
        "Highest PCIe generation that the device and the slot support.",
        lambda d: _pcie(d).max_generation,
    ),
    device("accelerator_pcie_link_width", "", "PCIe lanes currently in use.", lambda d: _pcie(d).width),
    device(
        "accelerator_pcie_max_link_width",
        "",
        "PCIe lanes that the device and the slot support.",
        lambda d: _pcie(d).max_width,
    ),
    device(
        "accelerator_pcie_replays_total",
        "",
        "PCIe replays: packets that were sent again.",
        lambda d: _pcie(d).replays_total,
    ),
    device(
        "accelerator_pcie_transmit_bytes_total",
        "bytes",
        "Bytes sent from the device to the host over PCIe.",
        lambda d: _pcie(d).transmit_bytes_total,
    ),
    device(
        "accelerator_pcie_receive_bytes_total",
        "bytes",
        "Bytes sent from the host to the device over PCIe.",
        lambda d: _pcie(d).receive_bytes_total,
    ),
    device(
        "accelerator_pcie_transmit_bytes_per_second",
        "bytes_per_second",
        "PCIe throughput from the device to the host, for drivers that report a rate instead of a counter.",
        lambda d: _pcie(d).transmit_bytes_per_second,
    ),
    device(
        "accelerator_pcie_receive_bytes_per_second",
        "bytes_per_second",
        "PCIe throughput from the host to the device, for drivers that report a rate instead of a counter.",
        lambda d: _pcie(d).receive_bytes_per_second,
    ),
    device.series(
        "accelerator_link_up",
        "",
        "1 if a link to another device (NVLink, XGMI, HCCS) is active.",
        ("kind", "link"),
        lambda d: [((link.kind, str(link.index)), link.active) for link in d.links],
    ),
    device.series(
        "accelerator_link_capacity_bytes_per_second",
        "bytes_per_second",
        "Total bandwidth of the active links in one direction.",
        ("kind",),
        lambda d: _over_links(d, lambda link: link.bytes_per_second),
        stability=Stability.EXPERIMENTAL,
    ),
    device.series(
        "accelerator_link_transmit_bytes_total",
        "bytes",
        "Bytes sent over links to other devices.",
        ("kind",),
        lambda d: _over_links(d, lambda link: link.transmit_bytes_total),
    ),
    device.series(
        "accelerator_link_receive_bytes_total",
        "bytes",
        "Bytes received over links to other devices.",
        ("kind",),
        lambda d: _over_links(d, lambda link: link.receive_bytes_total),
    ),
    device.series(
        "accelerator_link_errors_total",
        "",
        "Errors of all links of the device, by type of error.",
        ("kind", "error"),
        _link_errors,
    ),
    device.series(
        "accelerator_faulty_link_errors_total",
        "",
        "Errors of a single link; only links with errors have a series.",
        ("kind", "link", "error"),
        lambda d: [
            ((link.kind, str(link.index), e.kind), e.count)
            for link in d.links
            for e in link.errors
            if e.count
        ],
    ),
    device.series(
        "accelerator_ecc_errors_total",
        "",
        "ECC memory errors since the driver was loaded.",
        ("severity",),
        lambda d: [((e.severity,), e.count) for e in d.ecc if not e.lifetime and e.block is None],
    ),
    device.series(
        "accelerator_ecc_lifetime_errors_total",
        "",
        "ECC memory errors over the lifetime of the board.",
        ("severity",),
        lambda d: [((e.severity,), e.count) for e in d.ecc if e.lifetime and e.block is None],
    ),
    device.series(
        "accelerator_ecc_block_errors_total",
        "",
        "ECC memory errors since the driver was loaded, by block of the device.",
        ("severity", "block"),
        lambda d: [((e.severity, e.block), e.count) for e in d.ecc if not e.lifetime and e.block is not None],
    ),
    device.series(
        "accelerator_ecc_lifetime_block_errors_total",
        "",
        "ECC memory errors over the lifetime of the board, by block of the device.",
        ("severity", "block"),
        lambda d: [((e.severity, e.block), e.count) for e in d.ecc if e.lifetime and e.block is not None],
    ),
    device.series(
        "accelerator_ecc_error_last_seen_timestamp_seconds",
        "seconds",
        "Unix time of the last ECC memory error of this severity since the agent started.",
        ("severity",),
        _ecc_last_seen,
    ),
    device.series(
        "accelerator_remapped_rows_total",
        "",
        "Memory rows replaced by spare rows, by severity of the errors that caused it.",
        ("severity",),
        lambda d: (
            []
            if d.remapped_rows is None
            else [
                (("corrected",), d.remapped_rows.correctable),
                (("uncorrected",), d.remapped_rows.uncorrectable),
            ]
        ),
    ),
    device(
        "accelerator_row_remap_pending",
        "",
        "1 if a row remapping is pending until the next reset of the device.",
        lambda d: d.remapped_rows.pending if d.remapped_rows else None,
    ),
    device(
        "accelerator_row_remap_failed",
        "",
        "1 if a row could not be remapped; the board should be replaced.",
        lambda d: d.remapped_rows.failed if d.remapped_rows else None,
    ),
    device.series(
        "accelerator_retired_pages_total",
        "",
        "Retired memory pages, by severity of the errors that caused it.",
        ("severity",),
        lambda d: [((e.severity,), e.count) for e in d.retired_pages],
    ),
    device.series(
        "accelerator_errors_total",
        "",
        "Errors reported by the driver, by code (XID, RAS, AXI, PCIe); events count from the agent's start.",
        ("kind", "code"),
        lambda d: [((e.kind, e.code), e.count) for e in d.errors],
    ),
    device.series(
        "accelerator_error_last_seen_timestamp_seconds",
        "seconds",
        "Unix time of the last error with this code.",
        ("kind", "code"),
        lambda d: [((e.kind, e.code), e.last_seen) for e in d.errors],
    ),
)
