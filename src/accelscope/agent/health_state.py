"""The sink that keeps errors that last until an event across restarts of the agent, in the state folder.

    {"version": 1, "devices": [[device, [[kind, code, first_seen, last_seen], ...], evidence], ...]}

The evidence of the last reading is compared with the first reading of the next agent, so that a reset, a
reload of the driver or a reboot while no agent ran ends the errors. The file is written when the errors
change, and every minute while there are any.
"""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelscope.agent.runner import Runner
from accelscope.model import Snapshot
from accelscope.sinks.sink import Sink, Timing, WriteIntervals
from accelscope.sinks.state_file import entries, read_state, seconds, text, write_state

if TYPE_CHECKING:
    from accelscope.vendors.common.health import ErrorHistory, Evidence

NAME = "health-state"
FILE = "health.json"
PACE = WriteIntervals(interval_seconds=1.0, renewal_seconds=60.0)

_MOST_DEVICES = 1024
_MOST_ERRORS = 64  # of a device
_MOST_COUNTERS = 8
_MOST_COUNT = 1e18
# A device that was replaced does not return: its errors are forgotten after this time.
_FORGET_SECONDS = 30 * 86400.0

Histories = Mapping[str, "ErrorHistory"]


class HealthStateSink(Sink[Histories]):
    def __init__(
        self,
        folder: Path,
        runners: Sequence[Runner],
        changed: threading.Condition,
        *,
        pace: WriteIntervals = PACE,
        timing: Timing | None = None,
    ) -> None:
        super().__init__(NAME, pace, timing=timing)
        self._path = folder / FILE
        self._runners = runners
        self._guard = changed  # of the runners

    def _content(self, snapshot: Snapshot) -> Histories:
        del snapshot  # it has the health, but not the evidence
        with self._guard:
            return {
                device: history
                for runner in self._runners
                for device, history in runner.lasting_errors().items()
            }

    def _differs(self, content: Histories, written: Histories) -> bool:
        return {device: history.errors for device, history in content.items()} != {
            device: history.errors for device, history in written.items()
        }

    def _renews(self, content: Histories) -> bool:
        return bool(content)

    def _write(self, content: Histories) -> str | None:
        kept = list(content.items())[:_MOST_DEVICES]
        write_state(
            self._path,
            {
                "devices": [
                    [device, [list(error) for error in history.errors.values()], _evidence_document(history)]
                    for device, history in kept
                ]
            },
        )
        left_out = len(content) - len(kept)
        return f"errors of {left_out} devices are not kept" if left_out else None


def _evidence_document(history: "ErrorHistory") -> dict[str, Any] | None:
    evidence = history.evidence
    if evidence is None:
        return None
    return {
        "at": evidence.at,
        "boot": evidence.boot,
        "driver": evidence.driver,
        "serial": evidence.serial,
        "counters": dict(evidence.counters),
        "reset_requested": evidence.reset_requested,
    }


def read_errors(folder: Path, now: float) -> Histories:
    """By the id of the device; none if the file is missing, damaged or of another version."""
    found = read_state(folder / FILE, _parse, "errors of devices before the restart are unknown")
    return {
        device: history
        for device, history in (found or {}).items()
        if history.evidence is None or now - history.evidence.at < _FORGET_SECONDS
    }


def _parse(document: Mapping[str, Any]) -> Histories:
    """Raises ValueError."""
    devices = entries(document, "devices", _MOST_DEVICES)
    if not devices:
        return {}
    from accelscope.vendors.common.health import ErrorHistory, SeenError  # noqa: PLC0415 - saves memory

    histories: dict[str, ErrorHistory] = {}
    for entry in devices:
        if not isinstance(entry, list) or len(entry) != 3:
            raise ValueError("a device has other fields")
        id_, errors, evidence = entry
        history = histories[text(id_)] = ErrorHistory(evidence=_evidence(evidence))
        for error in entries({"errors": errors}, "errors", _MOST_ERRORS):
            if not isinstance(error, list) or len(error) != 4:
                raise ValueError("an error has other fields")
            kind, code, first, last = error
            seen = SeenError(text(kind), text(code), seconds(first), seconds(last))
            history.errors[seen.kind, seen.code] = seen
    return histories


def _evidence(value: Any) -> "Evidence | None":
    from accelscope.vendors.common.health import Evidence  # noqa: PLC0415 - saves memory

    if value is None:
        return None
    counters = value.get("counters") if isinstance(value, dict) else None
    if not isinstance(counters, dict) or len(counters) > _MOST_COUNTERS:
        raise ValueError("the evidence of a device has other fields")
    boot, driver, serial = (
        None if value.get(name) is None else text(value[name]) for name in ("boot", "driver", "serial")
    )
    return Evidence(
        seconds(value.get("at")),
        boot,
        driver,
        serial,
        {text(name): seconds(count, _MOST_COUNT) for name, count in counters.items()},
        value.get("reset_requested") is True,
    )
