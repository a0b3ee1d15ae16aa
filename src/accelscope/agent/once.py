"""The node read once, without a loop: for commands that look and end."""

import threading
import time
from collections.abc import Iterable, Sequence

from accelscope import __version__
from accelscope.agent.runner import Result, Runner
from accelscope.agent.runners import make_runners
from accelscope.agent.settings import AgentSettings
from accelscope.model import AgentState, Device, HealthState, ReaderState, Snapshot

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
