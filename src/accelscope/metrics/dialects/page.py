"""A dialect's part of the page."""

from collections.abc import Iterable, Iterator
from math import isfinite

from accelscope.metrics.dialects.dialect import Dialect, Label, Section
from accelscope.metrics.dialects.view import DeviceView, NodeView
from accelscope.metrics.family import Family
from accelscope.metrics.lines import decimal_text, label_text, number_text
from accelscope.model import Process, Snapshot

Pairs = list[tuple[str, str]]
Block = tuple[Family, list[str]]


def blocks(dialect: Dialect, snapshot: Snapshot, shown_processes: Iterable[Process]) -> Iterator[Block]:
    """Each family with its sample lines; a family without a sample is left out."""
    node, devices = views(dialect, snapshot, shown_processes)
    if not devices:
        return  # a node without the exporter's hardware does not run that exporter
    for family in dialect.node_families:
        samples = ((zip(family.labels, values, strict=True), number) for values, number in family.take(node))
        lines = [_line(family, label_text(labels), number) for labels, number in samples if isfinite(number)]
        if lines:
            yield family, lines
    for section in dialect.sections:
        yield from _section(section, devices)


def views(
    dialect: Dialect, snapshot: Snapshot, shown_processes: Iterable[Process]
) -> tuple[NodeView, list[DeviceView]]:
    """What the dialect's families are taken from. Who holds a device is to be filled in here."""
    devices = tuple(d for d in snapshot.devices if dialect.vendor in (None, d.vendor))
    node = NodeView(snapshot.node, dict(snapshot.labels), snapshot.agent.version, devices)
    shown: dict[str | None, list[Process]] = {}
    for process in shown_processes:
        shown.setdefault(process.device, []).append(process)
    counts: dict[str | None, int] = {}
    for process in snapshot.processes:
        counts[process.device] = counts.get(process.device, 0) + 1
    wholes = (
        DeviceView(
            device, node, processes=tuple(shown.get(device.id, ())), process_count=counts.get(device.id, 0)
        )
        for device in devices
    )
    return node, [view for device in wholes for view in dialect.divide(device)]


def _section(section: Section, devices: list[DeviceView]) -> Iterator[Block]:
    leading = [_pairs(section.labels.leading, view) for view in devices]
    others = [_pairs(section.labels.others, view) for view in devices]
    written = [label_text([*first, *sorted(then)]) for first, then in zip(leading, others, strict=True)]
    for family in section.families:
        lines = []
        for place, view in enumerate(devices):
            for values, number in family.take(view):
                labels = written[place]
                if family.labels:
                    own = zip(family.labels, values, strict=True)
                    labels = label_text([*leading[place], *sorted([*others[place], *own])])
                if isfinite(number):
                    lines.append(_line(family, labels, number))
        if lines:
            yield family, lines


def _pairs(labels: tuple[Label, ...], view: DeviceView) -> Pairs:
    pairs = ((label, label.value(view) or "") for label in labels)
    return [(label.name, value) for label, value in pairs if value or label.keep_empty]


def _line(family: Family, labels: str, number: float) -> str:
    value = number_text(number) if family.decimals is None else decimal_text(number, family.decimals)
    return f"{family.name}{{{labels}}} {value}\n" if labels else f"{family.name} {value}\n"
