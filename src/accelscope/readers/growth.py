"""When counts last grew that a driver only sums up: another count than at the reading before dates it."""

from collections.abc import Hashable


class Growth:
    """Of the counts of one device. Of what was counted before the first reading nobody knows when it was."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}
        self._grew_at: dict[Hashable, float | None] = {}

    def last(self, counter: Hashable, count: int, now: float | None) -> float | None:
        """Notes the count; when it last grew, as far as it was seen."""
        # Below what it was: the driver was loaded anew, and these came since.
        if count != self._counts.setdefault(counter, count) and count > 0:
            self._grew_at[counter] = now
        self._counts[counter] = count
        return self._grew_at.get(counter)
