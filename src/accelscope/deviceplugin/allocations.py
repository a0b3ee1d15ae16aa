"""Which of the offered ids containers hold: what the kubelet lists, and what was given a moment ago."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from accelscope.deviceplugin import kubelet
from accelscope.deviceplugin.kubelet import KubeletError

log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0
_JUST_GIVEN_SECONDS = 60.0  # in which the kubelet lists a pod that it has admitted


class Allocations:
    """Asked by the plugin's two threads; calls of the kubelet add what they were given."""

    def __init__(self, socket: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._socket = Path(socket) if socket else None
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._listed: Mapping[str, frozenset[str]] = {}
        self._given: dict[str, float] = {}  # id -> when
        self.awaits_first_answer = bool(socket)
        self.unknown: str | None = "not asked yet" if socket else "--pod-resources-socket is empty"

    def refresh(self) -> None:
        """Ask the kubelet. While it does not answer, its last answer counts."""
        if self._socket is None:
            return
        try:
            listed = kubelet.held_ids(self._socket, _CALL_SECONDS)
        except KubeletError as error:
            log.debug("%s", error)
            self.unknown = str(error)
            return
        with self._lock:
            self._listed = listed
            self.unknown = None
            self.awaits_first_answer = False

    def note(self, ids: Iterable[str]) -> None:
        """What a container was given now."""
        with self._lock:
            self._given.update(dict.fromkeys(ids, self._monotonic()))

    def held(self, resource: str) -> Mapping[str, frozenset[str]]:
        """Ids, each with the resources that it is held under; what was just given is of `resource`."""
        with self._lock:
            oldest = self._monotonic() - _JUST_GIVEN_SECONDS
            self._given = {each: when for each, when in self._given.items() if when > oldest}
            return {**dict.fromkeys(self._given, frozenset({resource})), **self._listed}
