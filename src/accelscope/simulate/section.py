"""Sections of the descriptions of simulated nodes and fleets, from a file or from a command line."""

from collections.abc import Callable, Iterable
from typing import Self, TypeVar

from accelscope.config.document import Section
from accelscope.config.values import ConfigError, WholeNumber
from accelscope.simulate.spec import FREE, ToolCost


class DescriptionError(ConfigError):
    """An invalid description."""


class Description(Section):
    error_type = DescriptionError

    def part(self, keys: Iterable[str], **more: object) -> Self:
        """A section at the same path with these keys of this one, and `more`."""
        return type(self)({**{key: self.raw(key) for key in keys}, **more}, self.where, file=self.file)


class Options(Description):
    """Options of a command line, with the same names as the keys of a description."""

    def path(self, key: str) -> str:
        return key.upper() if key == "kind" else f"--{key}"

    def finish(self) -> None:
        for key in self.unread:
            raise self.error(key, "not valid for this kind of fault")


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
