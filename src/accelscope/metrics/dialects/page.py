"""A dialect's part of the page."""

from collections.abc import Iterator
from math import isfinite

from accelscope.metrics.dialects.dialect import Dialect, Label, Section
from accelscope.metrics.dialects.holder import put_down
from accelscope.metrics.dialects.view import DeviceView, NodeView, Workloads
from accelscope.metrics.family import Family
from accelscope.metrics.lines import decimal_text, label_text, number_text
from accelscope.model import Snapshot

Pairs = list[tuple[str, str]]
Block = tuple[Family, list[str]]


def blocks(dialect: Dialect, snapshot: Snapshot, workloads: Workloads) -> Iterator[Block]:
    """Each family with its sample lines; a family without a sample is left out."""
    node, devices = views(dialect, snapshot, workloads)
    if not devices:
        return  # a node without the exporter's hardware does not run that exporter
    for family in dialect.node_families:
        samples = ((zip(family.labels, values, strict=True), number) for values, number in family.take(node))
        lines = [_line(family, label_text(labels), number) for labels, number in samples if isfinite(number)]
        if lines:
            yield family, lines
    for section in dialect.sections:
        yield from _section(section, devices)


def views(dialect: Dialect, snapshot: Snapshot, workloads: Workloads) -> tuple[NodeView, list[DeviceView]]:
    """What the dialect's families are taken from."""
    devices = tuple(device for device in snapshot.devices if dialect.shows(device))
    node = NodeView(snapshot.node, dict(snapshot.labels), snapshot.agent.version, devices)
    wholes = (workloads.on(device, node) for device in devices)
    return node, [put_down(view) for whole in wholes for view in dialect.divide(whole)]


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
