"""`furiosa`: the names of FuriosaAI's npu-metrics-exporter of the Warboy era, in the driver's own units."""

from accelscope.metrics.dialects.amounts import millionths, thousandths
from accelscope.metrics.dialects.dialect import Dialect, Label, Labels, Section, gauge, gauges
from accelscope.metrics.dialects.furiosa_card import alive, architecture, core_range, core_utilization
from accelscope.metrics.dialects.view import DeviceView
from accelscope.model import Vendor

_CARD_POWER = {"warboy": "PCI Total RMS PWR"}  # what the driver calls the power of the whole card
# The exporter that came with RNGD has names of its own for these.
_LATER_CARD_POWER = "rms"
_LATER_TEMPERATURES = {"PEAK": "peak", "AMBIENT": "ambient"}

LABELS = Labels(
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


def dialect() -> Dialect:
    return Dialect(
        name="furiosa",
        exporter="FuriosaAI npu-metrics-exporter (Warboy era, up to 2025.1.0 in its labels)",
        vendors=(Vendor.FURIOSA,),
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
                    gauges(
                        "furiosa_npu_error",
                        "Errors that the card counted, by kind.",
                        ("label",),
                        lambda v: [((error.code,), error.count) for error in v.device.errors],
                    ),
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
            "furiosa-metrics-exporter 2024.1 to 2025.1 has these labels and power in microwatts, but "
            "temperatures in degrees: divide by 1000 when you compare.",
            "`core` is the range of all cores: `0-1` on Warboy, `0-7` on RNGD.",
            "Cannot be on together with `furiosa-2025`, which has the same names in other units.",
        ),
    )
