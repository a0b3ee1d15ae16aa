"""The collection loop: starts the readers' passes, and makes a Snapshot of what they know.

A slow or hung reader delays nobody: when the time of a collection is up, the snapshot is made with what that
reader last brought, and its devices become stale when their calls miss their deadlines.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from accelscope import __version__
from accelscope.agent.assembly import make_runners
from accelscope.agent.runner import Result, Runner
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attributed, Attributor
from accelscope.model import (
    AgentState,
    Counted,
    Device,
    HealthState,
    Process,
    ReaderState,
    SinkState,
    Snapshot,
    counted,
)
from accelscope.process import own_process

log = logging.getLogger(__name__)

_WINDOW = 0.9  # share of the interval that a collection waits for its readers
_JITTER = 0.1  # share of the interval by which a collection may begin late
_LONGEST_WAIT = 1.0  # so that a changed settings file or a stop is noticed soon


@dataclass(frozen=True, slots=True)
class Pace:
    interval_seconds: float
    jitter: float = _JITTER


class Collector:
    def __init__(
        self,
        runners: Sequence[Runner],
        attributor: Attributor,
        *,
        node: str,
        version: str,
        pace: Pace,
        changed: threading.Condition,
        publish: Callable[[Snapshot], None],
        between: Callable[[], None] = lambda: None,
        sinks: Callable[[], tuple[SinkState, ...]] = lambda: (),
        token_reviews: Callable[[], tuple[Counted, ...]] = lambda: (),
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`changed` is the condition that the runners share. `between` is called about once a second between
        collections, in the loop's thread; `sinks` tells how they are, `token_reviews` how many there were."""
        self.pace = pace
        self.labels: tuple[tuple[str, str], ...] = ()
        self._runners = runners
        self._attributor = attributor
        self._node = node
        self._changed = changed
        self._publish = publish
        self._between = between
        self._fault_between = ""  # that was logged last
        self._sinks = sinks
        self._token_reviews = token_reviews
        self._clock = clock
        self._monotonic = monotonic
        self._agent = AgentState(version=version, started_at=clock())
        self._stopped = False
        self.moved_at = monotonic()  # for the liveness probe

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            for runner in self._runners:
                runner.stop()
            self._changed.notify_all()
        self._attributor.stop()

    def run(self) -> None:
        due = self._monotonic()
        while not self._stopped:
            self._wait_until(due + self._jitter() if self._agent.collections else due)
            if self._stopped:
                return
            try:
                self.collect()
            except Exception:  # the loop outlives a fault of ours; /readyz tells when collections stay away
                log.exception("a collection failed in a way that was not foreseen")
            due = self._next_due(due)

    def collect(self) -> Snapshot:
        """One collection, as far as it gets within its time."""
        started = self._monotonic()
        self._attributor.begin()
        with self._changed:
            for runner in self._runners:
                runner.begin()
            self._wait_for_readers(started + _WINDOW * self.pace.interval_seconds)
            results = [runner.result() for runner in self._runners]
        devices = tuple(device for result in results for device in result.devices)
        attributed = self._attributed(devices, tuple(p for result in results for p in result.processes))
        own = own_process()
        self._agent = replace(
            self._agent,
            collections=self._agent.collections + 1,
            collection_seconds=self._monotonic() - started,
            cpu_seconds=own.cpu_seconds,
            memory_bytes=own.memory_bytes,
            threads=own.threads,
            open_files=own.open_files,
            token_reviews=self._token_reviews(),
        )
        snapshot = Snapshot(
            node=self._node,
            taken_at=self._clock(),
            agent=self._agent,
            interval_seconds=self.pace.interval_seconds,
            labels=self.labels,
            readers=tuple(result.state for result in results),
            devices=devices,
            processes=attributed.processes,
            node_labels=attributed.node_labels,
            attribution=attributed.attribution,
            pods=attributed.pods,
            allocations=attributed.allocations,
            pod_usages=attributed.pod_usages,
            unattributed=attributed.unattributed,
            balances=attributed.balances,
            sinks=self._sinks(),
        )
        self._publish(snapshot)
        return snapshot

    def _attributed(self, devices: tuple[Device, ...], processes: tuple[Process, ...]) -> Attributed:
        try:
            return self._attributor.attribute(devices, processes)
        except Exception:  # devices are worth showing also when nobody can say whose they are
            log.exception("attribution failed in a way that was not foreseen")
            return Attributed(processes=processes)

    def count_reload(self, result: str) -> None:
        """Note what came of a changed settings file."""
        counts = {c.reason: c.count for c in self._agent.config_reloads}
        counts[result] = counts.get(result, 0) + 1
        self._agent = replace(self._agent, config_reloads=counted(counts))

    def _next_due(self, due: float) -> float:
        interval = self.pace.interval_seconds
        due += interval
        if due < self._monotonic():
            self._agent = replace(self._agent, overruns=self._agent.overruns + 1)
            due = self._monotonic()
        return due

    def _jitter(self) -> float:
        """Keeps a thousand nodes from asking at the same instant; it does not add up over collections."""
        return self.pace.jitter * self.pace.interval_seconds * int.from_bytes(os.urandom(2)) / 2**16

    def _wait_for_readers(self, until: float) -> None:
        while not self._stopped and any(runner.busy for runner in self._runners):
            now = self._monotonic()
            if now >= until:
                return
            self._changed.wait(min(until, now + _LONGEST_WAIT, self._earliest_deadline(until)) - now)
            for runner in self._runners:
                runner.abandon_overdue()
            self.moved_at = self._monotonic()

    def _wait_until(self, due: float) -> None:
        while not self._stopped:
            self.moved_at = now = self._monotonic()
            if now >= due:
                return
            self._do_between()
            with self._changed:
                wait = min(due, now + _LONGEST_WAIT, self._earliest_deadline(due)) - self._monotonic()
                if wait > 0 and not self._stopped:
                    self._changed.wait(wait)
                for runner in self._runners:
                    runner.abandon_overdue()

    def _do_between(self) -> None:
        try:
            self._between()
        except Exception as error:  # the loop outlives this too; it would be told every second
            if (told := repr(error)) != self._fault_between:
                self._fault_between = told
                log.exception("changed settings could not be taken up in a way that was not foreseen")

    def _earliest_deadline(self, latest: float) -> float:
        deadlines = [d for d in (runner.deadline() for runner in self._runners) if d is not None]
        return min([latest, *deadlines])


