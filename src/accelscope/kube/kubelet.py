"""The pods of this node from its kubelet: polled, for it has no watch."""

import time
from collections.abc import Callable

from accelscope.kube.client import Client
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.follower import Follower
from accelscope.kube.items import ListSplitter
from accelscope.kube.pods import KubePod, decode_pod
from accelscope.kube.retries import random_ratio
from accelscope.kube.store import ItemStore

_PATH = "/pods"

_ADVICE = {
    # nodes/proxy is never asked for: it allows to run commands in every pod.
    Reason.FORBIDDEN: (
        "the kubelet does not let us read /pods: grant `get` on `nodes/pods` (older kubelets, without "
        "KubeletFineGrainedAuthz, know only `nodes/proxy`, which allows far more: use the API server there)"
    ),
    Reason.UNAUTHORIZED: (
        "the kubelet does not accept our token: its webhook authentication must be on, and the token must be "
        "one of this cluster; the right that is needed then is `get` on `nodes/pods`"
    ),
}


class PodPoll(Follower[KubePod]):
    def __init__(
        self,
        client: Client,
        keep_labels: frozenset[str] = frozenset(),
        *,
        interval_seconds: float = 10.0,
        random: Callable[[], float] = random_ratio,
        wait: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        store = ItemStore(
            lambda document: decode_pod(document, keep_labels),
            key=lambda pod: pod.uid,
            keep=lambda pod: not pod.ended,
        )
        super().__init__(client, store, random=random, wait=wait, clock=clock)
        self._interval_seconds = interval_seconds

    def _round(self) -> float:
        found = self._listed(_PATH, ListSplitter())
        if self._stopping.is_set():
            return 0.0
        self._store.replace(found)
        self._retries.succeeded()
        self.synced.set()
        self._succeeded()
        return self._interval_seconds

    def _failed(self, error: KubeError) -> float:
        return max(super()._failed(error), self._interval_seconds)

    def _broke(self, fault: Exception) -> float:
        return max(super()._broke(fault), self._interval_seconds)

    def _told(self, error: KubeError) -> str:
        advice = _ADVICE.get(error.reason)
        return error.text if advice is None else KubeError(error.reason, f"{advice}; {error.text}").text
