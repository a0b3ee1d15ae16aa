"""`vgpu`: the names of k8s-vgpu-monitor, which shows what each pod uses of a shared GPU."""

from collections.abc import Callable, Iterable, Mapping

from accelscope.metrics.dialects.amounts import MIB, fine_percent, mebibytes
from accelscope.metrics.dialects.dialect import Dialect, Label, Labels, Section, Values, gauges
from accelscope.metrics.dialects.view import DeviceView
from accelscope.metrics.family import Family, Number
from accelscope.model import PodUsage, Vendor

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
