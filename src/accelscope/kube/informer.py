"""Informers of the agent: threads that keep objects of this node current, by list and watch or by polling."""

import time
from collections.abc import Callable, Mapping
from threading import Event, Lock
from typing import Generic, TypeVar

from accelscope.kube.client import Client, Stream
from accelscope.kube.errors import KubeError, Reason
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

LIST_SECONDS = 60.0  # for a whole list
_TOKEN_LOOK_SECONDS = 1.0
_POLL_SECONDS = 10.0

_KUBELET_ADVICE = {
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


class BlockingInformer(Generic[T]):
    """Drives a ListWatch over the blocking client. run() belongs into a daemon thread and returns after
    stop(). `items`, `version` and `state` may be read by any thread; while the source is down, items are the
    last known ones. Lists are decoded object by object while they arrive and are never in memory whole."""

    def __init__(
        self, client: Client, machine: ListWatch[T], *, wait: Callable[[float], object] | None = None
    ) -> None:
        self._client = client
        self._machine = machine
        self._stopping = Event()
        self._wait = wait or self._stopping.wait
        self._lock = Lock()
        self._stream: Stream | None = None
        self._token_generation = 0  # of the token that the last request sent, or of an older one
        self.synced = Event()  # set once there has been a whole list

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
        """From another thread: run() returns soon, even out of a read that waits."""
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
                self._follow(step)
        except KubeError as error:
            if not self._stopping.is_set():
                self._machine.failed(error)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it must not end the thread
            if not self._stopping.is_set():
                self._machine.broke(fault)
        if self._machine.synced:
            self.synced.set()

    def _follow(self, request: Request) -> None:
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
            if not self._stopping.is_set():  # else the body may be cut off
                for _ in self._machine.end():
                    pass
        finally:
            with self._lock:
                self._stream = None

    def _pause(self, pause: Pause) -> None:
        seconds = pause.seconds
        while seconds > 0 and not self._stopping.is_set():
            step = min(seconds, _TOKEN_LOOK_SECONDS) if pause.refused else seconds
            self._wait(step)
            seconds -= step
            if pause.refused and self._client.token_generation() != self._token_generation:
                return


def watch_pods(
    client: Client, node: str, keep_labels: frozenset[str] = frozenset()
) -> BlockingInformer[KubePod]:
    """By uid; pods that ended are left out."""
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
    """The same from the node's kubelet, which has no watch."""
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
    """By name: one item, or none where there is no such node."""
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
    """In whichever of these versions the server has them; reason not_found where it has none."""
    machine = ListWatch(resource_slices_of(node, versions), ItemStore(decode, key), list_seconds=LIST_SECONDS)
    return BlockingInformer(client, machine)
