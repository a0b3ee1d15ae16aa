"""Whether it can be told which devices a node has: an empty list may mean that nobody has answered yet."""

from collections.abc import Callable

from accelscope.model import ReaderState, Snapshot, Vendor

# A driver that answered nothing for so long since the agent started will not answer: what a former agent left
# on the Node about its devices is no longer true enough to stay.
PATIENCE_SECONDS = 300.0


class Knowledge:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waits_since: float | None = None

    def is_enough(self, snapshot: Snapshot, vendor: Vendor | None = None) -> bool:
        """Of one vendor, or of all of them: they have answered, or were waited for long enough."""
        if all_known(snapshot, vendor):
            self._waits_since = None
            return True
        if self._waits_since is None:
            self._waits_since = self._monotonic()
        return self._monotonic() - self._waits_since >= PATIENCE_SECONDS


def all_known(snapshot: Snapshot, vendor: Vendor | None = None) -> bool:
    return all(
        _is_known(reader, snapshot)
        for reader in snapshot.readers
        if vendor is None or reader.vendor is vendor
    )


def _is_known(reader: ReaderState, snapshot: Snapshot) -> bool:
    if reader.up:
        return True
    if not reader.found:
        return reader.reason is not None  # that the driver is absent; before the first answer there is none
    return any(device.vendor is reader.vendor for device in snapshot.devices)
