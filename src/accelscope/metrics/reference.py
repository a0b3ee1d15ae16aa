"""The reference page of metrics, made from the catalogue."""

from collections.abc import Iterable

from accelscope.metrics.family import SCOPE_LABELS, Family, Scope

_TITLES = {
    Scope.DEVICE: "Devices",
    Scope.PARTITION: "Partitions of devices",
    Scope.POD: "Pods on devices",
    Scope.POD_INFO: "Pods",
    Scope.UNATTRIBUTED: "What is no pod's",
    Scope.BALANCE: "What makes a device's parts add up",
    Scope.UNKNOWN_ALLOCATION: "Device ids that nobody knows",
    Scope.PROCESS: "Processes",
    Scope.READER: "Readers (self-metrics)",
    Scope.SOURCE: "Sources of attribution (self-metrics)",
    Scope.SINK: "Sinks (self-metrics)",
    Scope.AGENT: "The agent (self-metrics)",
}

_FURTHER = {
    Scope.POD: "`partition` too for a container in a partition of its device; then the pod's `label_<name>`.",
    Scope.POD_INFO: "Then the pod's `label_<name>`.",
    Scope.PROCESS: "`partition` too for a process in a partition of its device.",
}

_HEAD = """\
# Metrics

<!-- Made from src/accelscope/metrics/catalogue by `make docs`; a test compares them. -->

Units are base units and stand in the name: ratio 0-1, bytes, watts, joules, celsius, hertz, volts, amperes,
seconds. A value that a driver does not give has no series: absent is never 0. A device that did not answer
keeps its identity (`accelerator_info`, `accelerator_up` 0, `accelerator_health`) and loses its values.

Families of devices, partitions, pods and processes are different families, so `sum()` over any of them is
right. The node's static labels (`LABELS`), `node` and the labels of the Node object that `NODE_LABELS` names
stand on `accelerator_info` only; join them where needed:
`accelerator_power_watts * on (cluster, job, instance, device) group_left (model, node) accelerator_info`.
`device` alone will not do: a device that tells neither UUID nor serial is called by its PCI address, which
other nodes have too. `cluster` may be missing.

Numbers about pods are of three kinds, and their meaning begins with the kind: *measured* (from processes),
*allocated* (from the kubelet) and *apportioned* (from shares, or a device's energy split by use). What is no
pod's is there too, so the parts add up to the whole: memory of pods + unattributed - surplus = used by the
device; energy of pods + idle energy = energy of the device.

`namespace`, `pod` and `container` name the workload, not the agent: scrape with `honor_labels: true`. Labels
of pods that `POD_LABELS` names, and of the Node, are `label_<name>`, with `_` for each character that is no
letter, digit or `_` (`app.kubernetes.io/name` is `label_app_kubernetes_io_name`).

*Stable* families keep name, labels and meaning until the next major version; *experimental* ones may change.
"""


def reference(families: Iterable[Family]) -> str:
    listed = list(families)
    parts = [_HEAD]
    for scope, title in _TITLES.items():
        labels = ", ".join(f"`{label}`" for label in SCOPE_LABELS[scope])
        said = f"Labels of every series: {labels}." if labels else "Without labels."
        if scope in _FURTHER:
            said = f"{said} {_FURTHER[scope]}"
        parts.append(f"\n## {title}\n\n{said}\n")
        parts.append("\n| family | type | further labels | meaning |\n|---|---|---|---|\n")
        parts += [_row(family) for family in listed if family.scope is scope]
    return "".join(parts)


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    stability = "" if family.stability == "stable" else f" *({family.stability})*"
    text = family.help.replace("|", "\\|")
    return f"| `{family.name}` | {family.type} | {labels} | {text}{stability} |\n"
