"""What is remembered of a card from one pass to the next: when its errors grew, and its last counters."""

from accelscope.model import ErrorCount
from accelscope.readers.furiosa.perf import WarboyCores


class CardMemory:
    """Belongs to a card, not to its name: names move when a card drops out."""

    def __init__(self) -> None:
        self.cores = WarboyCores()
        self._errors: dict[str, ErrorCount] = {}

    def errors(self, counts: dict[str, int], now: float) -> tuple[ErrorCount, ...]:
        """The driver shows totals only; that one grew since the last pass dates its last error. Of those
        before the first pass nobody knows when they were."""
        noted = {}
        for code, count in counts.items():
            before = self._errors.get(code)
            seen = before.last_seen if before else None
            # Below what it was: the driver was loaded anew, and these came since.
            if before is not None and count != before.count and count > 0:
                seen = now
            noted[code] = ErrorCount(code.partition("_")[0], code, count, seen)
        self._errors = noted
        return tuple(noted.values())
