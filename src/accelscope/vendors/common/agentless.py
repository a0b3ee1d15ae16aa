"""A vendor's tool in a driver pod: commands and parsing, without I/O. The fleet runs the commands."""

import math
from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple, Protocol

from accelscope.model import Snapshot
from accelscope.parsing import ParseResult


class CommandOutput(NamedTuple):
    text: str
    exit_code: int


class ToolReading(NamedTuple):
    devices: ParseResult
    processes: ParseResult


class DriverTool(Protocol):
    """The tool of one pod. It may remember which commands the tool does not support."""

    name: str

    def questions(self) -> Generator[Sequence[str], CommandOutput, ToolReading]:
        """Yields commands and is sent their outputs."""
        ...

    def snapshot(
        self,
        node: str,
        reading: ToolReading,
        *,
        taken_at: float,
        interval_seconds: float,
        ids_by_address: dict[str, str],
    ) -> Snapshot:
        """`ids_by_address` is passed from one reading of the node to the next."""
        ...


# Values of another program's JSON object. A value of another type or out of range is None.

_LARGEST = 2**63


def number(entry: Mapping[str, object], name: str, *, least: float = 0) -> float | None:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if least <= value < _LARGEST and math.isfinite(value) else None


def whole(entry: Mapping[str, object], name: str) -> int | None:
    value = number(entry, name)
    return int(value) if value is not None and value == int(value) else None


def text(entry: Mapping[str, object], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) and value else None
