"""What the kubelet says that pods hold: asked once per collection, beside the readers.

A thread of its own asks, so that a kubelet that hangs delays no page.
"""

import logging
import math
import threading
from collections.abc import Callable

from accelscope.attribution.pod_resources import HeldPod, PodResourcesClient
from accelscope.attribution.status import SourceLog
from accelscope.deadline import Calls, NoThread
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
        self._calls = Calls("pod-resources", self._changed)
        self._pods: tuple[HeldPod, ...] = ()
        self._answered_at: float | None = None
        self._internal_error = ""  # the last one that was logged

    def begin(self) -> None:
        """Ask, unless a call is still under way. It has no deadline: a late answer is used too."""
        with self._changed:
            if self._calls.running:
                return
            try:
                self._calls.begin("", self._ask, math.inf, self._take)
            except NoThread as error:  # the next collection tries again
                self._log.failed("exhausted", f"the agent got no thread to ask in: {error}")

    def latest(self, wait_seconds: float) -> tuple[HeldPod, ...]:
        """The answer to the last `begin`, or what was known before if it does not come in time."""
        with self._changed:
            self._changed.wait_for(lambda: not self._calls.running, wait_seconds)
            if self._answered_at is None or self._monotonic() - self._answered_at > _KEPT_SECONDS:
                return ()
            return self._pods

    def state(self) -> AttributionSourceState:
        with self._changed:
            return self._log.state()

    def _ask(self) -> tuple[HeldPod, ...] | Exception:
        try:
            return self._client.list()
        except UnaryError as error:
            return error
        except Exception as error:  # a fault of ours costs this answer, not all that follow
            if (text := f"{type(error).__name__}: {error}") != self._internal_error:
                self._internal_error = text
                log.exception("unexpected error from the kubelet's pod-resources API")
            return error

    def _take(self, answer: tuple[HeldPod, ...] | Exception) -> None:
        if isinstance(answer, UnaryError):
            no_kubelet_here = answer.reason == UnaryReason.NO_SOCKET and not self._in_cluster
            self._log.failed(answer.reason, str(answer), expected=no_kubelet_here)
        elif isinstance(answer, Exception):
            self._log.failed("internal", f"{type(answer).__name__}: {answer}")
        else:
            self._pods, self._answered_at = answer, self._monotonic()
            self._log.detail = self._client.version
            self._log.succeeded()
