"""The reference pages docs/metrics.md and docs/dialects.md."""

from collections.abc import Iterable

from accelscope.metrics.dialects import Dialect, Label, Section
from accelscope.metrics.family import SCOPE_LABELS, Family, Scope

_TITLES = {
    Scope.DEVICE: "Devices",
    Scope.PARTITION: "Partitions of devices",
    Scope.POD: "Pods on devices",
    Scope.POD_INFO: "Pods",
    Scope.UNATTRIBUTED: "Unattributed use",
    Scope.BALANCE: "Balances and shares of devices",
    Scope.UNKNOWN_ALLOCATION: "Allocations of unknown device ids",
    Scope.PROCESS: "Processes",
    Scope.READER: "Readers (self-metrics)",
    Scope.SOURCE: "Attribution sources (self-metrics)",
    Scope.SINK: "Sinks (self-metrics)",
    Scope.AGENT: "The agent (self-metrics)",
}

_FURTHER = {
    Scope.POD: "In addition `partition` if the container uses a partition, and the pod's `label_<name>`.",
    Scope.POD_INFO: "In addition the pod's `label_<name>`.",
    Scope.PROCESS: "In addition `partition` if the process uses a partition.",
}

_HEAD = """\
# Metrics

<!-- Generated from src/accelscope/metrics/catalogue by `make docs`. -->

Units are base units and part of the name: ratio 0-1, bytes, watts, joules, celsius, hertz, volts, amperes,
seconds. A value that the driver does not report has no series; it is never published as 0. A device that did
not answer keeps its identity (`accelerator_info`, `accelerator_up` 0, `accelerator_health`) and has no other
values.

Devices, partitions, pods and processes have separate families, so `sum()` over a family counts nothing twice.
The static labels of the node (`LABELS`), `node` and the labels of the Node object listed in `NODE_LABELS` are
on `accelerator_info` only. Join them where needed:
`accelerator_power_watts * on (cluster, job, instance, device) group_left (model, node) accelerator_info`.
Do not join on `device` alone: a device without UUID and serial number is identified by its PCI address, which
is not unique among nodes. `cluster` may be missing.

Values of pods are of three kinds, and the meaning begins with the kind: *measured* (from processes),
*allocated* (from the kubelet) and *apportioned* (from shares, or the energy of a device split by use). Use
that is not attributed to a pod is published too, so the parts add up: memory of pods + unattributed - surplus
= used memory of the device; energy of pods + idle energy = energy of the device.

`namespace`, `pod` and `container` name the workload, not the agent: scrape with `honor_labels: true`. Labels
of pods (`POD_LABELS`) and of the Node (`NODE_LABELS`) are published as `label_<name>`, with `_` in place of
each character that is not a letter, a digit or `_` (`app.kubernetes.io/name` becomes
`label_app_kubernetes_io_name`).

*Stable* families keep name, labels and meaning until the next major version; *experimental* ones may change.
"""


def reference(families: Iterable[Family]) -> str:
    listed = list(families)
    parts = [_HEAD]
    for scope, title in _TITLES.items():
        labels = ", ".join(f"`{label}`" for label in SCOPE_LABELS[scope])
        labels_text = f"Labels of every series: {labels}." if labels else "No common labels."
        if scope in _FURTHER:
            labels_text = f"{labels_text} {_FURTHER[scope]}"
        parts.append(f"\n## {title}\n\n{labels_text}\n")
        parts.append("\n| family | type | further labels | meaning |\n|---|---|---|---|\n")
        parts += [_row(family) for family in listed if family.scope is scope]
    return "".join(parts)


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    stability = "" if family.stability == "stable" else f" *({family.stability})*"
    text = family.help.replace("|", "\\|")
    return f"| `{family.name}` | {family.type} | {labels} | {text}{stability} |\n"


_DIALECTS_HEAD = """\
# Dialects: other exporters' names

<!-- Generated from the dialects in src/accelscope/vendors by `make docs`. -->

`--dialect NAME` (several are separated by commas) adds the metrics of another exporter to the page, in its
units and with its labels. Dashboards and alerts made for that exporter keep working. The native families
stay; `--metric-denylist 'accelerator_*'` removes them. A dialect contains only devices of its vendor, and
omits the values that its exporter omits.

Series have no timestamps. A counter whose name does not end in `_total` has the type `counter` in the text
format and `unknown` in OpenMetrics, which does not allow such a counter.

If the exporter has pod labels on device series, they name the pod to which the device is allocated. If it is
not allocated, they name the only pod whose processes use it. They are empty for a device that several pods
share. If two containers of one pod share it, the pod is named and the container is not.

| dialect | names of |
|---|---|
"""


def dialects_reference(dialects: Iterable[Dialect]) -> str:
    listed = list(dialects)
    parts = [_DIALECTS_HEAD, *(f"| [`{d.name}`](#{d.name}) | {d.exporter} |\n" for d in listed)]
    for dialect in listed:
        parts.append(f"\n## {dialect.name}\n\n{dialect.exporter}.\n\n")
        parts += [f"- {note}\n" for note in dialect.notes]
        if dialect.node_families:
            parts.append("\nOne series per node:\n")
            parts.append(_table(dialect.node_families))
        for section in dialect.sections:
            parts.append(f"\nLabels of every series: {_labels(section)}.\n")
            parts.append(_table(section.families))
        if dialect.optional_families:
            parts.append("\nOnly if listed in a counters file:\n")
            parts.append(_table(dialect.optional_families))
        if dialect.missing:
            parts.append("\nNot available:\n\n| names | reason |\n|---|---|\n")
            parts += [f"| {_cell(m.names)} | {_cell(m.why)} |\n" for m in dialect.missing]
    return "".join(parts)


def _labels(section: Section) -> str:
    leading = [_label(label) for label in section.labels.leading]
    others = [_label(label) for label in sorted(section.labels.others, key=lambda label: label.name)]
    return ", ".join([*leading, *others])


def _label(label: Label) -> str:
    return f"`{label.name}`" if label.keep_empty else f"`{label.name}` (where it has a value)"


def _table(families: Iterable[Family]) -> str:
    rows = "".join(
        f"| `{family.name}` | {family.type} | {', '.join(f'`{label}`' for label in family.labels)} "
        f"| {_cell(family.help)} |\n"
        for family in families
    )
    return f"\n| family | type | further labels | meaning |\n|---|---|---|---|\n{rows}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
