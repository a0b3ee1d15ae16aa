"""Names of FuriosaAI's own programs: metrics (the dialects `furiosa`, `furiosa-2024` and `furiosa-2025`) and
Node labels.

The dialects have the names of FuriosaAI's exporters, of the Warboy era, of the first years of RNGD, and of
today. The labels are those of its feature discovery.
"""

import re
from collections.abc import Iterator, Mapping

from accelscope.metrics.dialects import (
    ChangeCounter,
    DeviceView,
    Dialect,
    Label,
    LabelOrder,
    Section,
    counters,
    fine_percent,
    gauge,
    gauges,
    megahertz,
    millionths,
    thousandths,
)
from accelscope.metrics.family import Family
from accelscope.model import HealthState, Vendor
from accelscope.sinks.documents import Fact, Machine, NodeFacts, version_parts

_CORES = {"warboy": 2, "rngd": 8}


def architecture(view: DeviceView) -> str:
    return (view.device.architecture or view.device.model or "").lower()


def core_range(view: DeviceView) -> str:
    """All cores of the card, as the exporters write them: `0-7`."""
    if view.device.cores:
        return f"0-{max(core.index for core in view.device.cores)}"
    count = _CORES.get(architecture(view))
    return "" if count is None else f"0-{count - 1}"


def alive(view: DeviceView) -> bool | None:
    """None if the health is unknown."""
    state = view.device.health.state
    if view.device.stale or state in (HealthState.CRITICAL, HealthState.LOST):
        return False
    return None if state is HealthState.UNKNOWN else True


def core_utilization() -> Family:
    return gauges(
        "furiosa_npu_core_utilization",
        "Fraction of time during which a core was running, in %.",
        ("core",),
        lambda v: [((str(c.index),), fine_percent(c.utilization_ratio)) for c in v.device.cores],
    )


# `furiosa`: the names of FuriosaAI's npu-metrics-exporter of the Warboy era, in the driver's own units.

_CARD_POWER = {"warboy": "PCI Total RMS PWR"}  # what the driver calls the power of the whole card
# The exporter that came with RNGD has names of its own for these.
_LATER_CARD_POWER = "rms"
_LATER_TEMPERATURES = {"PEAK": "peak", "AMBIENT": "ambient"}

LABELS = LabelOrder(
    others=(
        Label("arch", architecture),
        Label("core", core_range),
        Label("device", lambda v: v.device.device_name),
        Label("kubernetes_node_name", lambda v: v.node.name),
        Label("uuid", lambda v: v.device.uuid),
    )
)


def _powers(view: DeviceView) -> list[tuple[tuple[str, ...], int | None]]:
    """The card, and the rails that have a power of their own."""
    label = _CARD_POWER.get(architecture(view), _LATER_CARD_POWER)
    card = ((label,), millionths(view.device.power_watts))
    rails = [((rail.name,), millionths(rail.watts)) for rail in view.device.rails]
    return [card, *(rail for rail in rails if rail[0] != card[0])]


def _temperatures(view: DeviceView) -> list[tuple[tuple[str, ...], int | None]]:
    later = {} if architecture(view) in _CARD_POWER else _LATER_TEMPERATURES
    return [((later.get(s.name, s.name),), thousandths(s.celsius)) for s in view.device.sensors]


def _errors() -> Family:
    return gauges(
        "furiosa_npu_error",
        "Errors that the card counted, by kind.",
        ("label",),
        lambda v: [((error.code,), error.count) for error in v.device.errors],
    )


def dialect(_: Mapping[str, str]) -> Dialect:
    return Dialect(
        name="furiosa",
        exporter="FuriosaAI npu-metrics-exporter (Warboy era, up to 2025.1.0 in its labels)",
        vendors=(Vendor("furiosa"),),
        sections=(
            Section(
                LABELS,
                (
                    gauge("furiosa_npu_alive", "1 if the card answers.", alive),
                    gauge(
                        "furiosa_npu_uptime",
                        "Time since the card was started, in seconds.",
                        lambda v: v.device.uptime_seconds,
                    ),
                    _errors(),
                    gauges(
                        "furiosa_npu_hw_temperature",
                        "Temperature of a part of the card, in thousandths of a degree Celsius.",
                        ("label",),
                        _temperatures,
                    ),
                    gauges(
                        "furiosa_npu_hw_power",
                        "Power of the card and of its rails, in microwatts.",
                        ("label",),
                        _powers,
                    ),
                    gauges(
                        "furiosa_npu_hw_voltage",
                        "Voltage of a rail of the card, in millivolts.",
                        ("label",),
                        lambda v: [((r.name,), thousandths(r.volts)) for r in v.device.rails],
                    ),
                    gauges(
                        "furiosa_npu_hw_current",
                        "Current of a rail of the card, in milliamperes.",
                        ("label",),
                        lambda v: [((r.name,), thousandths(r.amperes)) for r in v.device.rails],
                    ),
                ),
            ),
            Section(LABELS.without("core"), (core_utilization(),)),
        ),
        notes=(
            "Units are those of the driver: thousandths of a degree, microwatts, millivolts, milliamperes.",
            "`label` is the driver's name of the sensor, rail or error counter. The card's power is `PCI "
            "Total RMS PWR` on Warboy and `rms` on RNGD; RNGD's temperatures are `peak` and `ambient`, as "
            "furiosa-metrics-exporter 2024.1 writes them.",
            "furiosa-metrics-exporter 2024.1 to 2025.1 has these labels, but temperatures in degrees: use "
            "the dialect `furiosa-2024` for it.",
            "`core` is the range of all cores: `0-1` on Warboy, `0-7` on RNGD.",
            "Cannot be on together with `furiosa-2024` or `furiosa-2025`, which have the same names in other "
            "units.",
        ),
    )


