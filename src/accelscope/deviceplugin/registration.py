"""Keeps the plugin known to the kubelet, whatever happens to either of them.

A kubelet that starts empties its folder, makes its socket anew and has forgotten its plugins. One that lives
may lose a plugin too. So the two sockets and the kubelet's stream are looked at every moment, and what is
amiss is mended. What goes wrong is said once, and again only when something else goes wrong.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelscope.deviceplugin import kubelet
from accelscope.deviceplugin.endpoint import Endpoint, EndpointError
from accelscope.deviceplugin.kubelet import KubeletError
from accelscope.deviceplugin.tally import Tally

log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds."""

    first_retry: float = 1.0  # doubled at each failure
    longest_retry: float = 30.0
    stream: float = 10.0  # for the kubelet to listen once it was told, or again
    takeover: float = 10.0  # for the kubelet to see that an earlier plugin has gone
    first_answer: float = 60.0  # for the kubelet to list what is allocated, before the first offer


class Registration:
    def __init__(
        self,
        *,
        folder: Path,
        endpoint_name: str,
        pod_resources: Path | None,
        handlers: Any,
        tally: Tally,
        patience: Patience | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kubelet = folder / kubelet.SOCKET_NAME
        self._endpoint_name = endpoint_name
        self._endpoint = Endpoint(folder / endpoint_name, handlers)
        self._pod_resources = pod_resources
        self._tally = tally
        self._patience = patience or Patience()
        self._monotonic = monotonic
        self._mark: object = None  # of the kubelet's socket, when it was last tried
        self._registered_at: float | None = None
        self._served_since: float | None = None  # when the resource was first seen to be served by others
        self._failures = 0
        self._not_before = 0.0
        self._said = ""
        self._lock = threading.Lock()
        self._stopped = False
        self.trouble: str | None = "not registered yet"  # one line, for the readiness probe

    @property
    def registered(self) -> bool:
        return self._registered_at is not None

    def tick(self, resource: str) -> None:
        """See to it that the kubelet knows this plugin as the one that serves `resource`."""
        with self._lock:
            if not self._stopped:
                self._mend(resource)

    def _mend(self, resource: str) -> None:
        now = self._monotonic()
        mark = kubelet.mark(self._kubelet)
        if mark != self._mark:  # another kubelet: what went wrong before says nothing
            self._mark, self._failures, self._not_before = mark, 0, now
            self._registered_at = self._served_since = None
        if self.registered and not self._endpoint.alive:
            log.info("the plugin's socket is gone")
            self._registered_at, self._not_before = None, now
        if self.registered and self._is_heard(now):
            return
        if now < self._not_before:
            return
        try:
            self._serve()
            self._expect_kubelet()
            self._refuse_what_others_serve(resource, now)
            kubelet.register(
                self._kubelet,
                endpoint=self._endpoint_name,
                resource=resource,
                timeout_seconds=_CALL_SECONDS,
            )
        except (EndpointError, KubeletError) as error:
            self._failed(error, now)
            return
        self._registered_at = self._monotonic()
        self._failures = 0
        self._served_since = None
        self.trouble = None
        self._said = ""
        self._tally.count("registrations")
        log.info("registered %s with the kubelet, through %s", resource, self._endpoint.path)

    def stop(self) -> None:
        """Waits for a call to the kubelet that is under way."""
        with self._lock:
            self._stopped = True
            self._endpoint.stop()
            self._registered_at = None
            self.trouble = "stopped"

    def _expect_kubelet(self) -> None:
        if self._mark is None:
            raise KubeletError("no_socket", f"{self._kubelet} is not there: waiting for the kubelet")

    def _serve(self) -> None:
        if not self._endpoint.alive:
            self._endpoint.stop()
            self._endpoint.start()

    def _is_heard(self, now: float) -> bool:
        """A kubelet that was told begins to listen at once; one that stopped has dropped the plugin."""
        if self._tally.listening:
            return True
        silent = self._tally.since_listened_seconds
        since_told = now - (self._registered_at or now)
        return min(since_told, since_told if silent is None else silent) < self._patience.stream

    def _refuse_what_others_serve(self, resource: str, now: float) -> None:
        """What the kubelet lists right after a plugin ended may still be that plugin's: it is given time."""
        if self._pod_resources is None or self._tally.listening:
            return
        try:
            ids = kubelet.served_ids(self._pod_resources, resource, _CALL_SECONDS)
        except KubeletError as error:
            log.debug("%s", error)
            return
        if not ids:
            self._served_since = None
            return
        self._served_since = now if self._served_since is None else self._served_since
        if now - self._served_since < self._patience.takeover:
            raise KubeletError("served", f"{resource} is still served by a plugin that was here before")
        raise KubeletError(
            "served",
            f"another plugin serves {resource} ({len(ids)} devices, such as {ids[0]}): remove it, or give "
            "this one another --resource-name",
        )

    def _failed(self, error: EndpointError | KubeletError, now: float) -> None:
        patience = self._patience
        self._registered_at = None
        self._failures += 1
        taking_over = error.reason == "served" and now - (self._served_since or now) < patience.takeover
        wait = min(patience.longest_retry, patience.first_retry * 2 ** min(self._failures - 1, 16))
        if error.reason == "served":
            wait = patience.first_retry if taking_over else patience.longest_retry
        elif error.reason == "no_socket":
            wait = patience.first_retry
        self._not_before = now + wait
        self.trouble = str(error)
        if self.trouble == self._said:
            return
        self._said = self.trouble
        self._tally.count("registration_errors", error.reason)
        waiting = taking_over or error.reason == "no_socket"
        log.log(logging.INFO if waiting else logging.ERROR, "%s", self.trouble)
