"""The reference page of metrics, made from the catalogue."""

from collections.abc import Iterable

from accelscope.metrics.family import SCOPE_LABELS, Family, Scope

_TITLES = {
    Scope.DEVICE: "Devices",
    Scope.PARTITION: "Partitions of devices",
    Scope.PROCESS: "Processes",
    Scope.READER: "Readers (self-metrics)",
    Scope.AGENT: "The agent (self-metrics)",
}

_HEAD = """\
# Metrics

<!-- Made from src/accelscope/metrics/catalogue by `make docs`; a test compares them. -->

Units are base units and stand in the name: ratio 0-1, bytes, watts, joules, celsius, hertz, volts, amperes,
seconds. A value that a driver does not give has no series: absent is never 0. A device that did not answer
keeps its identity (`accelerator_info`, `accelerator_up` 0, `accelerator_health`) and loses its values.

Families of devices, partitions and processes are different families, so `sum()` over any of them is right.
The node's static labels (`LABELS`) and `node` stand on `accelerator_info` only; join them where needed:
`accelerator_power_watts * on (device) group_left (model, node) accelerator_info`.

*Stable* families keep name, labels and meaning until the next major version; *experimental* ones may change.
"""


def reference(families: Iterable[Family]) -> str:
    listed = list(families)
    parts = [_HEAD]
    for scope, title in _TITLES.items():
        labels = ", ".join(f"`{label}`" for label in SCOPE_LABELS[scope])
        said = f"Labels of every series: {labels}." if labels else "Without labels."
        if scope is Scope.PROCESS:
            said += " `partition` too for a process in a partition of its device."
        parts.append(f"\n## {title}\n\n{said}\n")
        parts.append("\n| family | type | further labels | meaning |\n|---|---|---|---|\n")
        parts += [_row(family) for family in listed if family.scope is scope]
    return "".join(parts)


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    stability = "" if family.stability == "stable" else f" *({family.stability})*"
    text = family.help.replace("|", "\\|")
    return f"| `{family.name}` | {family.type} | {labels} | {text}{stability} |\n"