# --- once ------------------------------------------------------------
# The node read once, without a loop: for commands that look and end.


MOST_PASSES = 20


def read_once(settings: AgentSettings, node: str) -> Snapshot:
    """A snapshot of devices and readers."""
    changed = threading.Condition()
    results = read_and_stop(make_runners(settings, changed, once=True), changed)
    now = time.time()
    return Snapshot(
        node=node,
        taken_at=now,
        agent=AgentState(version=__version__, started_at=now),
        readers=tuple(result.state for result in results),
        devices=tuple(device for result in results for device in result.devices),
    )


def read_and_stop(runners: Sequence[Runner], changed: threading.Condition) -> list[Result]:
    """What they know after as many passes as bring more."""
    passes = Passes()
    with changed:
        results = _pass(runners, changed)
        while passes.may_bring_more(
            (result.state for result in results), (device for result in results for device in result.devices)
        ):
            results = _pass(runners, changed)
        for runner in runners:
            runner.stop()
    return results


class Passes:
    """A reader that needs several passes to get to know all of its devices gets them, as long as each brings
    more."""

    def __init__(self) -> None:
        self._known: list[int] = []  # after each pass

    def may_bring_more(self, states: Iterable[ReaderState], devices: Iterable[Device]) -> bool:
        """Whether one more is worth it after the one that brought these. Of a lost device it would tell the
        same."""
        before = self._known[-1] if self._known else -1
        known = sum(not device.stale or device.health.state is HealthState.LOST for device in devices)
        self._known.append(known)
        expected = sum(state.devices_expected for state in states)
        return before < known < expected and len(self._known) < MOST_PASSES


def _pass(runners: Sequence[Runner], changed: threading.Condition) -> list[Result]:
    for runner in runners:
        runner.begin()
    while any(runner.busy for runner in runners):
        changed.wait(0.05)  # short, because the runners' deadlines are their own
        for runner in runners:
            runner.abandon_overdue()
    return [runner.result() for runner in runners]
