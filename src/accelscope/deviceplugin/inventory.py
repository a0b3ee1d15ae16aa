"""What is offered now: the plugin's loop writes it, calls of the kubelet read it and wait for changes."""

import logging
import threading
from collections.abc import Mapping

from accelscope.deviceplugin.offers import Offer, Offers

log = logging.getLogger(__name__)


class Inventory:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._offers = Offers()
        self._by_id: Mapping[str, Offer] = {}
        self._version = 0  # 0: nobody has looked yet
        self._closed = False

    def publish(self, offers: Offers) -> None:
        """Take new offers; those who wait are woken only if what the kubelet is told differs."""
        with self._changed:
            before, self._offers = self._by_id, offers
            self._by_id = {offer.id: offer for offer in offers.offers}
            if self._version == 0 or _told(before) != _told(self._by_id):
                self._version += 1
                self._changed.notify_all()
                _say(before, self._by_id)

    @property
    def offers(self) -> Offers:
        with self._changed:
            return self._offers

    @property
    def by_id(self) -> Mapping[str, Offer]:
        with self._changed:
            return self._by_id

    def newer(self, seen: int, timeout_seconds: float) -> tuple[int, tuple[Offer, ...]] | None:
        """The version and its offers, once it is not the one that was `seen`; None: not yet, or closed."""
        with self._changed:
            if self._version == seen and not self._closed:
                self._changed.wait(timeout_seconds)
            if self._version == seen or self._closed:
                return None
            return self._version, self._offers.offers

    def wake(self) -> None:
        """Let those who wait look around."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed


def _told(offers: Mapping[str, Offer]) -> dict[str, tuple[bool, int | None]]:
    return {offer.id: (offer.healthy, offer.numa_node) for offer in offers.values()}


def _say(before: Mapping[str, Offer], after: Mapping[str, Offer]) -> None:
    added, removed = after.keys() - before.keys(), before.keys() - after.keys()
    fell = [each for each in after.keys() & before.keys() if before[each].healthy and not after[each].healthy]
    rose = [each for each in after.keys() & before.keys() if after[each].healthy and not before[each].healthy]
    for what, ids in (("offered", added), ("no longer offered", removed), ("healthy again", rose)):
        if ids:
            log.info("%s: %s", what, ", ".join(sorted(ids)))
    reasons: dict[str, list[str]] = {}
    for each in sorted(fell):
        reasons.setdefault(after[each].reason, []).append(each)
    for reason, ids in reasons.items():
        log.warning("unhealthy: %s: %s", ", ".join(ids), reason)
