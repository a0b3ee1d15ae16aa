"""The saved outputs that `accelscope parse` can read, by name."""

from collections.abc import Mapping
from importlib import import_module

from accelscope.parsing.source import Source
from accelscope.vendors import declarations


def sources() -> Mapping[str, Source]:
    """All sources: the vendors' in their order, then those of attribution. The parsers are imported here and
    not before: the agent runs few of them."""
    listed: list[Source] = []
    for vendor in declarations().values():
        listed += vendor.load(vendor.sources)
    listed += import_module("accelscope.attribution.sources").SOURCES
    return {source.name: source for source in listed}
