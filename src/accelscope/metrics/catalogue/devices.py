"""Families about whole devices."""

from collections.abc import Callable

from accelscope.metrics.family import Declare, Family, Scope, Stability
from accelscope.model import Device, HealthState, Link, Pcie

device = Declare[Device](Scope.DEVICE)

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


_NO_PCIE = Pcie()


def _pcie(d: Device) -> Pcie:
    return d.pcie or _NO_PCIE


def _memory_used_ratio(d: Device) -> float | None:
    if d.memory_used_bytes is None or not d.memory_total_bytes:
        return None
    return d.memory_used_bytes / d.memory_total_bytes


def _over_links(d: Device, value: Callable[[Link], float | None]) -> list[tuple[tuple[str, ...], float]]:
    """The links of one kind together. Each link's own figures are in /snapshot."""
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
    device.series("accelerator_info", "", "Facts about a device; 1.", INFO_LABELS, _info),
    device(
        "accelerator_up",
        "",
        "1 if the device answered at the last collection; 0 if not: then only its identity is shown.",
        lambda d: not d.stale,
    ),
    device.series(
        "accelerator_health",
        "",
        "1 for the state the device is in, 0 for the other states.",
        ("state",),
        lambda d: [((state.value,), d.health.state is state) for state in HealthState],
    ),
    device(
        "accelerator_last_read_timestamp_seconds",
        "seconds",
        "When the device was last read, in seconds since the epoch.",
        lambda d: d.read_at,
    ),
    device(
        "accelerator_uptime_seconds",
        "seconds",
        "Time since the device was started.",
        lambda d: d.uptime_seconds,
    ),
    device(
        "accelerator_utilization_ratio",
        "ratio",
        "Share of the driver's last sample period in which anything ran on the device.",
        lambda d: d.utilization_ratio,
    ),
    device(
        "accelerator_memory_busy_ratio",
        "ratio",
        "Share of the last sample period in which device memory was read or written, not how full it is.",
        lambda d: d.memory_utilization_ratio,
    ),
    device.series(
        "accelerator_engine_utilization_ratio",
        "ratio",
        "Utilisation of a fixed-function or special engine of the device.",
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
        "Share of time in which the graphics or compute engine was active (profiling counters).",
        lambda d: d.graphics_active_ratio,
    ),
    device(
        "accelerator_sm_active_ratio",
        "ratio",
        "Share of time in which at least one warp was on a multiprocessor, averaged over all of them.",
        lambda d: d.sm_active_ratio,
    ),
    device(
        "accelerator_sm_occupancy_ratio",
        "ratio",
        "Resident warps as a share of what the multiprocessors could hold.",
        lambda d: d.sm_occupancy_ratio,
    ),
    device(
        "accelerator_tensor_active_ratio",
        "ratio",
        "Share of cycles in which a tensor pipe was active.",
        lambda d: d.tensor_active_ratio,
    ),
    device(
        "accelerator_dram_active_ratio",
        "ratio",
        "Share of cycles in which device memory was sending or receiving.",
        lambda d: d.dram_active_ratio,
    ),
    device.series(
        "accelerator_pipe_active_ratio",
        "ratio",
        "Share of cycles in which a floating-point pipe was active.",
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
        "Utilisation of one core of a device that shows its cores singly.",
        ("core",),
        lambda d: [((str(c.index),), c.utilization_ratio) for c in d.cores],
    ),
    device.series(
        "accelerator_core_clock_hertz",
        "hertz",
        "Clock of one core of a device that shows its cores singly.",
        ("core",),
        lambda d: [((str(c.index),), c.clock_hertz) for c in d.cores],
    ),
    device.series(
        "accelerator_core_occupied",
        "",
        "1 if the core is held by somebody, whether or not it runs.",
        ("core",),
        lambda d: [((str(c.index),), c.occupied) for c in d.cores],
        stability=Stability.EXPERIMENTAL,
    ),
    device(
        "accelerator_memory_total_bytes", "bytes", "Memory of the device.", lambda d: d.memory_total_bytes
    ),
    device(
        "accelerator_memory_used_bytes",
        "bytes",
        "Memory in use, without what the driver reserves for itself where it tells that apart.",
        lambda d: d.memory_used_bytes,
    ),
    device(
        "accelerator_memory_used_ratio",
        "ratio",
        "accelerator_memory_used_bytes as a fraction of accelerator_memory_total_bytes.",
        _memory_used_ratio,
    ),
    device("accelerator_memory_free_bytes", "bytes", "Memory not in use.", lambda d: d.memory_free_bytes),
    device(
        "accelerator_memory_reserved_bytes",
        "bytes",
        "Memory that the driver or firmware keeps for itself.",
        lambda d: d.memory_reserved_bytes,
    ),
    device(
        "accelerator_bar1_total_bytes", "bytes", "Size of the PCIe BAR1 window.", lambda d: d.bar1_total_bytes
    ),
    device(
        "accelerator_bar1_used_bytes",
        "bytes",
        "Mapped part of the PCIe BAR1 window.",
        lambda d: d.bar1_used_bytes,
    ),
    device(
        "accelerator_temperature_celsius",
        "celsius",
        "Temperature at the device's main sensor.",
        lambda d: d.temperature_celsius,
    ),
    device.series(
        "accelerator_sensor_temperature_celsius",
        "celsius",
        "Temperature at each of the device's sensors.",
        ("sensor",),
        lambda d: [((s.name,), s.celsius) for s in d.sensors],
    ),
    device(
        "accelerator_temperature_slowdown_celsius",
        "celsius",
        "Temperature at which the device slows itself down.",
        lambda d: d.temperature_slowdown_celsius,
    ),
    device(
        "accelerator_temperature_shutdown_celsius",
        "celsius",
        "Temperature at which the device shuts itself down.",
        lambda d: d.temperature_shutdown_celsius,
    ),
    device("accelerator_power_watts", "watts", "Power drawn by the device.", lambda d: d.power_watts),
    device(
        "accelerator_power_limit_watts",
        "watts",
        "Power limit that is enforced now.",
        lambda d: d.power_limit_watts,
    ),
    device.series(
        "accelerator_power_limit_range_watts",
        "watts",
        "Power limits that the board allows: its default, the lowest and the highest that can be set.",
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
        "Energy that the device used since its driver was loaded.",
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
        "Power of a supply rail. Rails may contain one another: not for sums.",
        ("rail",),
        lambda d: [((r.name,), r.watts) for r in d.rails],
    ),
    device.series(
        "accelerator_fan_speed_ratio",
        "ratio",
        "Fan speed as a share of the fastest it is meant to turn.",
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
        "Clock of a part of the device.",
        ("clock",),
        lambda d: [((c.domain,), c.hertz) for c in d.clocks],
    ),
    device.series(
        "accelerator_clock_max_hertz",
        "hertz",
        "Highest clock of a part of the device.",
        ("clock",),
        lambda d: [((c.domain,), c.max_hertz) for c in d.clocks],
    ),
    device.series(
        "accelerator_throttled",
        "",
        "1 if the device's clocks are lower for this reason; some reasons (being idle, clocks that somebody "
        "set) slow no work down, and those its driver does not know have no series.",
        ("reason",),
        lambda d: [((t.reason,), t.active) for t in d.throttles],
    ),
    device(
        "accelerator_performance_state",
        "",
        "Performance state, 0 the fastest.",
        lambda d: d.performance_state,
    ),
    device(
        "accelerator_persistence_mode",
        "",
        "1 if the driver stays loaded without clients.",
        lambda d: d.persistence_mode,
    ),
    device("accelerator_ecc_enabled", "", "1 if error correction is on.", lambda d: d.ecc_enabled),
    device(
        "accelerator_mig_enabled", "", "1 if the device is cut into MIG instances.", lambda d: d.mig_enabled
    ),
    device(
        "accelerator_pcie_generation", "", "PCIe generation of the link now.", lambda d: _pcie(d).generation
    ),
    device(
        "accelerator_pcie_max_generation",
        "",
        "Highest PCIe generation that device and slot allow.",
        lambda d: _pcie(d).max_generation,
    ),
    device("accelerator_pcie_link_width", "", "PCIe lanes in use now.", lambda d: _pcie(d).width),
    device(
        "accelerator_pcie_max_link_width",
        "",
        "PCIe lanes that device and slot allow.",
        lambda d: _pcie(d).max_width,
    ),
    device(
        "accelerator_pcie_replays_total",
        "",
        "PCIe packets that had to be sent again.",
        lambda d: _pcie(d).replays_total,
    ),
    device(
        "accelerator_pcie_transmit_bytes_total",
        "bytes",
        "Bytes from the device to the host over PCIe.",
        lambda d: _pcie(d).transmit_bytes_total,
    ),
    device(
        "accelerator_pcie_receive_bytes_total",
        "bytes",
        "Bytes from the host to the device over PCIe.",
        lambda d: _pcie(d).receive_bytes_total,
    ),
    device(
        "accelerator_pcie_transmit_bytes_per_second",
        "bytes_per_second",
        "Rate from the device to the host over the driver's own short window, where it has no counter.",
        lambda d: _pcie(d).transmit_bytes_per_second,
    ),
    device(
        "accelerator_pcie_receive_bytes_per_second",
        "bytes_per_second",
        "Rate from the host to the device over the driver's own short window, where it has no counter.",
        lambda d: _pcie(d).receive_bytes_per_second,
    ),
    device.series(
        "accelerator_link_up",
        "",
        "1 if a link between devices (NVLink, XGMI, HCCS) is active.",
        ("kind", "link"),
        lambda d: [((link.kind, str(link.index)), link.active) for link in d.links],
    ),
    device.series(
        "accelerator_link_capacity_bytes_per_second",
        "bytes_per_second",
        "What the device's active links can carry together, in one direction.",
        ("kind",),
        lambda d: _over_links(d, lambda link: link.bytes_per_second),
        stability=Stability.EXPERIMENTAL,
    ),
    device.series(
        "accelerator_link_transmit_bytes_total",
        "bytes",
        "Bytes sent over the device's links to other devices.",
        ("kind",),
        lambda d: _over_links(d, lambda link: link.transmit_bytes_total),
    ),
    device.series(
        "accelerator_link_receive_bytes_total",
        "bytes",
        "Bytes received over the device's links to other devices.",
        ("kind",),
        lambda d: _over_links(d, lambda link: link.receive_bytes_total),
    ),
    device.series(
        "accelerator_link_errors_total",
        "",
        "Errors of the device's links, by what went wrong.",
        ("kind", "error"),
        _link_errors,
    ),
    device.series(
        "accelerator_faulty_link_errors_total",
        "",
        "Errors of a single link. Only links that had any are shown: a server has more than a hundred.",
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
        "Memory errors since the driver was loaded.",
        ("severity",),
        lambda d: [((e.severity,), e.count) for e in d.ecc if not e.lifetime and e.block is None],
    ),
    device.series(
        "accelerator_ecc_lifetime_errors_total",
        "",
        "Memory errors over the life of the board.",
        ("severity",),
        lambda d: [((e.severity,), e.count) for e in d.ecc if e.lifetime and e.block is None],
    ),
    device.series(
        "accelerator_ecc_block_errors_total",
        "",
        "Memory errors since the driver was loaded, by part of the device.",
        ("severity", "block"),
        lambda d: [((e.severity, e.block), e.count) for e in d.ecc if not e.lifetime and e.block is not None],
    ),
    device.series(
        "accelerator_ecc_lifetime_block_errors_total",
        "",
        "Memory errors over the life of the board, by part of the device.",
        ("severity", "block"),
        lambda d: [((e.severity, e.block), e.count) for e in d.ecc if e.lifetime and e.block is not None],
    ),
    device.series(
        "accelerator_ecc_error_last_seen_timestamp_seconds",
        "seconds",
        "When a memory error of this severity was last seen, in seconds since the epoch. Of those before the "
        "agent's start nobody knows.",
        ("severity",),
        _ecc_last_seen,
    ),
    device.series(
        "accelerator_remapped_rows_total",
        "",
        "Memory rows that were replaced by spare ones, by the severity of the errors that led to it.",
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
        "1 if rows wait for a reset of the device to be replaced.",
        lambda d: d.remapped_rows.pending if d.remapped_rows else None,
    ),
    device(
        "accelerator_row_remap_failed",
        "",
        "1 if a row could not be replaced: the board is worn out.",
        lambda d: d.remapped_rows.failed if d.remapped_rows else None,
    ),
    device.series(
        "accelerator_retired_pages_total",
        "",
        "Memory pages taken out of use, by the severity of the errors that led to it.",
        ("severity",),
        lambda d: [((e.severity,), e.count) for e in d.retired_pages],
    ),
    device.series(
        "accelerator_errors_total",
        "",
        "Errors that the driver reported by code (XID, RAS, AXI, PCIe ...). Where it only tells of events, "
        "they are counted from the start of the agent.",
        ("kind", "code"),
        lambda d: [((e.kind, e.code), e.count) for e in d.errors],
    ),
    device.series(
        "accelerator_error_last_seen_timestamp_seconds",
        "seconds",
        "When an error of this code was last seen, in seconds since the epoch.",
        ("kind", "code"),
        lambda d: [((e.kind, e.code), e.last_seen) for e in d.errors],
    ),
)
