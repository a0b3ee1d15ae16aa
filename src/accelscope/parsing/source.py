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

    @property
    def takes_fields(self) -> bool:
        return bool(self.default_fields)
