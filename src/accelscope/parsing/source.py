"""A kind of saved output that `accelscope parse` can read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accelscope.parsing.parsed import Parsed

Parse = Callable[[str, Sequence[str] | None], Parsed]


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    summary: str
    parse: Parse  # takes the text and, where the source takes them, the names of its columns
    default_fields: tuple[str, ...] = ()  # columns of an output without a header, if none are named
    tells: str = ""  # what else than devices and processes: containers, allocations, ratio or versions
    # `accelscope capture` cuts command lines down to the program's name. An output with a "name" may list
    # processes, so each is cut unless its vendor declares that the names in it are those of devices.
    names_devices: bool = False
    hide_command_lines: Callable[[str], str] | None = None  # of a form that capture/command_lines.py lacks

    @property
    def takes_fields(self) -> bool:
        return bool(self.default_fields)
