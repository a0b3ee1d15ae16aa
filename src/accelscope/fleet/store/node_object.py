"""A Node object as far as the store is concerned; `api_server.objects` decodes those that fit it."""

from collections.abc import Mapping
from typing import Protocol


class NodeObject(Protocol):
    """What the store wants of a Node object."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def accelerators(self) -> Mapping[str, int]:
        """Allocatable devices by resource; empty: it offers none."""
        ...
