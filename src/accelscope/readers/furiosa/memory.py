"""What is remembered of a card from one pass to the next: when its errors grew, and its last counters."""

from accelscope.model import ErrorCount
from accelscope.readers.furiosa.perf import WarboyCores
from accelscope.readers.furiosa.rngd_cores import RngdCores
from accelscope.readers.growth import Growth


class CardMemory:
    """Belongs to a card, not to its name: names move when a card drops out."""

    def __init__(self) -> None:
        self.warboy_cores = WarboyCores()
        self.rngd_cores = RngdCores()
        self._growth = Growth()

    def errors(self, counts: dict[str, int], now: float) -> tuple[ErrorCount, ...]:
        return tuple(
            ErrorCount(code.partition("_")[0], code, count, self._growth.last(code, count, now))
            for code, count in counts.items()
        )
