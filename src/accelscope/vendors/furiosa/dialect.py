"""`furiosa-2025`: the names of FuriosaAI's current furiosa-metrics-exporter."""

from accelscope.metrics.dialects.amounts import megahertz
from accelscope.metrics.dialects.between import Changes
from accelscope.metrics.dialects.dialect import Dialect, Label, Labels, Section, counters, gauge, gauges
from accelscope.metrics.dialects.furiosa_card import alive, architecture, core_range, core_utilization
from accelscope.metrics.dialects.view import DeviceView
from accelscope.metrics.family import Family
from accelscope.model import Vendor

_WINDOW_SECONDS = 300.0  # in which the exporter counts changes of a throttle reason
_TEMPERATURES = ("ambient", "peak")
_REASONS = (
    "idle",
    "thermal_slowdown",
    "app_power_cap",
    "app_clock_cap",
    "hw_clock_cap",
    "hw_bus_limit",
    "hw_power_cap",
    "other_reason",
)

LABELS = Labels(
    others=(
        Label("arch", architecture, keep_empty=False),
        Label("container", lambda v: v.container, keep_empty=False),
        Label("core", core_range, keep_empty=False),
        Label("device", lambda v: v.device.device_name, keep_empty=False),
        Label("driver_version", lambda v: v.device.driver_version, keep_empty=False),
        Label("firmware_version", lambda v: v.device.firmware_version, keep_empty=False),
        Label("hostname", lambda v: v.node.name, keep_empty=False),
        Label("namespace", lambda v: v.namespace, keep_empty=False),
        Label("pci_bus_id", lambda v: v.device.pci_address, keep_empty=False),
        Label("pod", lambda v: v.pod, keep_empty=False),
        Label("uuid", lambda v: v.device.uuid, keep_empty=False),
    )
)


def _temperatures(view: DeviceView) -> list[tuple[tuple[str, ...], float | None]]:
    found = {sensor.name.lower(): sensor.celsius for sensor in view.device.sensors}
    return [((name,), found.get(name)) for name in _TEMPERATURES]


def _throttling() -> Family:
    changes = Changes(_WINDOW_SECONDS)

    def counts(view: DeviceView) -> list[tuple[tuple[str, ...], int]]:
        states = {t.reason: t.active for t in view.device.throttles if t.reason in _REASONS}
        counted = changes.counts(view.device.id, view.device.read_at, states)
        return [((reason,), counted[reason]) for reason in _REASONS if reason in counted]

    return gauges(
        "furiosa_npu_throttling_events_count",
        "How often a reason to slow down came or went within the last 300 seconds.",
        ("label",),
        counts,
    )


def dialect() -> Dialect:
    return Dialect(
        name="furiosa-2025",
        exporter="FuriosaAI furiosa-metrics-exporter, its labels after 2025.2.0 (without pert_version)",
        vendors=(Vendor.FURIOSA,),
        sections=(
            Section(
                LABELS,
                (
                    gauge("furiosa_npu_alive", "1 if the card answers.", alive),
                    gauges(
                        "furiosa_npu_hw_temperature",
                        "Temperature of the board (ambient) and at the hottest place of the chip (peak), in "
                        "degrees Celsius.",
                        ("label",),
                        _temperatures,
                    ),
                    gauges(
                        "furiosa_npu_hw_power",
                        "Power of the card, in W.",
                        ("label",),
                        lambda v: [(("rms",), v.device.power_watts)],
                    ),
                    gauge(
                        "furiosa_npu_dram_total",
                        "Memory of the card, in bytes.",
                        lambda v: v.device.memory_total_bytes,
                    ),
                    gauge(
                        "furiosa_npu_dram_usage",
                        "Memory of the card that is in use, in bytes.",
                        lambda v: v.device.memory_used_bytes,
                    ),
                    _throttling(),
                ),
            ),
            Section(
                LABELS.without("core"),
                (
                    core_utilization(),
                    gauges(
                        "furiosa_npu_core_frequency",
                        "Clock of a core, in MHz.",
                        ("core",),
                        lambda v: [((str(c.index),), megahertz(c.clock_hertz)) for c in v.device.cores],
                    ),
                    counters(
                        "furiosa_npu_total_cycle_count",
                        "Cycles of a core since the card was started.",
                        ("core",),
                        lambda v: [((str(c.index),), c.cycles_total) for c in v.device.cores],
                    ),
                    counters(
                        "furiosa_npu_task_execution_cycle",
                        "Cycles of a core in which a task ran, since the card was started.",
                        ("core",),
                        lambda v: [((str(c.index),), c.task_cycles_total) for c in v.device.cores],
                    ),
                ),
            ),
        ),
        notes=(
            "A label without a value is left out, as there; `hostname` is the node's name.",
            "`namespace`, `pod` and `container` name who holds the card, else the only pod whose processes "
            "use it.",
            "A card that several pods share has one series, not one more for each pod: sums are right. It "
            "names no pod; `accelerator_pod_*` tell them apart.",
            "`furiosa_npu_total_cycle_count` and `furiosa_npu_task_execution_cycle` need a driver of RNGD "
            "that has the file `metrics` for each core (2026.4).",
            "`furiosa_npu_throttling_events_count` counts what changed between two readings of the agent.",
            "Cannot be on together with `furiosa`, which has the same names in other units.",
        ),
    )
