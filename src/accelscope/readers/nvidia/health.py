"""From what an NVIDIA driver tells about a GPU to its health."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from accelscope.model import Device, EccCount, ErrorCount, Health, HealthState, RemappedRows, Throttle
from accelscope.model.health import UNKNOWN_HEALTH

# XIDs that speak of the hardware, not of a program's own fault (NVIDIA's XID catalogue).
HARDWARE_XIDS = frozenset({"48", "62", "63", "64", "74", "79", "92", "94", "95", "119", "120", "140", "154"})
XID_IS_RECENT_SECONDS = 600.0

_RECOVERY_ACTIONS = {
    1: "the driver asks for a reset of the GPU",
    2: "the driver asks for a reboot of the node",
    3: "the driver asks to drain peer-to-peer work",
    4: "the driver asks to drain the GPU and reset it",
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
) -> Health:
    """The worst that holds. A GPU that answered and shows none of it is OK."""
    found = _troubles(now, remapped, ecc, errors, throttles, recovery_action=recovery_action)
    return next(found, Health(HealthState.OK))


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
    if any(t.active and t.reason in {"hw_thermal_slowdown", "hw_power_brake_slowdown"} for t in throttles):
        yield Health(HealthState.WARNING, "slowed down by hardware: heat or power supply")
