"""The saved outputs that `accelscope parse` can read, by name.

Each package that parses lists its own in `sources.py`; a new one adds its name here.
"""

from collections.abc import Mapping
from importlib import import_module

from accelscope.parsing.source import Source

PACKAGES = ("readers.nvidia", "readers.amd", "readers.ascend", "readers.furiosa", "attribution")


def sources() -> Mapping[str, Source]:
    """All sources, in the order of the packages. The parsers are loaded here and not before: the agent runs
    few of them."""
    found: dict[str, Source] = {}
    for package in PACKAGES:
        listed: tuple[Source, ...] = import_module(f"accelscope.{package}.sources").SOURCES
        found.update((source.name, source) for source in listed)
    return found
