"""What waits for its turn, bounded, so that one peer who brings much does not keep the others waiting."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Peers take turns; what one peer brings stays in its order."""

    def __init__(self, limit: int, peer_limit: int) -> None:
        self._limit = limit
        self._peer_limit = peer_limit
        self._waiting: dict[str, deque[T]] = {}  # in the order of their turns, none empty
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def has_room(self, peer: str) -> bool:
        """Whether this peer may bring one more, as far as it alone matters."""
        return len(self._waiting.get(peer, ())) < self._peer_limit

    def append(self, peer: str, item: T) -> T | None:
        """What found no place: None if all did, the item itself, or another's. Where all places are taken,
        one who has none gets the last of whoever has most."""
        displaced = None
        if not self.has_room(peer):
            return item
        if self._length >= self._limit:
            most = max(self._waiting, key=lambda each: len(self._waiting[each]))
            if peer in self._waiting or len(self._waiting[most]) == 1:
                return item
            displaced = self._waiting[most].pop()
            self._length -= 1
        self._waiting.setdefault(peer, deque()).append(item)
        self._length += 1
        return displaced

    def first(self) -> T:
        """Whose turn it is, left where it is. There must be one."""
        return next(iter(self._waiting.values()))[0]

    def pop(self) -> T:
        """There must be one."""
        peer = next(iter(self._waiting))
        items = self._waiting.pop(peer)
        item = items.popleft()
        if items:
            self._waiting[peer] = items  # behind the others
        self._length -= 1
        return item
