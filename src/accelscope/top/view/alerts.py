"""What is wrong, one line each, the worst first."""

from collections.abc import Iterable
from dataclasses import dataclass

from accelscope.top.view.condition import Level, conditions
from accelscope.top.view.devices import device_name
from accelscope.top.view.shown import DeviceView, NodeView, View
from accelscope.top.view.table import Setting
from accelscope.top.view.text import celsius, duration, size_of


@dataclass(frozen=True, slots=True)
class Alert:
    level: Level
    text: str
    count: int = 1  # things to look at that it stands for


def alerts(view: View, setting: Setting) -> list[Alert]:
    found = []
    if view.error is not None:
        old = f"; shown is what was known {duration(view.age_seconds, setting.glyphs)} ago"
        found.append(Alert(Level.BAD, f"{view.title}: {view.error}{old if view.age_seconds else ''}"))
    if view.overview is not None:
        found += [Alert(Level.BAD, trouble) for trouble in view.overview.troubles]
        if (more := view.overview.troubles_total - len(view.overview.troubles)) > 0:
            found.append(Alert(Level.BAD, f"{more} more, which the fleet lists at /api/v1/health", more))
    for node in view.nodes:
        found += _of_node(node, len(view.nodes) > 1, setting)
    return sorted(found, key=lambda alert: -alert.level)


def _of_node(node: NodeView, named: bool, setting: Setting) -> Iterable[Alert]:
    place = f"{node.name}: " if named else ""
    if node.error is not None:
        name = "" if node.name in node.source else f" ({node.name})"
        source = f"{node.source}{name}: " if node.cluster is None else ""
        last = (
            f"; shown is what it said {duration(node.age_seconds, setting.glyphs)} ago"
            if node.age_seconds is not None and node.cluster is None
            else ""
        )
        yield Alert(Level.BAD, f"{source}{node.error}{last}")
    elif not node.drivers_found:
        yield Alert(
            Level.NOTE, f"{place}no accelerator driver here; accelscope doctor tells what was looked for"
        )
    for trouble in node.troubles:
        yield Alert(Level.BAD, place + trouble)
    several = len({device.vendor for device in node.devices}) > 1
    for device in node.devices:
        told = [each for each in conditions(device) if each.level >= Level.WARNING or each.word == "ODD"]
        if told:
            text = "; ".join(_told(device, condition.word, condition.text, setting) for condition in told)
            name = device_name(device, device.vendor if several else "device")
            yield Alert(told[0].level, f"{place}{name}: {text}")
    for note in node.notes:
        yield Alert(Level.NOTE, f"{place}names of owners: {note}")


def _told(device: DeviceView, word: str, reason: str | None, setting: Setting) -> str:
    if word == "HOT":
        limit = device.temperature_slowdown_celsius
        slows = "" if limit is None else f", slows down at {celsius(limit, setting.glyphs)}"
        return f"HOT {celsius(device.temperature_celsius, setting.glyphs)}{slows}"
    if word == "FULL":
        return f"FULL {size_of(device.memory_used_bytes, device.memory_total_bytes, setting.glyphs)}"
    since = ""
    if device.stale and device.read_at is not None:
        since = f" since {duration(setting.now - device.read_at, setting.glyphs)}"
    return f"{word}{since}{f' ({reason})' if reason else ''}"
