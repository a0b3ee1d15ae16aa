"""`openshift`: the names that the GPU operators' recording rules for OpenShift write, in the units they name.

The rules of NVIDIA's and AMD's operators record series of dcgm-exporter and of device-metrics-exporter under
common names, with all labels of the source. So a series here has the labels that its vendor's exporter
writes, and consumers that group by namespace or pod find them.
"""

from collections.abc import Callable, Iterable, Mapping

from accelscope.metrics.dialects import (
    MIB,
    DeviceView,
    Dialect,
    Label,
    Labels,
    Section,
    Values,
    fine_percent,
    gauge,
    gauges,
    mebibytes,
)
from accelscope.metrics.family import Family, Number
from accelscope.model import PodUsage, Vendor
from accelscope.vendors import declarations


def _index(view: DeviceView) -> str:
    return "" if view.device.index is None else str(view.device.index)


# As native families have them, so that all seven names can be joined.
_NATIVE = (
    Label("vendor", lambda v: v.device.vendor),
    Label("device", lambda v: v.device.id),
    Label("index", _index),
)
# Of dcgm-exporter: `device` is the native one here, and instances have no series of their own.
_LEFT_OUT = frozenset({"device", "GPU_I_PROFILE", "GPU_I_ID"})

# The clock of the part that computes, by the names that vendors have for it.
_COMPUTE_CLOCKS = ("sm", "graphics", "aicore", "npu", "ne_tensor")

_Value = Callable[[DeviceView], str | None]


def _labels(options: Mapping[str, str]) -> Labels:
    sources: dict[str, dict[str, _Value]] = {}
    for vendor in declarations().values():
        if vendor.exporter_labels:
            labels: Labels = vendor.load(vendor.exporter_labels)(options)
            sources[vendor.name] = {label.name: label.value for label in (*labels.leading, *labels.others)}
    others: dict[str, _Value] = {
        "namespace": lambda v: v.namespace,
        "pod": lambda v: v.pod,
        "container": lambda v: v.container,
    }

    def value_of(name: str) -> _Value:
        def value(view: DeviceView) -> str | None:
            found = sources.get(view.device.vendor, others).get(name)
            return found(view) if found is not None else None

        return value

    names = {name for source in (*sources.values(), others) for name in source} - _LEFT_OUT
    return Labels(
        leading=_NATIVE,
        others=(
            Label("accelerator_id", _index, keep_empty=False),
            *(Label(name, value_of(name), keep_empty=False) for name in sorted(names)),
        ),
    )


def _clock(view: DeviceView, *domains: str) -> float | None:
    found = {clock.domain: clock.hertz for clock in view.device.clocks}
    return next((found[domain] for domain in domains if found.get(domain) is not None), None)