# `furiosa-2024`: the names of furiosa-metrics-exporter before it had labels of pods.


def dialect_2024(_: Mapping[str, str]) -> Dialect:
    return Dialect(
        name="furiosa-2024",
        exporter="FuriosaAI furiosa-metrics-exporter 2024.1 to 2025.1",
        vendors=(Vendor("furiosa"),),
        sections=(
            Section(
                LABELS,
                (
                    gauge("furiosa_npu_alive", "1 if the card answers.", alive),
                    _errors(),
                    _board_temperatures(),
                    gauges(
                        "furiosa_npu_hw_power",
                        "Power of the card, in microwatts.",
                        ("label",),
                        lambda v: [((_LATER_CARD_POWER,), millionths(v.device.power_watts))],
                    ),
                ),
            ),
            Section(LABELS.without("core"), (core_utilization(),)),
        ),
        notes=(
            "Temperatures are in degrees and power is in microwatts, as in the page that the vendor "
            "documents for 2024.1.",
            "2025.1 has no `furiosa_npu_error`.",
            "Cannot be on together with `furiosa` or `furiosa-2025`, which have the same names in other "
            "units.",
        ),
    )


# `furiosa-2025`: the names of FuriosaAI's current furiosa-metrics-exporter.

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

_LABELS_2025 = LabelOrder(
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


def _temperatures_2025(view: DeviceView) -> list[tuple[tuple[str, ...], float | None]]:
    found = {sensor.name.lower(): sensor.celsius for sensor in view.device.sensors}
    return [((name,), found.get(name)) for name in _TEMPERATURES]


def _board_temperatures() -> Family:
    return gauges(
        "furiosa_npu_hw_temperature",
        "Temperature of the board (ambient) and at the hottest place of the chip (peak), in degrees Celsius.",
        ("label",),
        _temperatures_2025,
    )


def _throttling() -> Family:
    changes = ChangeCounter(_WINDOW_SECONDS)

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


def dialect_2025(_: Mapping[str, str]) -> Dialect:
    return Dialect(
        name="furiosa-2025",
        exporter="FuriosaAI furiosa-metrics-exporter, its labels after 2025.2.0 (without pert_version)",
        vendors=(Vendor("furiosa"),),
        sections=(
            Section(
                _LABELS_2025,
                (
                    gauge("furiosa_npu_alive", "1 if the card answers.", alive),
                    _board_temperatures(),
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
                _LABELS_2025.without("core"),
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
            "`namespace`, `pod` and `container` name the pod to which the card is allocated, else the only "
            "pod whose processes use it.",
            "A card that several pods share has one series, not one per pod, so sums are right. Its pod "
            "labels are empty; `accelerator_pod_*` have values per pod.",
            "`furiosa_npu_total_cycle_count` and `furiosa_npu_task_execution_cycle` need a driver of RNGD "
            "that has the file `metrics` for each core (2026.4).",
            "`furiosa_npu_throttling_events_count` counts what changed between two readings of the agent.",
            "Cannot be on together with `furiosa` or `furiosa-2024`, which have the same names in other "
            "units.",
        ),
    )


# --- Node labels ----------------------------------------------------------


_PRODUCT = re.compile(r"rngd(?:-(?:max|s))?(?![a-z0-9])|warboy(?:[ _-]?b0)?|renegade", re.IGNORECASE)
_FORMER_FAMILIES = {"warboy": "warboy", "rngd": "renegade"}
# Labels of driver and firmware: with `npu.` in Furiosa's documents, without it in its program. Selectors may
# use either.
_PREFIXES = ("", "npu.")


def former_labels(facts: NodeFacts, machine: Machine) -> Iterator[Fact]:
    """Of beta.furiosa.ai."""
    yield "npu.count", str(facts.count)
    product = _product(facts)
    yield "npu.product", product if product is None or product.startswith("warboy") else "renegade"
    yield "npu.family", _FORMER_FAMILIES.get(facts.family or "")
    yield "machine.vendor", machine.vendor
    yield "machine.name", machine.name
    if facts.driver is not None:
        yield "driver.version", facts.driver.numbers
        yield from version_parts("driver.version", facts.driver)
        yield "driver.reference", facts.driver.reference


def labels(facts: NodeFacts, _: Machine) -> Iterator[Fact]:
    """Of furiosa.ai."""
    product = _product(facts)
    yield "npu.count", str(facts.count)
    yield "npu.product", "warboy" if product == "warboyB0" else product
    yield "npu.family", facts.family
    for prefix in _PREFIXES:
        for what, version in (("driver", facts.driver), ("firmware", facts.firmware)):
            if version is not None:
                name = f"{prefix}{what}.version"
                yield name, version.numbers
                yield from version_parts(name, version)
                yield f"{name}.metadata", version.reference
                yield f"{name}.prerelease", version.prerelease


def _product(facts: NodeFacts) -> str | None:
    """`warboy`, `warboyB0`, `rngd`, `rngd-s` or `rngd-max`, from the card's name in the driver or tool. The
    revision of the silicon shows a B0."""
    found = _PRODUCT.search(facts.product or "")
    if found is None:
        return None
    name = found[0].casefold()
    if name.startswith("warboy"):
        is_b0 = name.endswith("b0") or (facts.revision or "").casefold() == "b0"
        return "warboyB0" if is_b0 else "warboy"
    return "rngd" if name == "renegade" else name
