"""The reference page of dialects, made from them."""

from collections.abc import Iterable

from accelscope.metrics.dialects.dialect import Dialect, Label, Section
from accelscope.metrics.family import Family

_HEAD = """\
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
    parts = [_HEAD, *(f"| [`{d.name}`](#{d.name}) | {d.exporter} |\n" for d in listed)]
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
