"""The node read once, without a loop: for commands that look and end."""

import threading
import time

from accelscope import __version__
from accelscope.agent.runner import Result, Runner
from accelscope.agent.runners import make_runners
from accelscope.agent.settings import AgentSettings
from accelscope.model import AgentState, Snapshot

_MOST_PASSES = 20


def read_once(settings: AgentSettings, node: str) -> Snapshot:
    """A snapshot of devices and readers. A reader that needs several passes to get to know all of its devices
    gets them, as long as each brings more."""
    changed = threading.Condition()
    runners = make_runners(settings, changed)
    with changed:
        results = [_read(runners, changed)]
        while len(results) < _MOST_PASSES and _may_bring_more(results):
            results.append(_read(runners, changed))
        for runner in runners:
            runner.stop()
    now = time.time()
    return Snapshot(
        node=node,
        taken_at=now,
        agent=AgentState(version=__version__, started_at=now),
        readers=tuple(result.state for result in results[-1]),
        devices=tuple(device for result in results[-1] for device in result.devices),
    )


def _read(runners: list[Runner], changed: threading.Condition) -> list[Result]:
    for runner in runners:
        runner.begin()
    while any(runner.busy for runner in runners):
        changed.wait(0.05)  # short, because the runners' deadlines are their own
        for runner in runners:
            runner.abandon_overdue()
    return [runner.result() for runner in runners]


def _may_bring_more(passes: list[list[Result]]) -> bool:
    last = [result.state for result in passes[-1]]
    if all(state.devices_seen >= state.devices_expected for state in last):
        return False
    seen = [sum(result.state.devices_seen for result in results) for results in passes]
    return len(seen) == 1 or seen[-1] > seen[-2]
