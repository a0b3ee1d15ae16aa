"""What a vendor's tool is asked for in a driver pod, without I/O: the fleet runs the commands."""

from collections.abc import Generator, Sequence
from typing import NamedTuple, Protocol

from accelscope.model import Snapshot
from accelscope.parsing.parsed import Parsed


class ToolOutput(NamedTuple):
    text: str
    exit_code: int


class ToolReading(NamedTuple):
    devices: Parsed
    processes: Parsed


class DriverTool(Protocol):
    """The tool of one pod; it may remember which questions the tool does not understand."""

    name: str

    def questions(self) -> Generator[Sequence[str], ToolOutput, ToolReading]:
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
        """`ids_by_address` is kept from one reading of the node to the next."""
        ...
