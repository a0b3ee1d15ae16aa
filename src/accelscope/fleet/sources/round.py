"""One round over many nodes: so many at a time, and given up where nobody can be reached."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from accelscope.fleet.report import NodeFailure, Saying, SourceOutcome, Take

T = TypeVar("T")

# Of failures that would be the next node's too: the server's or the way's, not the node's.
_ALL_ALIKE = frozenset(
    {"unreachable", "timeout", "tls", "unauthorized", "forbidden", "throttled", "too_large"}
)


class Round:
    """Hands sayings on and counts them. `given_up` when so many failed in a row, and none answered between
    them, that the rest would wait for nothing: what is known of the others ages meanwhile."""

    def __init__(self, take: Take, *, patience: int) -> None:
        self._take = take
        self._patience = patience
        self._failed_alike = 0
        self._answered = 0
        self._failed: Counter[str] = Counter()
        self._text: dict[str, str] = {}  # by reason, the last

    @property
    def given_up(self) -> bool:
        return self._failed_alike >= self._patience

    def say(self, saying: Saying) -> None:
        if isinstance(saying, NodeFailure):
            self._failed[saying.reason] += 1
            self._text[saying.reason] = saying.text
            alike = saying.reason in _ALL_ALIKE and not saying.incompatible
            self._failed_alike = self._failed_alike + 1 if alike else 0
        else:
            self._answered += 1
            self._failed_alike = 0
        self._take(saying)

    async def over(self, items: Iterable[T], ask: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
        waiting = iter(items)

        async def work() -> None:
            while not self.given_up:
                item = next(waiting, None)
                if item is None:
                    return
                await ask(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())

    def outcome(self, expected: int, *, reason: str | None = None, text: str | None = None) -> SourceOutcome:
        """Up, if anybody answered or nobody was to. `reason`: what is wrong beside the nodes that failed."""
        if self._failed and reason is None:
            reasons = self._failed.most_common()
            reason = reasons[0][0]
            by_reason = ", ".join(f"{word} {count}" for word, count in reasons)
            text = f"{self._failed.total()} of {expected} nodes failed ({by_reason}): {self._text[reason]}"
        return SourceOutcome(
            up=self._answered > 0 or not self._failed,
            expected=expected,
            answered=self._answered,
            reason=reason,
            text=text,
        )
