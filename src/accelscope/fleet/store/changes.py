"""What changed, for those who follow: gathered over a second or so, and never more than a reader can hold."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from accelscope.fleet.store.events import Event

_WAITING_LIMIT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`resync`: the reader was too slow and missed some; it should ask for everything anew."""

    generation: int
    last_event: int  # number of the log's last entry when this was published
    nodes: tuple[tuple[str, str], ...] = ()  # cluster and name
    clusters: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    resync: bool = False


class Subscription:
    """An asynchronous iterator of changes; ends when it is closed."""

    def __init__(self, forget: Callable[["Subscription"], None]) -> None:
        self._forget = forget
        self._waiting: deque[Change] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, change: Change) -> None:
        if len(self._waiting) >= _WAITING_LIMIT:
            self._waiting.clear()
            change = Change(generation=change.generation, last_event=change.last_event, resync=True)
        self._waiting.append(change)
        self._arrived.set()

    def close(self) -> None:
        """May be called twice, and while somebody waits: the wait ends."""
        self._closed = True
        self._arrived.set()
        self._forget(self)

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        while not self._waiting and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        if self._closed:
            raise StopAsyncIteration
        return self._waiting.popleft()


class Changes:
    """Gathers what changed until it is published."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, str], None] = {}
        self._clusters: dict[str, None] = {}
        self._subscriptions: set[Subscription] = set()

    def subscribe(self) -> Subscription:
        subscription = Subscription(self._subscriptions.discard)
        self._subscriptions.add(subscription)
        return subscription

    def node(self, cluster: str, node: str) -> None:
        self._nodes[cluster, node] = None

    def cluster(self, cluster: str) -> None:
        self._clusters[cluster] = None

    def publish(self, generation: int, events: tuple[Event, ...], last_event: int) -> None:
        """`events`: those since the last time; `last_event`: the number that the log has come to."""
        if not (self._nodes or self._clusters or events):
            return
        change = Change(
            generation=generation,
            last_event=last_event,
            nodes=tuple(self._nodes),
            clusters=tuple(self._clusters),
            events=events,
        )
        self._nodes, self._clusters = {}, {}
        for subscription in list(self._subscriptions):
            subscription.put(change)
