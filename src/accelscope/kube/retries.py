"""How long to wait before what failed is tried again: no I/O here but the system's random numbers."""

import os
from collections.abc import Callable

from accelscope.kube.errors import KubeError, Reason

REFUSED = (Reason.UNAUTHORIZED, Reason.FORBIDDEN)  # with another token it may be allowed
NOT_GRANTED = (*REFUSED, Reason.NOT_FOUND)  # somebody must grant or make something first

_LONGEST_SECONDS = 60.0
_RETRY_AFTER_SECONDS = 600.0  # a server may ask for a day; nobody means it


def random_ratio() -> float:
    """0 <= x < 1; the module random would load OpenSSL on some builds."""
    return int.from_bytes(os.urandom(4)) / 2**32


class Retries:
    """Of one thing that is tried until it succeeds. What was not granted is counted by itself: an API server
    that was out of reach for long forbids for some seconds after its start what it allows. A token that is
    not taken is not shown again and again: whoever waits looks for another one meanwhile."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.failures = 0  # in a row
        self._not_granted = 0  # among them

    def succeeded(self) -> None:
        self.failures = self._not_granted = 0

    def failed(self, error: KubeError | None = None) -> float:
        """Count it; how many seconds to wait."""
        self.failures += 1
        if error is None:
            return self.pause(self.failures)
        if error.reason is Reason.UNAUTHORIZED:
            return _LONGEST_SECONDS * (0.75 + 0.25 * self._random())
        failures = self.failures
        if error.reason in NOT_GRANTED:
            self._not_granted += 1
            failures = self._not_granted
        return max(self.pause(failures), min(error.retry_after or 0.0, _RETRY_AFTER_SECONDS))

    def pause(self, failures: int) -> float:
        """1 to 2 s after the first, 30 to 60 s at last: a thousand nodes do not come back all at once."""
        shortest = min(2.0 ** min(failures - 1, 10), _LONGEST_SECONDS / 2)
        return shortest * (1 + self._random())
