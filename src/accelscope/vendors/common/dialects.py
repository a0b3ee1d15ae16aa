"""Dialects of several vendors: `openshift` and `vgpu`.

`openshift` has the names of the GPU operators' recording rules for OpenShift, in the units of these names.
The rules of NVIDIA's and AMD's operators record the series of dcgm-exporter and device-metrics-exporter under
common names, with all labels of the source. A series here therefore has the labels of its vendor's exporter,
and queries that group by namespace or pod work.

`vgpu` has the names of k8s-vgpu-monitor, which shows what each pod uses of a shared GPU.
"""

from collections.abc import Callable, Iterable, Mapping

from accelscope.metrics.dialects import (
    MIB,
    DeviceView,
    Dialect,
    Label,
    LabelOrder,
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


# The labels of native families, so that all seven names can be joined.
_NATIVE = (
    Label("vendor", lambda v: v.device.vendor),
    Label("device", lambda v: v.device.id),
    Label("index", _index),
)
_OMITTED = frozenset({"device"})  # it has its native meaning here

# Names of the compute clock.
_COMPUTE_CLOCKS = ("sm", "graphics", "aicore", "npu", "ne_tensor")

_Value = Callable[[DeviceView], str | None]


def _labels(options: Mapping[str, str]) -> LabelOrder:
    sources: dict[str, dict[str, _Value]] = {}
    for vendor in declarations().values():
        if vendor.exporter_labels:
            labels: LabelOrder = vendor.load(vendor.exporter_labels)(options)
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

    names = {name for source in (*sources.values(), others) for name in source} - _OMITTED
    return LabelOrder(
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


_EXPORTER_LABELS = ", ".join(
    f"{vendor.title} GPUs also have the labels of the dialect `{vendor.dialects[0].name}`"
    for vendor in declarations().values()
    if vendor.exporter_labels
)

NOTES = (
    "The other three of the seven names are native families, which are always on the page: "
    "`accelerator_memory_used_bytes`, `accelerator_memory_total_bytes`, `accelerator_temperature_celsius`. "
    "They have the labels `vendor`, `device` and `index` only. For memory by namespace use "
    "`accelerator_pod_memory_used_bytes`.",
    "**If the operators' rules are loaded too, these three names clash**: the recorded series contain a "
    "percentage of memory traffic or MB, the native ones bytes. The same happens if the rules find the "
    "names of the dialects `dcgm` or `amd`. Either remove the rules, or [drop the three from the "
    "scrape](switching/dcgm-exporter.md#openshifts-recording-rules).",
    "Devices of every vendor are shown. `vendor`, `device` and `index` are those "
    f"of native families, so that the seven can be joined. {_EXPORTER_LABELS}, all others `namespace`, "
    "`pod` and `container`. Instances of GPUs have no series of their own. `accelerator_id` is the device's "
    "index, as in AMD's rules.",
    "`namespace`, `pod` and `container` name the workload, as in the dialects `dcgm` and `amd`. The chart's "
    "monitors copy them to `exported_namespace`, `exported_pod` and `exported_container`, which NVIDIA's "
    "rules have.",
    "The operators' rules give used memory as a percentage of memory traffic (NVIDIA) or in MB (AMD), total "
    "memory in MB (NVIDIA's by default not at all) and clocks in MHz. Here a value has the unit of its name.",
    "v25.10.0 writes `accelerator_temperature_celcius`; the name here is that of v26.3.0 and later.",
)


def _gpu_vendors() -> tuple[Vendor, ...]:
    return tuple(Vendor(vendor.name) for vendor in declarations().values() if vendor.makes_gpus)


def _first_gpu_vendor() -> str:
    return next(vendor.title for vendor in declarations().values() if vendor.makes_gpus)


def _with_unique_index(view: DeviceView) -> Iterable[DeviceView]:
    """Only one vendor's GPUs, and no stale ones: two vendors may both have a card 0, and so may a lost card
    and its successor."""
    device = view.device
    present = {each.vendor for each in view.node.devices}
    shown = next((vendor for vendor in _gpu_vendors() if vendor in present), None)
    return (view,) if device.index is not None and not device.stale and device.vendor == shown else ()


def _by_pod(
    name: str, text: str, part: Callable[[PodUsage], float | None], unit: Callable[[float], Number]
) -> Family:
    """One series for each pod on a card: the sum over its containers and the card's partitions."""

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
        vendors=_gpu_vendors(),
        sections=(
            Section(
                LabelOrder(others=(Label("gpu_id", lambda v: str(v.device.index)),)),
                (
                    _by_pod(
                        "pod_gpu_sm_util",
                        "Sum of the utilisation of the card by the pod's processes, in %.",
                        lambda u: u.utilization_ratio,
                        fine_percent,
                    ),
                    _by_pod(
                        "pod_gpu_memory_used",
                        "Memory of the card used by the pod's processes, in MB of 2^20 bytes.",
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
        divide=_with_unique_index,
        notes=(
            "`gpu_id` is the card's index on the node. In k8s-vgpu-monitor it is the position among the "
            "pod's cards, so that different cards have the same `gpu_id`.",
            "`namespace` is new: pods of two namespaces may have the same name.",
            "`pod_gpu_sm_util` is the sum over the pod's processes. k8s-vgpu-monitor multiplies it by the "
            "number of shares, contrary to its own documentation.",
            "`pod_total_gpu_memory` exists for pods with a share of known size (`gpu_allocation.txt`, "
            "`shares` in the settings file, or a scheduler's annotation).",
            "A pod that is allocated a card and runs nothing on it has 0 in the first two, if the driver "
            "lists processes.",
            f"On a node with GPUs of several vendors only {_first_gpu_vendor()}'s are shown, because "
            "`gpu_id` does not identify the vendor. `accelerator_pod_*` contain all.",
        ),
    )
