"""Parts of a vendor's section that every vendor's section has."""

from collections.abc import Callable
from typing import TypeVar

from accelscope.config.document import Section
from accelscope.config.values import WholeNumber
from accelscope.simulate.spec import FREE, ToolCost

MAX_DEVICES = 64

Device = TypeVar("Device")


def read_devices(section: Section, read: Callable[[Section], Device]) -> tuple[Device, ...]:
    """The list `devices`, each member `count` times. Raises DescriptionError."""
    devices: list[Device] = []
    for entry in section.sections("devices"):
        count = entry.take("count", WholeNumber(1, MAX_DEVICES), 1)
        devices.extend([read(entry)] * count)
        entry.finish()
    if len(devices) > MAX_DEVICES:
        raise section.error("devices", f"{len(devices)} devices; at most {MAX_DEVICES}")
    return tuple(devices)


def read_tool_cost(section: Section, key: str = "tool", usual: ToolCost = FREE) -> ToolCost:
    """`{cost_ms, memory_mb}` of one tool. Raises DescriptionError."""
    entry = section.section(key)
    cost = ToolCost(
        cpu_milliseconds=entry.take("cost_ms", WholeNumber(0, 60_000), usual.cpu_milliseconds),
        memory_mib=entry.take("memory_mb", WholeNumber(0, 4096), usual.memory_mib),
    )
    entry.finish()
    return cost
