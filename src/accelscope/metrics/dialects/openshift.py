"""`openshift`: the recording names of the NVIDIA GPU operator on OpenShift, in the units that they name."""

from accelscope.metrics.dialects.amounts import fine_percent
from accelscope.metrics.dialects.dialect import Dialect, Label, Labels, Section, gauge
from accelscope.metrics.dialects.view import DeviceView

# As native families have them, so that all seven names fit together.
LABELS = Labels(
    leading=(
        Label("vendor", lambda v: v.device.vendor),
        Label("device", lambda v: v.device.id),
        Label("index", lambda v: "" if v.device.index is None else str(v.device.index)),
    )
)

# Which clock of a vendor stands for the part that computes.
_COMPUTE_CLOCKS = ("sm", "graphics", "aicore", "npu", "ne_tensor")


def _clock(view: DeviceView, *domains: str) -> float | None:
    found = {clock.domain: clock.hertz for clock in view.device.clocks}
    return next((found[domain] for domain in domains if found.get(domain) is not None), None)


def dialect() -> Dialect:
    return Dialect(
        name="openshift",
        exporter="NVIDIA GPU operator, recording rules for OpenShift (v25.10.0 and later)",
        vendors=(),
        sections=(
            Section(
                LABELS,
                (
                    gauge(
                        "accelerator_gpu_utilization",
                        "Share of time in which anything ran on the device, in %.",
                        lambda v: fine_percent(v.device.utilization_ratio),
                    ),
                    gauge(
                        "accelerator_power_usage_watts",
                        "Power drawn by the device, in watts.",
                        lambda v: v.device.power_watts,
                    ),
                    gauge(
                        "accelerator_sm_clock_hertz",
                        "Clock of the part of the device that computes, in hertz.",
                        lambda v: _clock(v, *_COMPUTE_CLOCKS),
                    ),
                    gauge(
                        "accelerator_memory_clock_hertz",
                        "Clock of the device's memory, in hertz.",
                        lambda v: _clock(v, "memory"),
                    ),
                ),
            ),
        ),
        notes=(
            "The other three of the seven names are native families and always there: "
            "`accelerator_memory_used_bytes`, `accelerator_memory_total_bytes`, "
            "`accelerator_temperature_celsius`.",
            "Devices of every vendor are shown; `vendor` tells whose. The labels are those of native "
            "families (`vendor`, `device`, `index`), so that the seven can be joined.",
            "The operator's rules give used memory as a percentage of memory traffic, total memory in MiB "
            "(and by default not at all) and clocks in MHz. Here each name holds what it says.",
            "v25.10.0 writes `accelerator_temperature_celcius`; the name here is that of v26.3.0 and later.",
        ),
    )
