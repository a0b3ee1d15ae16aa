"""The collection loop: starts the readers' passes and makes a Snapshot of their results.

A slow or hung reader does not delay the others. When the time of a collection is over, the snapshot contains
that reader's last result; its devices become stale when their calls miss their deadlines.
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
from accelscope.attribution.attributor import Attribution, Attributor
from accelscope.model import (
    AgentState,
    Device,
    HealthState,
    Process,
    ReaderState,
    ReasonCount,
    SinkState,
    Snapshot,
    counted,
)
from accelscope.process import own_process

log = logging.getLogger(__name__)

_WINDOW = 0.9  # fraction of the interval that a collection waits for its readers
_JITTER = 0.1  # fraction of the interval by which a collection may start late
_LONGEST_WAIT = 1.0  # seconds until a changed settings file or a stop is noticed
MOST_PASSES = 20  # of `read_and_stop`


@dataclass(frozen=True, slots=True)
class CollectionInterval:
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
        pace: CollectionInterval,
        changed: threading.Condition,
        publish: Callable[[Snapshot], None],
        between: Callable[[], None] = lambda: None,
        sinks: Callable[[], tuple[SinkState, ...]] = lambda: (),
        token_reviews: Callable[[], tuple[ReasonCount, ...]] = lambda: (),
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """The runners share the condition `changed`. The loop's thread calls `between` about once a second
        between collections."""
        self.pace = pace
        self.labels: tuple[tuple[str, str], ...] = ()
        self._runners = runners
        self._attributor = attributor
        self._node = node
        self._changed = changed
        self._publish = publish
        self._between = between
        self._last_error = ""  # of `between`, as logged
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
            except Exception:  # the loop goes on; /readyz fails if there are no more collections
                log.exception("unexpected error during a collection")
            due = self._next_due(due)

    def collect(self) -> Snapshot:
        """One collection. Waits for the readers up to the end of the window."""
        started = self._monotonic()
        self._attributor.begin()
        with self._changed:
            for runner in self._runners:
                runner.begin()
            self._wait_for_readers(started + _WINDOW * self.pace.interval_seconds)
            results = [runner.result() for runner in self._runners]
        devices = tuple(device for result in results for device in result.devices)
        attributed = self._attribute(devices, tuple(p for result in results for p in result.processes))
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

    def _attribute(self, devices: tuple[Device, ...], processes: tuple[Process, ...]) -> Attribution:
        try:
            return self._attributor.attribute(devices, processes)
        except Exception:  # devices are published without attribution
            log.exception("unexpected error during attribution")
            return Attribution(processes=processes)

    def count_reload(self, result: str) -> None:
        """Count a reload of the settings file by its result: `applied` or `rejected`."""
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
        """Keeps a thousand nodes from collecting at the same instant. It does not accumulate."""
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
            self._run_between()
            with self._changed:
                wait = min(due, now + _LONGEST_WAIT, self._earliest_deadline(due)) - self._monotonic()
                if wait > 0 and not self._stopped:
                    self._changed.wait(wait)
                for runner in self._runners:
                    runner.abandon_overdue()

    def _run_between(self) -> None:
        try:
            self._between()
        except Exception as error:  # the loop goes on; the same error is logged once, not every second
            if (text := repr(error)) != self._last_error:
                self._last_error = text
                log.exception("unexpected error while reloading settings")

    def _earliest_deadline(self, latest: float) -> float:
        deadlines = [d for d in (runner.deadline() for runner in self._runners) if d is not None]
        return min([latest, *deadlines])


def read_once(settings: AgentSettings, node: str) -> Snapshot:
    """A snapshot of devices and readers, without a loop: for commands that read the node and end."""
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
    """`read_until_complete`, for runners that are not used again."""
    results = read_until_complete(runners, changed)
    with changed:
        for runner in runners:
            runner.stop()
    return results


def read_until_complete(runners: Sequence[Runner], changed: threading.Condition) -> list[Result]:
    """The runners' results, after as many passes as find more devices."""
    passes = PassCounter()
    with changed:
        results = _pass(runners, changed)
        while passes.needs_another(
            (result.state for result in results), (device for result in results for device in result.devices)
        ):
            results = _pass(runners, changed)
    return results


class PassCounter:
    """Some readers need several passes to find all devices. They get them while each pass finds more."""

    def __init__(self) -> None:
        self._known: list[int] = []  # number of devices after each pass

    def needs_another(self, states: Iterable[ReaderState], devices: Iterable[Device]) -> bool:
        """Takes the results of the last pass. A lost device counts as found: another pass changes nothing."""
        before = self._known[-1] if self._known else -1
        known = sum(not device.stale or device.health.state is HealthState.LOST for device in devices)
        self._known.append(known)
        expected = sum(state.devices_expected for state in states)
        return before < known < expected and len(self._known) < MOST_PASSES


def _pass(runners: Sequence[Runner], changed: threading.Condition) -> list[Result]:
    for runner in runners:
        runner.begin()
    while any(runner.busy for runner in runners):
        changed.wait(0.05)  # short, because calls may become overdue at any time
        for runner in runners:
            runner.abandon_overdue()
    return [runner.result() for runner in runners]
