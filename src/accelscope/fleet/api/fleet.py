"""All that answers are made from."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelscope.fleet.history import History, Past
from accelscope.fleet.store.fleet_store import FleetStore

if TYPE_CHECKING:
    from accelscope.fleet.api.stream import Streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    store: FleetStore
    history: History
    past: Past | None  # a store that remembers longer
    refresh: Callable[[str], Awaitable[None]]  # has one cluster read anew, at once
    metrics: Callable[[], bytes]  # of the fleet itself, Prometheus text
    guarded: bool  # a token is needed
    streams: "Streams"
    unready: Callable[[], str | None]  # why it is not ready; None: it is
