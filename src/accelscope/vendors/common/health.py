"""The health of a device: from the problems that its driver reports now, and from errors that happened.

A problem that the driver reports now (a failed row remapping, a temperature, its own words) ends when the
driver no longer reports it. An error is an event with a code, and the vendor's catalogue (`error_codes.py`)
contains its severity and what ends it: a warning ends after ten minutes; an error that lasts ends with a
reset of the device, a reload of the driver or a reboot. Each of these also ends what the ones before it end.
The tracker looks for evidence of them between two readings of the device.

The most severe cause decides the state. Of several equally severe ones the present cause stays while it is
active, then the oldest is chosen, so that the reason does not alternate.

Agent and device plugin import this module when a device first has a problem or an error.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from accelscope.model import Device, ErrorCount, Health, HealthState, Reading, Vendor
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import Paths
from accelscope.vendors.common.error_codes import Clearing, ErrorCode
from accelscope.vendors.common.files import read_optional

RECENT_SECONDS = 600.0  # how long an error without a clearing event affects the health
_MOST_ERRORS = 64  # of one device that affect its health
_MOST_CODES = 1024  # of one device
_MOST_DEVICES = 1024
_RESTARTED_BELOW = 0.5  # a counter below this fraction of its last value was restarted

_EVENTS: tuple[Clearing, ...] = ("reset", "driver_reload", "reboot", "replacement")
_SEVERITY = (
    HealthState.OK,
    HealthState.WARNING,
    HealthState.UNKNOWN,
    HealthState.CRITICAL,
    HealthState.LOST,
)
_HEALTHY = Health(HealthState.OK)
_NO_COUNTERS: Mapping[str, float] = MappingProxyType({})


# --- decision -------------------------------------------------------------


def worst(problems: Iterable[Health]) -> Health:
    """The first of the most severe problems; OK without one."""
    return max(problems, key=_severity, default=_HEALTHY)


def choose(problems: Sequence[Health], cause: str | None) -> Health:
    """The problem that decides the state. `cause`: of the present state. Errors have the time of the first
    one in `since`; of the driver's problems, which have none, the first is the most important."""
    most = _severity(worst(problems))
    equal = [problem for problem in problems if _severity(problem) == most]
    for problem in equal:
        if problem.cause == cause:
            return problem
    return min(equal, key=lambda problem: problem.since or 0.0, default=_HEALTHY)


def _severity(health: Health) -> int:
    return _SEVERITY.index(health.state)


class SeenError(NamedTuple):
    """An error that affects the health; times are seconds since the epoch."""

    kind: str
    code: str
    first_seen: float
    last_seen: float


def health_of_error(error: SeenError, entry: ErrorCode) -> Health | None:
    """None: the error does not affect the health."""
    if entry.severity == "info":
        return None
    return Health(
        HealthState(entry.severity),
        # Without a colon, so that the whole text is the meaning of the reason.
        f"{_name(error.kind, error.code)} ({entry.meaning.replace(': ', ', ')})",
        cause=cause_of(error.kind, error.code),
        action=entry.action,
        origin=entry.origin,
        since=error.first_seen,
        until=entry.until or "condition",
    )


def explained(health: Health, kind: str, entries: Iterable[ErrorCode]) -> Health:
    """The driver's own state, with what the catalogue contains about the codes that it lists now."""
    severities = ("info", "warning", "critical")
    entry = max(entries, key=lambda entry: (severities.index(entry.severity), entry.code), default=None)
    if entry is None:
        return health
    return replace(
        health,
        cause=cause_of(kind, entry.code),
        action=entry.action,
        origin=entry.origin,
        until=entry.until or "condition",
    )


def _name(kind: str, code: str) -> str:
    """`XID 48`; a code that begins with its kind stands for itself: `axi_post_error`."""
    return code if code.casefold().startswith(kind.casefold()) else f"{kind.upper()} {code}"


def cause_of(kind: str, code: str) -> str:
    """`xid_48`, `ras_umc_ue`"""
    name = code if code.casefold().startswith(kind.casefold()) else f"{kind}_{code}"
    return "".join(c if c.isalnum() else "_" for c in name.casefold())


def is_over(entry: ErrorCode, error: SeenError, now: float) -> bool:
    """Whether it ended by the time alone."""
    return entry.until is None and not now - error.last_seen < RECENT_SECONDS


def ends(event: Clearing, until: Clearing | None) -> bool:
    """Whether the event ends an error that lasts until another one."""
    return until is None or _EVENTS.index(event) >= _EVENTS.index(until)


# --- evidence of clearing events ------------------------------------------


