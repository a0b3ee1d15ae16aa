"""One round over many nodes: so many at a time, and given up where nobody can be reached."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from accelscope.fleet.report import NodeFailure, Saying, SourceOutcome, Take
from accelscope.kube.errors import KubeError, one_line

T = TypeVar("T")

# Of failures that would be the next node's too: the server's or the way's, not the node's. An answer that is
# too large is its node's own.
_ALL_ALIKE = frozenset({"unreachable", "timeout", "tls", "unauthorized", "forbidden", "throttled"})
# Of failures that end without anybody doing anything: a pod starts, a server is asked less often.
_PASSING = frozenset({"not_ready", "throttled", "timeout", "partial"})


def passes_by_itself(reason: str) -> bool:
    return reason in _PASSING


def joined(errors: Iterable[KubeError | None]) -> KubeError | None:
    """One for all of them, with the reason of one that somebody has to mend, if there is such a one."""
    there = sorted(
        (error for error in errors if error is not None), key=lambda one: passes_by_itself(one.reason)
    )
    if not there:
        return None
    return KubeError(there[0].reason, "; ".join(dict.fromkeys(error.text for error in there)))


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
        """Up if a node answered, or if there was none to ask. `reason`: what is wrong beside the nodes that
        failed."""
        wrong = [] if reason is None else [(reason, text or reason)]
        failed = {word: count for word, count in self._failed.items() if word != reason}
        if failed:
            words = sorted(failed, key=lambda word: (passes_by_itself(word), -failed[word]))
            by_reason = "; ".join(f"{word} {failed[word]}: {self._text[word]}" for word in words)
            wrong.append((words[0], f"{sum(failed.values())} of {expected} nodes failed ({by_reason})"))
        # What somebody has to mend comes first, however many pods are merely not ready.
        wrong.sort(key=lambda one: passes_by_itself(one[0]))
        return SourceOutcome(
            up=self._answered > 0 or not self._failed,
            expected=expected,
            answered=self._answered,
            reason=wrong[0][0] if wrong else None,
            text=one_line("; ".join(text for _, text in wrong)) or None,
        )
