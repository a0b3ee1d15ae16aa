"""The sink that keeps idle times over a restart of the agent, in a small file of the state folder.

    {"version": 1, "saved_at": 1794000000.0,
     "idle": [[device, partition, namespace, pod, container, pod_uid or null, seconds], ...]}

The file is renewed every minute, and as soon as a pod in it works again. Nobody watches a pod while the agent
is away, so a file older than ten minutes is not used.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from accelscope.files import open_regular
from accelscope.model import Snapshot
from accelscope.sinks.sink import Pace, Sink, Timing, replace_file

log = logging.getLogger(__name__)

NAME = "idle-state"
FILE = "idle.json"
VERSION = 1
LONGEST_GAP_SECONDS = 600.0
LEAST_SECONDS = 60.0  # of idle time that is worth keeping
PACE = Pace(interval_seconds=10.0, renewal_seconds=60.0)

_MOST_HOLDERS = 4096
_MOST_BYTES = 4 << 20
_LONGEST_TEXT = 512
_MOST_IDLE_SECONDS = 10 * 365 * 86400.0
_MOST_EPOCH_SECONDS = 1e11  # the year 5138
_SAME_SECONDS = 30.0  # by which the beginning of an idle time may move without being another
_CLOCK_SECONDS = 5.0  # by which the clock may have been set back


class Holder(NamedTuple):
    """One container of a pod that holds one device or partition."""

    device: str
    partition: str
    namespace: str
    pod: str
    container: str
    pod_uid: str | None


@dataclass(frozen=True, slots=True)
class IdleTimes:
    taken_at: float  # seconds since the epoch
    seconds: Mapping[Holder, float]

    def at(self, now: float) -> dict[Holder, float]:
        """Of those who have done nothing since."""
        gap = max(0.0, now - self.taken_at)
        return {holder: seconds + gap for holder, seconds in self.seconds.items()}


class IdleStateSink(Sink[IdleTimes]):
    def __init__(
        self, folder: Path, kept: IdleTimes, *, pace: Pace = PACE, timing: Timing | None = None
    ) -> None:
        """`kept`: what the file has, as it was read at the start."""
        super().__init__(NAME, pace, timing=timing)
        self._path = folder / FILE
        self._known = kept

    def _content(self, snapshot: Snapshot) -> IdleTimes:
        """What was known before stays while devices, pods or what they hold are not known."""
        sources = {state.source: state.up for state in snapshot.attribution}
        known = sources.get("pod-resources", False) and sources.get("pods", True)
        if not known or not all(reader.up for reader in snapshot.readers if reader.found):
            return self._known
        idle = {
            Holder(
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
            abs(seconds - written.seconds[holder] - elapsed) > _SAME_SECONDS
            for holder, seconds in content.seconds.items()
        )

    def _write(self, content: IdleTimes) -> str | None:
        longest = sorted(content.seconds.items(), key=lambda item: -item[1])[:_MOST_HOLDERS]
        document = {
            "version": VERSION,
            "saved_at": content.taken_at,
            "idle": [[*holder, round(seconds, 1)] for holder, seconds in longest],
        }
        replace_file(self._path, json.dumps(document).encode(), 0o600)
        left_out = len(content.seconds) - len(longest)
        return (
            f"{left_out} idle containers are not kept: there are more than {_MOST_HOLDERS}"
            if left_out
            else None
        )


def read_idle_times(folder: Path, now: float) -> IdleTimes:
    """As they were saved; none of a file that is missing, damaged, old or of another version. `now` is in
    seconds since the epoch."""
    path, nothing = folder / FILE, IdleTimes(now, {})
    try:
        with open_regular(path) as file:
            content = file.read(_MOST_BYTES + 1)
        times = _parsed(content)
    except FileNotFoundError:
        return nothing
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s is not used, and idle times begin at 0: %s", path, error)
        return nothing
    gap = now - times.taken_at
    if not -_CLOCK_SECONDS <= gap <= LONGEST_GAP_SECONDS:
        log.info("%s is not used, and idle times begin at 0: it was written %.0f s ago", path, gap)
        return nothing
    return times


def _parsed(content: bytes) -> IdleTimes:
    """Raises ValueError."""
    if len(content) > _MOST_BYTES:
        raise ValueError(f"larger than {_MOST_BYTES} bytes")
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("not an object")  # noqa: TRY004 - the content is wrong, not a type of ours
    if document.get("version") != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    entries = document.get("idle")
    if not isinstance(entries, list) or len(entries) > _MOST_HOLDERS:
        raise ValueError("no list of idle times")
    saved_at = _seconds(document.get("saved_at"), _MOST_EPOCH_SECONDS)
    return IdleTimes(saved_at, dict(map(_entry, entries)))


def _entry(entry: Any) -> tuple[Holder, float]:
    if not isinstance(entry, list) or len(entry) != len(Holder._fields) + 1:
        raise ValueError("an idle time has other fields")
    holder, seconds = Holder(*entry[:-1]), entry[-1]
    if not all(_is_text(text) for text in holder[:-1]) or not (
        holder.pod_uid is None or _is_text(holder.pod_uid)
    ):
        raise ValueError("an idle time has other fields")
    return holder, _seconds(seconds, _MOST_IDLE_SECONDS)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT


def _seconds(value: Any, most: float) -> float:
    """Compared before it is converted: JSON has whole numbers that no float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError("a time is no number of seconds, or too large")
    return float(value)
