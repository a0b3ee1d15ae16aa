"""What the API server or the kubelet tells of this node, kept current by threads of their own."""

import logging
import threading
from typing import Generic, TypeVar

from accelscope.attribution.options import AttributionOptions, PodSource
from accelscope.attribution.owners import PodTable
from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint
from accelscope.kube.informer import BlockingInformer, poll_kubelet_pods, watch_node, watch_pods
from accelscope.kube.objects import KubeNode, KubePod
from accelscope.model import AttributionSourceState, counted

_TIMEOUT_SECONDS = 10.0

T = TypeVar("T")

log = logging.getLogger(__name__)


def client_of(endpoint: Endpoint) -> Client:
    return Client(endpoint, timeout_seconds=_TIMEOUT_SECONDS)


class Watched(Generic[T]):
    """A watch or a poll in its thread. What becomes of it is logged once per change."""

    def __init__(self, source: str, informer: BlockingInformer[T], detail: str | None = None) -> None:
        self._source = source
        self._informer = informer
        self._detail = detail
        self._logged: str | None = "starting"

    def start(self) -> None:
        threading.Thread(target=self._informer.run, name=self._source, daemon=True).start()

    def stop(self) -> None:
        self._informer.stop()

    def wait_for_first_list(self, seconds: float) -> bool:
        return self._informer.synced.wait(seconds)

    def state(self) -> AttributionSourceState:
        status = self._informer.state
        if status.reason != self._logged:
            if status.up:
                log.info("attribution source %s answers", self._source)
            elif status.error is not None:
                log.warning("attribution source %s: %s", self._source, status.error)
            self._logged = status.reason
        return AttributionSourceState(
            source=self._source,
            up=status.up,
            detail=self._detail,
            reason=status.reason,
            error=status.error,
            last_success=status.last_success,
            errors=counted(status.errors),
        )


class Pods(Watched[KubePod]):
    def __init__(self, informer: BlockingInformer[KubePod], detail: str) -> None:
        super().__init__("pods", informer, detail)
        self._made_from: tuple[int, bool] | None = None
        self._table = PodTable(asked=True)

    def table(self) -> PodTable:
        """The same object until something changes."""
        made_from = self._informer.version, self._informer.state.up
        if made_from != self._made_from:
            self._table = PodTable.of(self._informer.items, up=made_from[1])
            self._made_from = made_from
        return self._table


class NodeLabels(Watched[KubeNode]):
    def __init__(self, informer: BlockingInformer[KubeNode]) -> None:
        super().__init__("node", informer)

    def labels(self) -> tuple[tuple[str, str], ...]:
        return next((node.labels for node in self._informer.items.values()), ())


def pod_source(options: AttributionOptions) -> Pods | None:
    keep = frozenset(options.pod_labels)
    if options.pods is PodSource.API_SERVER and options.api_server is not None:
        return Pods(watch_pods(client_of(options.api_server), options.node, keep), "api-server")
    if options.pods is PodSource.KUBELET and options.kubelet is not None:
        return Pods(poll_kubelet_pods(client_of(options.kubelet), keep), "kubelet")
    return None


def node_source(options: AttributionOptions) -> NodeLabels | None:
    if not options.node_labels or options.api_server is None:
        return None
    keep = frozenset(options.node_labels)
    return NodeLabels(watch_node(client_of(options.api_server), options.node, keep))