class Evidence(NamedTuple):
    """What shows, by comparison with a later reading, that the device was reset, and so on."""

    at: float  # seconds since the epoch
    boot: str | None = None  # of the node
    driver: str | None = None  # of the loaded driver: the inodes of its modules in /sys
    serial: str | None = None
    counters: Mapping[str, float] = _NO_COUNTERS  # that a reset restarts
    reset_requested: bool = False


def event_between(before: Evidence, after: Evidence) -> Clearing | None:
    """The event that ends most, of those that are evident."""
    if before.serial and after.serial and before.serial != after.serial:
        return "replacement"
    if before.boot and after.boot and before.boot != after.boot:
        return "reboot"
    if before.driver and after.driver and before.driver != after.driver:
        return "driver_reload"
    if before.reset_requested and not after.reset_requested:
        return "reset"
    for name, count in before.counters.items():
        if after.counters.get(name, count) < _RESTARTED_BELOW * count:
            return "reset"
    return None


def restarting_counters(device: Device, names: Collection[str]) -> dict[str, float]:
    """Counters that a reset of the device restarts, by the vendor's declaration. The counts of memory errors
    can also be set to 0 without a reset, so they are used only if there is nothing else."""
    replays = None if device.pcie is None else device.pcie.replays_total
    counters = {"energy": device.energy_joules, "uptime": device.uptime_seconds, "replays": replays}
    found = {name: float(count) for name in names if (count := counters[name]) is not None}
    totals = [e.count for e in device.ecc if not e.lifetime and e.block is None]
    if totals and not found:
        found["ecc"] = float(sum(totals))
    return found


class NodeEvidence:
    """Evidence that concerns the whole node: a reboot, or a reload of the vendor's driver."""

    def __init__(self, vendor: Vendor, paths: Paths) -> None:
        self._boot_id = f"{paths.proc}/sys/kernel/random/boot_id"
        self._modules = tuple(f"{paths.sys}/module/{name}" for name in declarations()[vendor].driver_modules)

    def boot(self) -> str | None:
        return read_optional(self._boot_id) or None

    def driver(self) -> str | None:
        """A module that is loaded again has a new inode; its times are those of the inode's cache."""
        inodes = []
        for module in self._modules:
            try:
                inodes.append(f"{os.path.basename(module)}:{os.stat(module).st_ino}")  # noqa: PTH116, PTH119
            except OSError:
                continue
        return " ".join(inodes) or None


# --- tracker --------------------------------------------------------------


@dataclass(slots=True)
class ErrorHistory:
    """The errors of one device that affect its health, and the evidence at its last reading."""

    errors: dict[tuple[str, str], SeenError] = field(default_factory=dict)
    evidence: Evidence | None = None  # while there are errors
    handled: dict[tuple[str, str], float] = field(default_factory=dict)  # time of the last error of a code
    failed_at: float | None = None  # when the driver reported that the device is lost or must be reset


