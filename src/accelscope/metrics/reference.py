"""The reference page of metrics, made from the catalogue."""

from collections.abc import Iterable

from accelscope.metrics.dialects import Dialect, Label, Section
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


# --- reference ------------------------------------------------------------
# The reference page of dialects, made from them.


_REFERENCE_HEAD = """\
# Dialects: other exporters' names

<!-- Made from src/accelscope/metrics/dialects by `make docs`; a test compares them. -->

With `--dialect NAME` (several, separated by commas) the page also has the names of another exporter, in its
units and with its labels, so that dashboards and alerts that were made for it keep working. The native
families stay; `--metric-denylist 'accelerator_*'` removes them. A dialect shows only devices of its vendor,
and leaves out what its exporter would leave out.

No series has a timestamp of its own. A counter whose name does not end in `_total` is a `counter` in the
text format and `unknown` in OpenMetrics, which has no such counter.

If the exporter has labels for the pod on a device's series, they name the pod to which the device is
allocated; if there is none, the only pod whose processes use it. A device that several pods share names no
pod: its series have the values of all of them. If two containers of one pod have it, the pod is named and
the container is not.

| dialect | names of |
|---|---|
"""


def dialects_reference(dialects: Iterable[Dialect]) -> str:
    listed = list(dialects)
    parts = [_REFERENCE_HEAD, *(f"| [`{d.name}`](#{d.name}) | {d.exporter} |\n" for d in listed)]
    for dialect in listed:
        parts.append(f"\n## {dialect.name}\n\n{dialect.exporter}.\n\n")
        parts += [f"- {note}\n" for note in dialect.notes]
        if dialect.node_families:
            parts.append("\nAbout the node, one series each.\n")
            parts.append(_table(dialect.node_families))
        for section in dialect.sections:
            parts.append(f"\nLabels of every series: {_labels(section)}.\n")
            parts.append(_table(section.families))
        if dialect.optional_families:
            parts.append("\nOnly if a counters file names them:\n")
            parts.append(_table(dialect.optional_families))
        if dialect.missing:
            parts.append("\nNot there:\n\n| names | because |\n|---|---|\n")
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
