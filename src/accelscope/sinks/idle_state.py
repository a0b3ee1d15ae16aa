"""The sink that keeps idle times across restarts of the agent, in a file in the state folder.

    {"version": 1, "saved_at": 1794000000.0,
     "idle": [[device, partition, namespace, pod, container, pod_uid or null, seconds], ...]}

The file is written every minute, and when a pod in it becomes active. Pods are not observed while the agent
is stopped, so a file older than ten minutes is not used.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from accelscope.model import Snapshot
from accelscope.sinks.sink import Sink, Timing, WriteIntervals
from accelscope.sinks.state_file import entries, read_state, seconds, text, write_state

log = logging.getLogger(__name__)

NAME = "idle-state"
FILE = "idle.json"
LONGEST_GAP_SECONDS = 600.0
LEAST_SECONDS = 60.0  # shorter idle times are not kept
PACE = WriteIntervals(interval_seconds=10.0, renewal_seconds=60.0)

_MOST_ENTRIES = 4096
_MOST_IDLE_SECONDS = 10 * 365 * 86400.0
_SAME_SECONDS = 30.0  # tolerance for the start of an idle time
_CLOCK_SECONDS = 5.0  # tolerance for a clock that was set back


class AllocationKey(NamedTuple):
    """A device or partition that is allocated to a container."""

    device: str
    partition: str
    namespace: str
    pod: str
    container: str
    pod_uid: str | None


@dataclass(frozen=True, slots=True)
class IdleTimes:
    taken_at: float  # seconds since the epoch
    seconds: Mapping[AllocationKey, float]

    def at(self, now: float) -> dict[AllocationKey, float]:
        """The idle times at a later time, without activity in between."""
        gap = max(0.0, now - self.taken_at)
        return {key: seconds + gap for key, seconds in self.seconds.items()}


class IdleStateSink(Sink[IdleTimes]):
    def __init__(
        self, folder: Path, stored: IdleTimes, *, pace: WriteIntervals = PACE, timing: Timing | None = None
    ) -> None:
        """`stored`: the content of the file at the start."""
        super().__init__(NAME, pace, timing=timing)
        self._path = folder / FILE
        self._known = stored

    def _content(self, snapshot: Snapshot) -> IdleTimes:
        """The last idle times are kept while devices, pods or allocations are unknown."""
        sources = {state.source: state.up for state in snapshot.attribution}
        known = sources.get("pod-resources", False) and sources.get("pods", True)
        if not known or not all(reader.up for reader in snapshot.readers if reader.found):
            return self._known
        idle = {
            AllocationKey(
                usage.device,
                usage.partition or "",
                usage.namespace,
                usage.pod,
                usage.container,
                usage.pod_uid,
            ): usage.idle_seconds
            for usage in snapshot.pod_usages
            if usage.allocated and usage.idle_seconds is not None and usage.idle_seconds >= LEAST_SECONDS
        }
        self._known = IdleTimes(snapshot.taken_at, idle)
        return self._known

    def _differs(self, content: IdleTimes, written: IdleTimes) -> bool:
        if content.seconds.keys() != written.seconds.keys():
            return True
        elapsed = content.taken_at - written.taken_at
        return any(
            abs(seconds - written.seconds[key] - elapsed) > _SAME_SECONDS
            for key, seconds in content.seconds.items()
        )

    def _write(self, content: IdleTimes) -> str | None:
        longest = sorted(content.seconds.items(), key=lambda item: -item[1])[:_MOST_ENTRIES]
        idle = [[*key, round(seconds, 1)] for key, seconds in longest]
        write_state(self._path, {"saved_at": content.taken_at, "idle": idle})
        left_out = len(content.seconds) - len(longest)
        return (
            f"idle times of {left_out} containers are not kept: there are more than {_MOST_ENTRIES}"
            if left_out
            else None
        )


def read_idle_times(folder: Path, now: float) -> IdleTimes:
    """The saved idle times; none if the file is missing, damaged, too old or of another version. `now` is in
    seconds since the epoch."""
    path, nothing = folder / FILE, IdleTimes(now, {})
    times = read_state(path, _parse, "idle times start at 0")
    if times is None:
        return nothing
    gap = now - times.taken_at
    if not -_CLOCK_SECONDS <= gap <= LONGEST_GAP_SECONDS:
        log.info("idle times start at 0, %s was written %.0f s ago", path, gap)
        return nothing
    return times


def _parse(document: Mapping[str, Any]) -> IdleTimes:
    """Raises ValueError."""
    found = entries(document, "idle", _MOST_ENTRIES)
    return IdleTimes(seconds(document.get("saved_at")), dict(map(_entry, found)))


def _entry(entry: Any) -> tuple[AllocationKey, float]:
    if not isinstance(entry, list) or len(entry) != len(AllocationKey._fields) + 1:
        raise ValueError("an idle time has other fields")
    device, partition, namespace, pod, container, uid, idle = entry
    key = AllocationKey(
        text(device),
        text(partition),
        text(namespace),
        text(pod),
        text(container),
        None if uid is None else text(uid),
    )
    return key, seconds(idle, _MOST_IDLE_SECONDS)
