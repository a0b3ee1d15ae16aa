"""The field of the model for each of our metric families.

`metrics.catalogue` defines how a page is made from the model. This module defines the reverse: how the model
is made from the series in a store. A test compares the two.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

Labels = Mapping[str, str]
Take = Callable[["SeriesDraft", Labels, float], None]

HEALTH_CAUSE_LABELS = ("cause", "reason", "action", "origin")

_LARGEST = 2.0**63  # larger values are not converted to integers


@dataclass(slots=True)
class SeriesDraft:
    values: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)  # members of a field that is an object
    lists: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = field(default_factory=dict)  # by field and key

    def part(self, name: str) -> dict[str, Any]:
        return self.parts.setdefault(name, {})

    def member(self, name: str, key: tuple[Any, ...]) -> dict[str, Any]:
        return self.lists.setdefault(name, {}).setdefault(key, {})


def as_whole(value: float) -> int | None:
    return round(value) if abs(value) < _LARGEST else None


def text(labels: Labels, label: str) -> str | None:
    """None for an empty label, which stores treat as an absent one."""
    return labels.get(label) or None


def number(name: str) -> Take:
    def take(draft: SeriesDraft, _: Labels, value: float) -> None:
        draft.values[name] = value

    return take


def whole(name: str) -> Take:
    def take(draft: SeriesDraft, _: Labels, value: float) -> None:
        if (rounded := as_whole(value)) is not None:
            draft.values[name] = rounded

    return take


def flag(name: str, *, meaning: bool = True) -> Take:
    def take(draft: SeriesDraft, _: Labels, value: float) -> None:
        draft.values[name] = (value > 0) is meaning

    return take


def word(name: str, label: str) -> Take:
    """The label of the one series that is not 0."""

    def take(draft: SeriesDraft, labels: Labels, value: float) -> None:
        if value > 0:
            draft.values[name] = text(labels, label)

    return take


def _health_cause(draft: SeriesDraft, labels: Labels, value: float) -> None:
    if value > 0:
        draft.part("health").update({name: text(labels, name) for name in HEALTH_CAUSE_LABELS})


def by_label(label: str, names: Mapping[str, str]) -> Take:
    """The label selects the field."""

    def take(draft: SeriesDraft, labels: Labels, value: float) -> None:
        if (name := names.get(labels.get(label, ""))) is not None:
            draft.values[name] = value

    return take


def part_of(part: str, name: str, convert: Callable[[float], Any] = float) -> Take:
    def take(draft: SeriesDraft, _: Labels, value: float) -> None:
        draft.part(part)[name] = convert(value)

    return take


def part_by_label(part: str, label: str, names: Mapping[str, str]) -> Take:
    def take(draft: SeriesDraft, labels: Labels, value: float) -> None:
        if (name := names.get(labels.get(label, ""))) is not None:
            draft.part(part)[name] = as_whole(value)

    return take


def member_of(
    list_name: str,
    name: str,
    *,
    texts: Mapping[str, str] | None = None,
    may_lack: Collection[str] = (),
    index: str | None = None,
    convert: Callable[[float], Any] = float,
    **fixed: Any,
) -> Take:
    """A field of one member of a list. Members are identified by the labels in `texts` (by field) and by the
    number in the label `index`. A series without one of them is ignored, except for those in `may_lack`."""
    identifying = tuple((texts or {}).items())
    needed = tuple(field_name for field_name, _ in identifying if field_name not in may_lack)

    def take(draft: SeriesDraft, labels: Labels, value: float) -> None:
        identity: dict[str, Any] = {field_name: text(labels, label) for field_name, label in identifying}
        if any(identity[field_name] is None for field_name in needed):
            return
        if index is not None:
            written = labels.get(index, "")
            if not (written.isascii() and written.isdigit() and len(written) < 10):
                return
            identity["index"] = int(written)
        identity |= fixed
        converted = convert(value)
        if converted is not None:
            member = draft.member(list_name, tuple(identity.values()))
            member |= identity
            member[name] = converted

    return take


ENGINES = {
    "encoder": "encoder_utilization_ratio",
    "decoder": "decoder_utilization_ratio",
}
_SEVERITIES = {"corrected": "correctable", "uncorrected": "uncorrectable"}


def _ecc(*, lifetime: bool, of_block: bool = False) -> Take:
    return member_of(
        "ecc",
        "count",
        texts={"severity": "severity", "block": "block"},
        may_lack=() if of_block else ("block",),
        convert=as_whole,
        lifetime=lifetime,
    )


def _per_core(name: str, unit: type = float) -> Take:
    return member_of("cores", name, index="core", convert=unit)


def _rail(name: str) -> Take:
    return member_of("rails", name, texts={"name": "rail"})


def _error(name: str, *, counted: bool) -> Take:
    return member_of(
        "errors", name, texts={"kind": "kind", "code": "code"}, convert=as_whole if counted else float
    )


# Fields of device rows: queried in every refresh.
DEVICE_ROWS: Mapping[str, Take] = {
    "accelerator_up": flag("stale", meaning=False),
    "accelerator_last_read_timestamp_seconds": number("read_at"),
    "accelerator_health_since_timestamp_seconds": part_of("health", "since"),
    "accelerator_utilization_ratio": number("utilization_ratio"),
    "accelerator_memory_busy_ratio": number("memory_utilization_ratio"),
    "accelerator_memory_total_bytes": whole("memory_total_bytes"),
    "accelerator_memory_used_bytes": whole("memory_used_bytes"),
    "accelerator_memory_free_bytes": whole("memory_free_bytes"),
    "accelerator_temperature_celsius": number("temperature_celsius"),
    "accelerator_temperature_slowdown_celsius": number("temperature_slowdown_celsius"),
    "accelerator_power_watts": number("power_watts"),
    "accelerator_power_limit_watts": number("power_limit_watts"),
    "accelerator_energy_joules_total": number("energy_joules"),
    "accelerator_fan_speed_ratio": member_of("fans", "speed_ratio", index="fan"),
    "accelerator_pcie_generation": part_of("pcie", "generation", as_whole),
    "accelerator_pcie_link_width": part_of("pcie", "width", as_whole),
    "accelerator_ecc_errors_total": _ecc(lifetime=False),
    "accelerator_ecc_lifetime_errors_total": _ecc(lifetime=True),
    "accelerator_ecc_block_errors_total": _ecc(lifetime=False, of_block=True),
    "accelerator_ecc_lifetime_block_errors_total": _ecc(lifetime=True, of_block=True),
    "accelerator_errors_total": _error("count", counted=True),
}

# Families with a series for each possible state, of which the active ones are 1.
DEVICE_STATES: Mapping[str, Take] = {
    "accelerator_health": word("health", "state"),
    "accelerator_health_cause_info": _health_cause,
    "accelerator_throttled": member_of("throttles", "active", texts={"reason": "reason"}, convert=bool),
}

# Shown only on the page of a single device.
DEVICE_DETAILS: Mapping[str, Take] = {
    "accelerator_uptime_seconds": number("uptime_seconds"),
    "accelerator_engine_utilization_ratio": by_label(
        "engine",
        {
            **ENGINES,
            "jpeg": "jpeg_utilization_ratio",
            "optical_flow": "optical_flow_utilization_ratio",
            "vector": "vector_utilization_ratio",
            "control_cpu": "control_cpu_utilization_ratio",
        },
    ),
    "accelerator_graphics_active_ratio": number("graphics_active_ratio"),
    "accelerator_sm_active_ratio": number("sm_active_ratio"),
    "accelerator_sm_occupancy_ratio": number("sm_occupancy_ratio"),
    "accelerator_tensor_active_ratio": number("tensor_active_ratio"),
    "accelerator_dram_active_ratio": number("dram_active_ratio"),
    "accelerator_pipe_active_ratio": by_label(
        "pipe", {"fp64": "fp64_active_ratio", "fp32": "fp32_active_ratio", "fp16": "fp16_active_ratio"}
    ),
    "accelerator_core_utilization_ratio": _per_core("utilization_ratio"),
    "accelerator_core_clock_hertz": _per_core("clock_hertz"),
    "accelerator_core_occupied": _per_core("occupied", bool),
    "accelerator_memory_reserved_bytes": whole("memory_reserved_bytes"),
    "accelerator_bar1_total_bytes": whole("bar1_total_bytes"),
    "accelerator_bar1_used_bytes": whole("bar1_used_bytes"),
    "accelerator_sensor_temperature_celsius": member_of("sensors", "celsius", texts={"name": "sensor"}),
    "accelerator_temperature_shutdown_celsius": number("temperature_shutdown_celsius"),
    "accelerator_power_limit_range_watts": by_label(
        "bound",
        {
            "default": "power_limit_default_watts",
            "min": "power_limit_min_watts",
            "max": "power_limit_max_watts",
        },
    ),
    "accelerator_rail_volts": _rail("volts"),
    "accelerator_rail_amperes": _rail("amperes"),
    "accelerator_rail_watts": _rail("watts"),
    "accelerator_fan_speed_rpm": member_of("fans", "speed_rpm", index="fan"),
    "accelerator_clock_hertz": member_of("clocks", "hertz", texts={"domain": "clock"}),
    "accelerator_clock_max_hertz": member_of("clocks", "max_hertz", texts={"domain": "clock"}),
    "accelerator_performance_state": whole("performance_state"),
    "accelerator_persistence_mode": flag("persistence_mode"),
    "accelerator_ecc_enabled": flag("ecc_enabled"),
    "accelerator_mig_enabled": flag("mig_enabled"),
    "accelerator_pcie_max_generation": part_of("pcie", "max_generation", as_whole),
    "accelerator_pcie_max_link_width": part_of("pcie", "max_width", as_whole),
    "accelerator_pcie_replays_total": part_of("pcie", "replays_total", as_whole),
    "accelerator_pcie_transmit_bytes_total": part_of("pcie", "transmit_bytes_total"),
    "accelerator_pcie_receive_bytes_total": part_of("pcie", "receive_bytes_total"),
    "accelerator_pcie_transmit_bytes_per_second": part_of("pcie", "transmit_bytes_per_second"),
    "accelerator_pcie_receive_bytes_per_second": part_of("pcie", "receive_bytes_per_second"),
    "accelerator_link_up": member_of("links", "active", texts={"kind": "kind"}, index="link", convert=bool),
    "accelerator_remapped_rows_total": part_by_label("remapped_rows", "severity", _SEVERITIES),
    "accelerator_row_remap_pending": part_of("remapped_rows", "pending", bool),
    "accelerator_row_remap_failed": part_of("remapped_rows", "failed", bool),
    "accelerator_retired_pages_total": member_of(
        "retired_pages", "count", texts={"severity": "severity"}, convert=as_whole, lifetime=True
    ),
    "accelerator_error_last_seen_timestamp_seconds": _error("last_seen", counted=False),
}

PARTITION_DETAILS: Mapping[str, Take] = {
    "accelerator_partition_utilization_ratio": number("utilization_ratio"),
    "accelerator_partition_sm_active_ratio": number("sm_active_ratio"),
    "accelerator_partition_tensor_active_ratio": number("tensor_active_ratio"),
    "accelerator_partition_dram_active_ratio": number("dram_active_ratio"),
    "accelerator_partition_memory_total_bytes": whole("memory_total_bytes"),
    "accelerator_partition_memory_used_bytes": whole("memory_used_bytes"),
}

# One container of a pod on one device.
POD_ROWS: Mapping[str, Take] = {
    "accelerator_pod_processes": whole("processes"),
    "accelerator_pod_memory_used_bytes": whole("memory_used_bytes"),
    "accelerator_pod_utilization_ratio": number("utilization_ratio"),
    "accelerator_pod_memory_busy_ratio": number("memory_utilization_ratio"),
    "accelerator_pod_engine_utilization_ratio": by_label("engine", ENGINES),
    "accelerator_pod_idle_seconds": number("idle_seconds"),
    "accelerator_pod_memory_share_bytes": whole("memory_share_bytes"),
    "accelerator_pod_compute_share_ratio": number("compute_share_ratio"),
    "accelerator_pod_device_share_ratio": number("device_share_ratio"),
    "accelerator_pod_energy_joules_total": number("energy_joules"),
}

PROCESS_ROWS: Mapping[str, Take] = {
    "accelerator_process_memory_bytes": whole("memory_bytes"),
    "accelerator_process_utilization_ratio": number("utilization_ratio"),
    "accelerator_process_memory_busy_ratio": number("memory_utilization_ratio"),
    "accelerator_process_engine_utilization_ratio": by_label("engine", ENGINES),
}

READERS: Mapping[str, Take] = {
    "accelscope_reader_found": flag("found"),
    "accelscope_reader_up": flag("up"),
    "accelscope_reader_duration_seconds": number("duration_seconds"),
    "accelscope_reader_last_success_timestamp_seconds": number("last_success"),
    "accelscope_reader_devices_expected": whole("devices_expected"),
    "accelscope_reader_devices_seen": whole("devices_seen"),
    "accelscope_reader_abandoned_calls": whole("abandoned_calls"),
}

UNATTRIBUTED: Mapping[str, Take] = {
    "accelerator_unattributed_memory_used_bytes": whole("memory_used_bytes"),
    "accelerator_unattributed_utilization_ratio": number("utilization_ratio"),
    "accelerator_unattributed_processes": whole("processes"),
}

BALANCES: Mapping[str, Take] = {
    "accelerator_surplus_memory_bytes": whole("surplus_memory_bytes"),
    "accelerator_idle_energy_joules_total": number("idle_energy_joules"),
    "accelerator_share_ratio": number("share_ratio"),
}

# Read by NodeSeries: the information is in their labels.
INFO = "accelerator_info"
PARTITION_INFO = "accelerator_partition_info"
POD_INFO = "accelerator_pod_info"
POD_ALLOCATED = "accelerator_pod_allocated"
PROCESS_INFO = "accelerator_process_info"
JOB_INFO = "accelerator_job_info"
NODE_INFO = "accelscope_node_info"
BUILD_INFO = "accelscope_build_info"
STARTED = "accelscope_start_timestamp_seconds"
COLLECTED = "accelscope_collection_timestamp_seconds"
