"""Lines that a parser could not take: the first ones are kept, the rest counted."""

from accelscope.model import Rejection

_KEPT = 100
_LINE_LIMIT = 500


class Rejections:
    """Bounded, since an output may be a million lines of something else."""

    def __init__(self) -> None:
        self._kept: list[Rejection] = []
        self._more = 0

    def add(self, line: str, reason: str) -> None:
        if len(self._kept) < _KEPT:
            self._kept.append(Rejection(line.strip()[:_LINE_LIMIT], reason))
        else:
            self._more += 1

    def extend(self, rejected: list[Rejection]) -> None:
        for rejection in rejected:
            self.add(rejection.line, rejection.reason)

    def clear(self) -> None:
        self._kept.clear()
        self._more = 0

    def listed(self) -> tuple[Rejection, ...]:
        if self._more:
            return (*self._kept, Rejection(f"and {self._more} more", "not_listed"))
        return tuple(self._kept)
