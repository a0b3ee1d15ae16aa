"""What the kubelet says that pods hold: asked once per collection, beside the readers.

A thread of its own asks, so that a kubelet that hangs delays no page.
"""

import logging
import threading
from collections.abc import Callable

from accelscope.attribution.pod_resources import HeldPod, PodResourcesClient
from accelscope.attribution.status import SourceLog
from accelscope.kube.unary import UnaryError, UnaryReason
from accelscope.model import AttributionSourceState

log = logging.getLogger(__name__)

_KEPT_SECONDS = 60.0  # how long an answer stands in for those that fail to come: a kubelet's restart


class Holdings:
    def __init__(
        self,
        client: PodResourcesClient,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        *,
        in_cluster: bool,
    ) -> None:
        """`in_cluster`: there should be a kubelet."""
        self._client = client
        self._in_cluster = in_cluster
        self._monotonic = monotonic
        self._log = SourceLog("pod-resources", clock)
        self._changed = threading.Condition()
        self._wanted = 0  # calls asked for
        self._made = 0
        self._pods: tuple[HeldPod, ...] = ()
        self._answered_at: float | None = None
        self._started = False
        self._internal_error = ""  # the last one that was logged

    def begin(self) -> None:
        """Ask, unless a call is still under way."""
        with self._changed:
            if not self._started and not self._start():
                return
            if self._wanted == self._made:
                self._wanted += 1
                self._changed.notify_all()

    def latest(self, wait_seconds: float) -> tuple[HeldPod, ...]:
        """The answer to the last `begin`, or what was known before if it does not come in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._made == self._wanted, wait_seconds)
            if self._answered_at is None or self._monotonic() - self._answered_at > _KEPT_SECONDS:
                return ()
            return self._pods

    def state(self) -> AttributionSourceState:
        with self._changed:
            return self._log.state()

    def _start(self) -> bool:
        """False: there is no thread to be had; the next collection tries again."""
        try:
            threading.Thread(target=self._run, name="pod-resources", daemon=True).start()
        except RuntimeError as error:
            self._log.failed("exhausted", f"the agent got no thread to ask in: {error}")
            return False
        self._started = True
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._made != self._wanted)
            self._ask()

    def _ask(self) -> None:
        pods: tuple[HeldPod, ...] | None = None
        reason = error_text = ""
        try:
            pods = self._client.list()
        except UnaryError as error:
            reason, error_text = error.reason, str(error)
        except Exception as error:  # a fault of ours costs this answer, not all that would follow
            reason, error_text = "internal", f"{type(error).__name__}: {error}"
            if error_text != self._internal_error:
                self._internal_error = error_text
                log.exception("asking the kubelet failed in a way that was not foreseen")
        with self._changed:
            if pods is None:
                no_kubelet_here = reason == UnaryReason.NO_SOCKET and not self._in_cluster
                self._log.failed(reason, error_text, expected=no_kubelet_here)
            else:
                self._pods, self._answered_at = pods, self._monotonic()
                self._log.detail = self._client.version
                self._log.succeeded()
            self._made = self._wanted
            self._changed.notify_all()