def openshift(options: Mapping[str, str]) -> Dialect:
    return Dialect(
        name="openshift",
        exporter="Recording rules for OpenShift of NVIDIA's (v25.10.0 and later) and AMD's GPU operators",
        vendors=(),
        sections=(
            Section(
                _labels(options),
                (
                    gauge(
                        "accelerator_gpu_utilization",
                        "Fraction of time during which a kernel was running on the device, in %.",
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
        notes=NOTES,
    )


NOTES = (
    "The other three of the seven names are native families, which are always on the page: "
    "`accelerator_memory_used_bytes`, `accelerator_memory_total_bytes`, `accelerator_temperature_celsius`. "
    "They have the labels `vendor`, `device` and `index` only. For memory by namespace use "
    "`accelerator_pod_memory_used_bytes`.",
    "**Where the operators' rules are loaded, too, these three names clash**: the recorded series hold a "
    "percentage of memory traffic or MB, the native ones bytes. The same happens if the rules find the "
    "names of the dialects `dcgm` or `amd`. Either remove the rules, or [keep the three out of the "
    "scrape](switching/dcgm-exporter.md#openshifts-recording-rules).",
    "Devices of every vendor are shown; `vendor` names the vendor. `vendor`, `device` and `index` are those "
    "of native families, so that the seven can be joined. NVIDIA GPUs also have the labels of the dialect "
    "`dcgm` (without its `device`, `GPU_I_PROFILE` and `GPU_I_ID`), AMD GPUs those of the dialect `amd`, "
    "all others `namespace`, `pod` and `container`. `accelerator_id` is the device's index, as in AMD's "
    "rules.",
    "`namespace`, `pod` and `container` name the workload, as in the dialects `dcgm` and `amd`. The chart's "
    "monitors copy them to `exported_namespace`, `exported_pod` and `exported_container`, which NVIDIA's "
    "rules have.",
    "The operators' rules give used memory as a percentage of memory traffic (NVIDIA) or in MB (AMD), total "
    "memory in MB (NVIDIA's by default not at all) and clocks in MHz. Here each name holds what it says.",
    "v25.10.0 writes `accelerator_temperature_celcius`; the name here is that of v26.3.0 and later.",
)


# --- vgpu ------------------------------------------------------------
# `vgpu`: the names of k8s-vgpu-monitor, which shows what each pod uses of a shared GPU.


LABELS = Labels(others=(Label("gpu_id", lambda v: str(v.device.index)),))


def cards(view: DeviceView) -> Iterable[DeviceView]:
    """Those that their index tells apart: two vendors both have a card 0, and so may a lost card and the one
    that took its number."""
    device = view.device
    told_apart = device.index is not None and not device.stale
    nvidia = {d.vendor for d in view.node.devices} >= {Vendor("nvidia")}
    return (view,) if told_apart and (device.vendor is Vendor("nvidia") or not nvidia) else ()


def _by_pod(
    name: str, text: str, part: Callable[[PodUsage], float | None], unit: Callable[[float], Number]
) -> Family:
    """One series for each pod on a card: all its containers, on all of the card's partitions, together."""

    def values(view: DeviceView) -> Values:
        totals: dict[tuple[str, str], float] = {}
        for usage in view.usages:
            value, pod = part(usage), (usage.namespace, usage.pod)
            if value is not None:
                totals[pod] = totals.get(pod, 0) + value
        return [(pod, unit(total)) for pod, total in totals.items()]

    return gauges(name, text, ("namespace", "pod"), values)


def vgpu(_: Mapping[str, str]) -> Dialect:
    return Dialect(
        name="vgpu",
        exporter="k8s-vgpu-monitor",
        vendors=(Vendor("nvidia"), Vendor("amd")),
        sections=(
            Section(
                LABELS,
                (
                    _by_pod(
                        "pod_gpu_sm_util",
                        "Utilisation of the card by the pod's processes, added up, in %.",
                        lambda u: u.utilization_ratio,
                        fine_percent,
                    ),
                    _by_pod(
                        "pod_gpu_memory_used",
                        "Memory of the card that the pod's processes hold, in MB of 2^20 bytes.",
                        lambda u: u.memory_used_bytes,
                        mebibytes,
                    ),
                    _by_pod(
                        "pod_total_gpu_memory",
                        "Memory of the pod's share of the card, in MB of 2^20 bytes.",
                        lambda u: u.memory_share_bytes,
                        lambda size: size / MIB,
                    ),
                ),
            ),
        ),
        divide=cards,
        notes=(
            "`gpu_id` is the card's index on the node. There it is the place among the cards of the pod, "
            "which names different cards alike.",
            "`namespace` is new: pods of two namespaces may have the same name.",
            "`pod_gpu_sm_util` is the plain sum over the pod's processes. There it is multiplied by the "
            "number of shares, against what its own documentation says.",
            "`pod_total_gpu_memory` is there for pods that hold a share of known size (`gpu_allocation.txt`, "
            "`shares` in the settings file, or a scheduler's annotation), and absent without.",
            "A pod that holds a card and runs nothing on it has 0 in the first two, where the driver tells "
            "of processes.",
            "On a node with GPUs of both vendors NVIDIA's are shown, because `gpu_id` does not tell whose "
            "card 0 is meant. `accelerator_pod_*` have all.",
        ),
    )
