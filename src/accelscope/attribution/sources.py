"""What of `/proc`, the kubelet and shares `accelscope parse` can read."""

from accelscope.parsing.source import Source

SOURCES: tuple[Source, ...] = ()
