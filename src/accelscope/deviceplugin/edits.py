"""What is done to a container that was given devices."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from accelscope.model import Device

READ_WRITE = "rw"


class NotAvailable(Exception):
    """A device that is offered cannot be given just now. The text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Given:
    """A device, or cores of it, that a container is to get."""

    device: Device  # as it was last seen
    cores: tuple[int, ...] = ()  # empty: all of it


@dataclass(frozen=True, slots=True)
class Node:
    """A device node."""

    container_path: str
    host_path: str
    permissions: str = READ_WRITE


@dataclass(frozen=True, slots=True)
class Mount:
    """Read-only, as all are here."""

    container_path: str
    host_path: str


@dataclass(frozen=True, slots=True)
class Edits:
    nodes: tuple[Node, ...] = ()
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()


def once(values: Iterable[str]) -> str:
    """As vendors' variables have it: commas between, each once, in order."""
    return ",".join(dict.fromkeys(values))
