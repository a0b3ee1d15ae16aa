"""The reference page of dialects, made from them."""

from collections.abc import Iterable

from accelscope.metrics.dialects.dialect import Dialect, Label, Section
from accelscope.metrics.family import Family

_HEAD = """\
# Dialects: other exporters' names

<!-- Made from src/accelscope/metrics/dialects by `make docs`; a test compares them. -->

With `--dialect NAME` (several with commas between) the page also has the names of another exporter, in its
units and with its labels, so that dashboards and alerts that were made for it go on working. The native
families stay; `--metric-denylist 'accelerator_*'` takes them away. A dialect shows devices of its vendor
only, and what its exporter would leave out is left out.

No series has a timestamp of its own. A counter whose name does not end in `_total` is a `counter` in the text
format and `unknown` in OpenMetrics, which knows no such counter.

Where the exporter has labels for the pod on a device's series, they name the pod that holds the device;
where no pod holds it, the only one whose processes use it. Of a device that several pods share, no pod is
named: the series has the values of all of them. Two containers of one pod: the pod is named, the container is
not.

| dialect | names of |
|---|---|
"""


def reference(dialects: Iterable[Dialect]) -> str:
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
