"""Agents, each asked by a thread of its own: one that is slow or silent delays none of the others."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from accelscope.kube.endpoint import Endpoint
from accelscope.kube.errors import KubeError, Reason, one_line
from accelscope.model.wire import SchemaError, of_known_vendors, read_snapshot
from accelscope.top.sources.from_snapshot import node_view
from accelscope.top.sources.source import JsonClient, Question, is_fleet
from accelscope.top.view.shown import Kind, NodeView, View

MOST_AGENTS = 200  # a thread each; more are a fleet
ANSWER_LIMIT = 64 << 20  # bytes; a snapshot of 64 devices and 5,000 processes has 3 MB
_AGE_HEADER = "x-accelscope-age"
_MOST_SECONDS = 1e10  # of an age: three centuries
_FIRST_SECONDS = 1.0  # that a view waits for agents that have not answered yet
_PAUSE_SECONDS = 0.05  # between two questions to one that is slower than the interval


@dataclass(frozen=True, slots=True)
class _Heard:
    """The last good answer of an agent; `received` by the monotonic clock."""

    node: NodeView
    tag: str | None
    age_seconds: float  # when it was received
    received: float


class AgentPoller:
    """One agent. `settled` is set when the first attempt, or the one that was asked for, has ended."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float) -> None:
        self.url = endpoint.url
        self.settled = threading.Event()
        self._client = JsonClient(endpoint, timeout_seconds=timeout_seconds, limit_bytes=ANSWER_LIMIT)
        self._lock = threading.Lock()
        self._heard: _Heard | None = None
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
            self.ask()
            self._rest(began)
        self._client.close()

    def _rest(self, began: float) -> None:
        """Until the interval is over, which may change meanwhile, or somebody wants an answer now."""
        with self._changed:
            if not self._wanted:  # else this answer is from before the wish
                self.settled.set()
            ended = time.monotonic()
            while not self._stopping and not self._wanted:
                due = max(began + self._interval, ended + _PAUSE_SECONDS)
                if (left := due - time.monotonic()) <= 0:
                    break
                self._changed.wait(left)
            self._wanted = False

    def ask(self) -> None:
        heard, error = self._heard, None
        try:
            heard = self._asked(heard)
        except KubeError as problem:
            error = str(problem).removeprefix(f"{self.url}: ")
            if problem.reason is Reason.NOT_FOUND and is_fleet(self._client):
                error = f"this is a fleet, not an agent: use --fleet {self.url}"
        except SchemaError as problem:
            error = one_line(f"its answer cannot be read: {problem}")
        except Exception as fault:  # noqa: BLE001 - whatever it is, it costs this agent's answer only
            error = one_line(f"its answer cannot be shown: {type(fault).__name__}: {fault}")
        with self._lock:
            self._heard, self._error = heard, error

    def _asked(self, heard: _Heard | None) -> _Heard:
        answer = self._client.get("/snapshot", heard.tag if heard else None)
        age = _seconds(answer.headers.get(_AGE_HEADER))
        received = time.monotonic()
        if answer.unchanged and heard is not None:
            return replace(heard, age_seconds=age, received=received)
        known, remark = of_known_vendors(answer.document)
        snapshot = read_snapshot(known)
        node = node_view(snapshot, key=self.url, source=self.url, age_seconds=age, document=answer.document)
        if remark is not None:
            node = replace(node, drivers_found=True, troubles=(*node.troubles, remark))
        return _Heard(node, answer.headers.get("etag"), age, received)

    def node(self) -> NodeView:
        with self._lock:
            heard, error = self._heard, self._error
        if heard is None:
            error = error or "no answer yet"
            return NodeView(key=self.url, name=self.url.split("//", 1)[-1], source=self.url, error=error)
        age = heard.age_seconds + time.monotonic() - heard.received
        return replace(heard.node, age_seconds=age, error=error)


class AgentsSource:
    kind = Kind.AGENTS

    def __init__(self, endpoints: Sequence[Endpoint], *, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._pollers = [AgentPoller(endpoint, timeout_seconds) for endpoint in endpoints]
        first = self._pollers[0].url
        self.title = first if len(self._pollers) == 1 else f"{len(self._pollers)} agents"

    def start(self) -> None:
        for poller in self._pollers:
            poller.start()

    def read(self, question: Question) -> View:
        del question  # all of them are shown
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
    """Agents tell how old what they send is; one that does not, or not in numbers, is taken at its word."""
    try:
        seconds = float(text or 0.0)
    except ValueError:
        return 0.0
    return seconds if 0.0 <= seconds < _MOST_SECONDS else 0.0
