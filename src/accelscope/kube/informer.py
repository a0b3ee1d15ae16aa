"""Informers of the agent: threads that keep objects of this node up to date by list and watch, or by
polling."""

import time
from collections.abc import Callable, Mapping
from threading import Event, Lock
from typing import Generic, TypeVar

from accelscope.kube.client import Client, Stream
from accelscope.kube.endpoint import KubeError, Reason
from accelscope.kube.listwatch import (
    RESOURCE_SLICE_VERSIONS,
    Collection,
    ItemStore,
    ListWatch,
    Pause,
    Request,
    SourceStatus,
    one_node,
    pods_of,
    random_ratio,
    resource_slices_of,
)
from accelscope.kube.objects import KubeNode, KubePod, decode_node, decode_pod

T = TypeVar("T")

LIST_SECONDS = 60.0  # for a complete list
_TOKEN_POLL_SECONDS = 1.0
_POLL_SECONDS = 10.0

_KUBELET_ADVICE = {
    # Never suggest nodes/proxy: it allows running commands in every pod.
    Reason.FORBIDDEN: (
        "the kubelet denies access to /pods: grant `get` on `nodes/pods`; kubelets without "
        "KubeletFineGrainedAuthz support only `nodes/proxy`, which allows far more: use the API server there"
    ),
    Reason.UNAUTHORIZED: (
        "the kubelet rejects the token: it needs webhook authentication, and the token must be from this "
        "cluster and have the right `get` on `nodes/pods`"
    ),
}


class BlockingInformer(Generic[T]):
    """Runs a ListWatch with the blocking client. Call run() in a daemon thread; it returns after stop(). Any
    thread may read `items`, `version` and `state`. While the source is down, `items` are the last known ones.
    Lists are decoded object by object as they arrive, and are never in memory as a whole."""

    def __init__(
        self, client: Client, machine: ListWatch[T], *, wait: Callable[[float], object] | None = None
    ) -> None:
        self._client = client
        self._machine = machine
        self._stopping = Event()
        self._wait = wait or self._stopping.wait
        self._lock = Lock()
        self._stream: Stream | None = None
        self._token_generation = 0  # when the last request was sent
        self.synced = Event()  # set after the first complete list

    @property
    def items(self) -> Mapping[str, T]:
        return self._machine.store.items

    @property
    def version(self) -> int:
        """Increases with each change of items."""
        return self._machine.store.version

    @property
    def state(self) -> SourceStatus:
        return self._machine.status

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._take(self._machine.next_step())
        finally:
            self._machine.stopped()

    def stop(self) -> None:
        """Make run() return soon, even from a blocking read."""
        with self._lock:
            self._stopping.set()
            if self._stream is not None:
                self._stream.close()

    def _take(self, step: Request | Pause) -> None:
        try:
            if isinstance(step, Pause):
                self._pause(step)
            else:
                self._token_generation = self._client.token_generation()
                self._stream_response(step)
        except KubeError as error:
            if not self._stopping.is_set():
                self._machine.failed(error)
        except Exception as fault:  # noqa: BLE001 - must not end the thread
            if not self._stopping.is_set():
                self._machine.broke(fault)
        if self._machine.synced:
            self.synced.set()

    def _stream_response(self, request: Request) -> None:
        idle = self._client.timeout_seconds if request.idle_seconds is None else request.idle_seconds
        stream = self._client.stream(request.path, idle_seconds=idle, total_seconds=request.total_seconds)
        with self._lock:
            if self._stopping.is_set():
                return
            self._stream = stream
        try:
            with stream:
                self._machine.opened()
                for piece in stream:
                    for _ in self._machine.feed(piece):
                        pass
            if not self._stopping.is_set():  # otherwise the body may be truncated
                for _ in self._machine.end():
                    pass
        finally:
            with self._lock:
                self._stream = None

    def _pause(self, pause: Pause) -> None:
        seconds = pause.seconds
        while seconds > 0 and not self._stopping.is_set():
            step = min(seconds, _TOKEN_POLL_SECONDS) if pause.refused else seconds
            self._wait(step)
            seconds -= step
            if pause.refused and self._client.token_generation() != self._token_generation:
                return


def watch_pods(
    client: Client, node: str, keep_labels: frozenset[str] = frozenset()
) -> BlockingInformer[KubePod]:
    """Pods of the node by uid, without those that have ended."""
    machine = ListWatch(pods_of(node), _pod_store(keep_labels), list_seconds=LIST_SECONDS)
    return BlockingInformer(client, machine)


def poll_kubelet_pods(
    client: Client,
    keep_labels: frozenset[str] = frozenset(),
    *,
    random: Callable[[], float] = random_ratio,
    wait: Callable[[float], object] | None = None,
    clock: Callable[[], float] = time.time,
) -> BlockingInformer[KubePod]:
    """Pods of the node by uid from its kubelet, which does not support watches."""
    machine = ListWatch(
        Collection(("/pods",)),
        _pod_store(keep_labels),
        list_seconds=LIST_SECONDS,
        poll_seconds=_POLL_SECONDS,
        advice=_KUBELET_ADVICE,
        random=random,
        clock=clock,
    )
    return BlockingInformer(client, machine, wait=wait)


def _pod_store(keep_labels: frozenset[str]) -> ItemStore[KubePod]:
    return ItemStore(
        lambda document: decode_pod(document, keep_labels),
        key=lambda pod: pod.uid,
        keep=lambda pod: not pod.ended,
    )


def watch_node(client: Client, node: str, keep_labels: frozenset[str]) -> BlockingInformer[KubeNode]:
    """The Node object by name; empty if it does not exist."""
    store = ItemStore(lambda document: decode_node(document, keep_labels), key=lambda found: found.name)
    return BlockingInformer(client, ListWatch(one_node(node), store, list_seconds=LIST_SECONDS))


def watch_resource_slices(
    client: Client,
    node: str,
    *,
    decode: Callable[[object], T],
    key: Callable[[T], str],
    versions: tuple[str, ...] = RESOURCE_SLICE_VERSIONS,
) -> BlockingInformer[T]:
    """ResourceSlices of the node in the first of these versions that the server has; reason not_found if it
    has none."""
    machine = ListWatch(resource_slices_of(node, versions), ItemStore(decode, key), list_seconds=LIST_SECONDS)
    return BlockingInformer(client, machine)