class HealthTracker:
    """The health of a vendor's devices over time. Not thread-safe."""

    def __init__(
        self, vendor: Vendor, paths: Paths, histories: Mapping[str, ErrorHistory] | None = None
    ) -> None:
        """`histories`: of an earlier process, by the id of the device."""
        self._declaration = declarations()[vendor]
        self._node = NodeEvidence(vendor, paths)
        self._histories: dict[str, ErrorHistory] = dict(histories or {})
        self._entries: dict[str, ErrorCode | None] = {}  # looked up, by code
        self._causes: dict[str, tuple[HealthState, str | None, float]] = {}  # states that are not ok

    def observe(self, reading: Reading, previous: Device | None, now: float) -> None:
        """Take the errors of a new reading, and end those that an event ended since the last one.
        `previous`: the device as it was read before."""
        device = reading.device
        history = self._histories.get(device.id)
        if self._declaration.lists_current_errors or (history is None and not device.errors):
            return
        if history is None:
            history = self._new_history(device.id)
        self._add(history, device.errors)
        if history.errors:
            evidence = self._evidence(device, reading.problems or (device.health,), now)
            if self._declaration.resets_after_errors and previous is not None:
                # Error and reset may both have happened since the last reading; the reset was the later one.
                earlier = Evidence(previous.read_at or 0.0, counters=self._counters(previous))
                if event_between(earlier, evidence) == "reset":
                    self._end(history, "reset", now)
            self._end_by_event(history, evidence)
        history.failed_at = None

    def observe_failure(self, device: str, now: float) -> None:
        """The driver reports that the device is lost or must be reset. It answers again after a reset."""
        (self._histories.get(device) or self._new_history(device)).failed_at = now

    def _new_history(self, device: str) -> ErrorHistory:
        history = ErrorHistory()
        if len(self._histories) < _MOST_DEVICES:
            self._histories[device] = history
        return history

    def decide(self, device: Device, problems: Sequence[Health], now: float) -> Device:
        """The device with its health. `problems` are those that the driver reports now."""
        found = [problem for problem in problems or (device.health,) if problem.state is not HealthState.OK]
        found += self._errors(device.id, now)
        state, cause, since = self._causes.get(device.id, (HealthState.OK, None, 0.0))
        if not found:
            self._causes.pop(device.id, None)
            return device
        health = choose(found, cause)
        if health.since is not None:
            since = health.since
        elif (state, cause) != (health.state, health.cause):
            since = now
        if device.id in self._causes or len(self._causes) < _MOST_DEVICES:
            self._causes[device.id] = (health.state, health.cause, since)
        word = health.vendor_word or device.health.vendor_word
        return replace(device, health=replace(health, since=since, vendor_word=word))

    def lasting(self) -> dict[str, ErrorHistory]:
        """Copies of the histories with errors that do not end by the time alone."""
        found = {}
        for id_, history in self._histories.items():
            errors = {key: error for key, error in history.errors.items() if self._lasts(error.code)}
            if errors:
                found[id_] = ErrorHistory(errors, history.evidence)
        return found

    def _lasts(self, code: str) -> bool:
        entry = self._entry(code)
        return entry is not None and entry.until is not None

    def _add(self, history: ErrorHistory, errors: Iterable[ErrorCount]) -> None:
        for error in errors:
            key, seen = (error.kind, error.code), error.last_seen
            if seen is None or history.handled.get(key, -1.0) >= seen:
                continue
            if key not in history.handled and len(history.handled) >= _MOST_CODES:
                continue
            history.handled[key] = seen
            entry = self._entry(error.code)
            known = history.errors.get(key)
            if entry is None or entry.severity == "info":
                continue
            if known is not None:
                history.errors[key] = known._replace(last_seen=seen)
            elif self._has_room(history, entry):
                history.errors[key] = SeenError(error.kind, error.code, seen, seen)

    def _has_room(self, history: ErrorHistory, entry: ErrorCode) -> bool:
        """An error that lasts replaces one that does not, if there are too many."""
        if len(history.errors) < _MOST_ERRORS:
            return True
        passing = (key for key, error in history.errors.items() if not self._lasts(error.code))
        replaced = None if entry.until is None else next(passing, None)
        if replaced is None:
            return False
        del history.errors[replaced]
        return True

    def _evidence(self, device: Device, problems: Sequence[Health], now: float) -> Evidence:
        return Evidence(
            now,
            self._node.boot(),
            self._node.driver(),
            device.serial,
            self._counters(device),
            any(problem.cause == "reset_required" for problem in problems),
        )

    def _counters(self, device: Device) -> dict[str, float]:
        return restarting_counters(device, self._declaration.reset_counters)

    def _end_by_event(self, history: ErrorHistory, evidence: Evidence) -> None:
        before = history.evidence
        if history.failed_at is not None:
            self._end(history, "reset", history.failed_at)
        if before is not None:
            event = event_between(before, evidence)
            if event is not None:
                self._end(history, event, before.at)
            # A value that cannot be read for a while is compared when it is there again.
            evidence = evidence._replace(
                boot=evidence.boot or before.boot,
                driver=evidence.driver or before.driver,
                serial=evidence.serial or before.serial,
                counters={**before.counters, **evidence.counters},
            )
        history.evidence = evidence if history.errors else None

    def _end(self, history: ErrorHistory, event: Clearing, at: float) -> None:
        """End errors up to a time. A later one may have happened after the event."""
        for key, error in list(history.errors.items()):
            entry = self._entry(error.code)
            if entry is not None and not ends(event, entry.until):
                continue
            if error.last_seen <= at:
                del history.errors[key]
            elif error.first_seen <= at:
                history.errors[key] = error._replace(first_seen=error.last_seen)

    def _errors(self, device: str, now: float) -> Iterator[Health]:
        history = self._histories.get(device)
        for key, error in list(history.errors.items()) if history is not None else ():
            entry = self._entry(error.code)
            over = entry is None or is_over(entry, error, now)
            health = None if over or entry is None else health_of_error(error, entry)
            if health is not None:
                yield health
            elif history is not None:
                del history.errors[key]

    def _entry(self, code: str) -> ErrorCode | None:
        if code in self._entries:
            return self._entries[code]
        entry: ErrorCode | None = self._declaration.error_code(code)
        if len(self._entries) < _MOST_CODES:
            self._entries[code] = entry
        return entry
