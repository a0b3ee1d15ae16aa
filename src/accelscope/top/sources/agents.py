"""Agents, each polled by its own thread, so that a slow one does not delay the others."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from accelscope.kube.endpoint import Endpoint, KubeError, Reason, one_line
from accelscope.model.wire import SchemaError, drop_unknown_vendors, read_snapshot
from accelscope.top.sources.source import JsonClient, Query, is_fleet, node_view
from accelscope.top.view.model import NodeView, View, ViewKind

AGENTS_LIMIT = 200  # one thread each; use a fleet for more
ANSWER_LIMIT = 64 << 20  # bytes; a snapshot of 64 devices and 5,000 processes has 3 MB
_AGE_HEADER = "x-accelscope-age"
_AGE_LIMIT_SECONDS = 1e10  # three centuries
_FIRST_SECONDS = 1.0  # a view waits this long for the first responses
_PAUSE_SECONDS = 0.05  # between requests to an agent that is slower than the interval


@dataclass(frozen=True, slots=True)
class _Reading:
    """The last valid response of an agent; `received` by the monotonic clock."""

    node: NodeView
    tag: str | None
    age_seconds: float  # when it was received
    received: float


class AgentPoller:
    """Polls one agent. `settled` is set after the first attempt, and after the one requested by refresh()."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float) -> None:
        self.url = endpoint.url
        self.settled = threading.Event()
        self._client = JsonClient(endpoint, timeout_seconds=timeout_seconds, limit_bytes=ANSWER_LIMIT)
        self._lock = threading.Lock()
        self._reading: _Reading | None = None
        self._error: str | None = None
        self._changed = threading.Condition()
        self._interval = 2.0
        self._wanted = False
        self._stopping = False

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"agent {self.url}", daemon=True).start()

    def pace(self, interval_seconds: float) -> None:
        with self._changed:
            self._interval = interval_seconds
            self._changed.notify_all()

    def refresh(self) -> None:
        with self._changed:
            self._wanted = True
            self.settled.clear()
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _run(self) -> None:
        while not self._stopping:
            began = time.monotonic()
            self.poll()
            self._wait(began)
        self._client.close()

    def _wait(self, began: float) -> None:
        """Until the interval, which may change meanwhile, has passed, or until refresh()."""
        with self._changed:
            if not self._wanted:  # otherwise this response is older than the call of refresh()
                self.settled.set()
            ended = time.monotonic()
            while not self._stopping and not self._wanted:
                due = max(began + self._interval, ended + _PAUSE_SECONDS)
                if (left := due - time.monotonic()) <= 0:
                    break
                self._changed.wait(left)
            self._wanted = False

    def poll(self) -> None:
        reading, error = self._reading, None
        try:
            reading = self._request(reading)
        except KubeError as problem:
            error = str(problem).removeprefix(f"{self.url}: ")
            if problem.reason is Reason.NOT_FOUND and is_fleet(self._client):
                error = f"this is a fleet, not an agent: use --fleet {self.url}"
        except SchemaError as problem:
            error = one_line(f"cannot read its response: {problem}")
        except Exception as fault:  # noqa: BLE001 - must not end the thread
            error = one_line(f"unexpected error in its response: {type(fault).__name__}: {fault}")
        with self._lock:
            self._reading, self._error = reading, error

    def _request(self, reading: _Reading | None) -> _Reading:
        answer = self._client.get("/snapshot", reading.tag if reading else None)
        age = _seconds(answer.headers.get(_AGE_HEADER))
        received = time.monotonic()
        if answer.unchanged and reading is not None:
            return replace(reading, age_seconds=age, received=received)
        known, remark = drop_unknown_vendors(answer.document)
        snapshot = read_snapshot(known)
        node = node_view(snapshot, key=self.url, source=self.url, age_seconds=age, document=answer.document)
        if remark is not None:
            node = replace(node, drivers_found=True, troubles=(*node.troubles, remark))
        return _Reading(node, answer.headers.get("etag"), age, received)

    def node(self) -> NodeView:
        with self._lock:
            reading, error = self._reading, self._error
        if reading is None:
            error = error or "no response yet"
            return NodeView(key=self.url, name=self.url.split("//", 1)[-1], source=self.url, error=error)
        age = reading.age_seconds + time.monotonic() - reading.received
        return replace(reading.node, age_seconds=age, error=error)


class AgentsSource:
    kind = ViewKind.AGENTS

    def __init__(self, endpoints: Sequence[Endpoint], *, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._pollers = [AgentPoller(endpoint, timeout_seconds) for endpoint in endpoints]
        first = self._pollers[0].url
        self.title = first if len(self._pollers) == 1 else f"{len(self._pollers)} agents"

    def start(self) -> None:
        for poller in self._pollers:
            poller.start()

    def read(self, query: Query) -> View:
        del query  # all nodes are shown
        end = time.monotonic() + _FIRST_SECONDS
        for poller in self._pollers:
            poller.settled.wait(max(0.0, end - time.monotonic()))
        nodes = tuple(poller.node() for poller in self._pollers)
        return View(kind=self.kind, title=self.title, at=time.time(), nodes=nodes)

    def settle(self) -> None:
        end = time.monotonic() + self._timeout + _FIRST_SECONDS
        for poller in self._pollers:
            poller.settled.wait(max(0.0, end - time.monotonic()))

    def hurry(self, interval_seconds: float) -> None:
        for poller in self._pollers:
            poller.pace(interval_seconds)

    def refresh(self) -> None:
        for poller in self._pollers:
            poller.refresh()

    def stop(self) -> None:
        for poller in self._pollers:
            poller.stop()


def _seconds(text: str | None) -> float:
    """The age of a snapshot; 0 without a valid header."""
    try:
        seconds = float(text or 0.0)
    except ValueError:
        return 0.0
    return seconds if 0.0 <= seconds < _AGE_LIMIT_SECONDS else 0.0
