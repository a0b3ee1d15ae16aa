"""From what an NVIDIA driver tells about a GPU to its health."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from accelscope.model import (
    FAULT_THROTTLES,
    Absence,
    AbsenceReason,
    Device,
    EccCount,
    ErrorCount,
    Health,
    HealthState,
    RemappedRows,
    Throttle,
)
from accelscope.model.health import UNKNOWN_HEALTH

# XIDs that speak of the hardware, not of a program's own fault (NVIDIA's XID catalogue).
HARDWARE_XIDS = frozenset({"48", "62", "63", "64", "74", "79", "92", "94", "95", "119", "120", "140", "154"})
XID_IS_RECENT_SECONDS = 600.0

# What every GPU tells one way or another: of a driver that fails at all of these nothing good is known.
_VITAL = frozenset({"utilization_ratio", "temperature_celsius", "power_watts", "memory_total_bytes"})

_NO_RECOVERY = 0
_RECOVERY_ACTIONS = {  # nvmlDeviceGpuRecoveryAction_t
    1: "the driver asks for a reset of the GPU",
    2: "the driver asks for a reboot of the node",
    3: "the driver asks to drain peer-to-peer work",
    4: "the driver asks to drain the GPU and reset it",
    5: "the driver asks to recover the IMEX domain",
    6: "the driver asks for a reset of the bus",
    7: "the driver asks for a reboot of the system",
}


def health_of(
    *,
    now: float,
    remapped: RemappedRows | None,
    ecc: Iterable[EccCount],
    errors: Iterable[ErrorCount],
    throttles: Iterable[Throttle],
    recovery_action: int | None,
    absent: Iterable[Absence] = (),
) -> Health:
    """The worst that holds. A GPU that answered and shows none of it is OK."""
    vital = [absence.reason for absence in absent if absence.field in _VITAL]
    failed = vital.count(AbsenceReason.DRIVER_ERROR)
    if failed and len(vital) == len(_VITAL):
        return answers_with_errors(failed, len(vital))
    found = _troubles(now, remapped, ecc, errors, throttles, recovery_action=recovery_action)
    return next(found, Health(HealthState.OK))


def answers_with_errors(errors: int, questions: int) -> Health:
    reason = f"the driver answers {errors} of {questions} questions with an error"
    return Health(HealthState.CRITICAL, reason, "Unknown Error")


def asks_for_recovery(action: str) -> Health:
    """In the driver's own word."""
    return Health(HealthState.CRITICAL, f"the driver asks for a recovery action: {action}", action)


def judged(device: Device, now: float) -> Device:
    """A row of nvidia-smi with its own word about its health, else with what its values say."""
    if device.health != UNKNOWN_HEALTH:
        return device
    health = health_of(
        now=now,
        remapped=device.remapped_rows,
        ecc=device.ecc,
        errors=device.errors,
        throttles=device.throttles,
        recovery_action=None,
    )
    return replace(device, health=health)


def _troubles(
    now: float,
    remapped: RemappedRows | None,
    ecc: Iterable[EccCount],
    errors: Iterable[ErrorCount],
    throttles: Iterable[Throttle],
    *,
    recovery_action: int | None,
) -> Iterator[Health]:
    """Everything that is wrong, worst first."""
    if remapped is not None and remapped.failed:
        yield Health(HealthState.CRITICAL, "a memory row could not be remapped: the board needs replacing")
    if recovery_action in _RECOVERY_ACTIONS:
        yield Health(HealthState.CRITICAL, _RECOVERY_ACTIONS[recovery_action])
    elif recovery_action is not None and recovery_action != _NO_RECOVERY:
        yield asks_for_recovery(str(recovery_action))
    recent = sorted(
        e.code
        for e in errors
        if e.kind == "xid"
        and e.code in HARDWARE_XIDS
        and e.last_seen is not None
        and now - e.last_seen < XID_IS_RECENT_SECONDS
    )
    if recent:
        yield Health(HealthState.WARNING, f"XID {', '.join(recent)} in the last ten minutes")
    if remapped is not None and remapped.pending:
        yield Health(HealthState.WARNING, "memory rows wait for a GPU reset to be remapped")
    if any(e.severity == "uncorrected" and not e.lifetime and e.block is None and e.count for e in ecc):
        yield Health(HealthState.WARNING, "uncorrected memory errors since the driver was loaded")
    slowed = {throttle.reason for throttle in throttles if throttle.active} & FAULT_THROTTLES
    if slowed == {"sw_thermal_slowdown"}:
        yield Health(HealthState.WARNING, "slowed down by the driver: heat")
    elif slowed:
        yield Health(HealthState.WARNING, "slowed down by hardware: heat or power supply")
