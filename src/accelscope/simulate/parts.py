"""Parts of a vendor's section that every vendor's section has."""

from collections.abc import Callable
from typing import TypeVar

from accelscope.simulate.section import Section
from accelscope.simulate.spec import FREE, ToolCost

MAX_DEVICES = 64

Device = TypeVar("Device")


def read_devices(section: Section, read: Callable[[Section], Device]) -> tuple[Device, ...]:
    """The list `devices`, each member `count` times. Raises DescriptionError."""
    devices: list[Device] = []
    for where, member in section.items("devices"):
        entry = Section(member, where)
        count = entry.integer("count", 1, 1, MAX_DEVICES)
        devices.extend([read(entry)] * count)
        entry.finish()
    if len(devices) > MAX_DEVICES:
        raise section.error("devices", f"{len(devices)} devices; at most {MAX_DEVICES}")
    return tuple(devices)


def read_tool_cost(section: Section, key: str = "tool", usual: ToolCost = FREE) -> ToolCost:
    """`{cost_ms, memory_mb}` of one tool. Raises DescriptionError."""
    entry = section.section(key)
    cost = ToolCost(
        cpu_milliseconds=entry.integer("cost_ms", usual.cpu_milliseconds, 0, 60_000),
        memory_mib=entry.integer("memory_mb", usual.memory_mib, 0, 4096),
    )
    entry.finish()
    return cost
