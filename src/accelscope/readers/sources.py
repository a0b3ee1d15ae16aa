"""The saved outputs that `accelscope parse` can read, by name.

Each vendor's package lists its own in `sources.py`; a new vendor adds the name of its package here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from accelscope.readers.parsed import Parsed

VENDOR_PACKAGES = ("nvidia", "amd", "ascend", "furiosa")

Parse = Callable[[str, Sequence[str] | None], Parsed]


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    summary: str
    parse: Parse  # takes the text and, where the source takes them, the names of its columns
    default_fields: tuple[str, ...] = ()  # columns of an output without a header, if none are named

    @property
    def takes_fields(self) -> bool:
        return bool(self.default_fields)


def sources() -> Mapping[str, Source]:
    """All sources, in the order of the vendors. The parsers are loaded here and not before: the agent runs
    few of them."""
    found: dict[str, Source] = {}
    for package in VENDOR_PACKAGES:
        listed: tuple[Source, ...] = import_module(f"accelscope.readers.{package}.sources").SOURCES
        found.update((source.name, source) for source in listed)
    return found
