"""From what the amdgpu driver and its tools tell of a GPU to its health."""

from collections.abc import Iterator

from accelscope.model import FAULT_THROTTLES, Device, Health, HealthState
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.vendors.amd.gpu_files import BadPages

ERROR_IS_RECENT_SECONDS = 600.0

SUSPENDED = Health(
    HealthState.OK, "asleep to save power: it is not woken to be read", vendor_word="suspended"
)


def health_of(
    device: Device, bad_pages: BadPages | None = None, *, now: float, refused: bool = False
) -> Health:
    """The worst that holds. A GPU that answered and shows none of it is OK. `refused`: its driver would not
    ask it just now."""
    return next(_troubles(device, bad_pages, now, refused=refused), Health(HealthState.OK))


def _troubles(device: Device, bad_pages: BadPages | None, now: float, *, refused: bool) -> Iterator[Health]:
    """Everything that is wrong, worst first."""
    if bad_pages is not None and bad_pages.failed:
        yield Health(
            HealthState.CRITICAL,
            f"{bad_pages.failed} bad pages of memory could not be retired: the board needs replacing",
        )
    hot, bound = device.temperature_celsius, device.temperature_shutdown_celsius
    if hot is not None and bound is not None and hot >= bound > 0:
        yield Health(HealthState.CRITICAL, f"{hot:g} °C: at {bound:g} °C it shuts itself down")
    recent = sorted(
        error.code
        for error in device.errors
        if error.kind == "ras"
        and error.code.endswith(".ue")
        and error.last_seen is not None
        and now - error.last_seen < ERROR_IS_RECENT_SECONDS
    )
    if recent:
        yield Health(
            HealthState.CRITICAL, f"uncorrectable errors in the last ten minutes: {', '.join(recent)}"
        )
    if refused:
        yield Health(
            HealthState.WARNING,
            "the driver answers nothing for now: it is resetting the GPU or changing its power state",
        )
    if device.health != UNKNOWN_HEALTH:
        yield device.health  # what a tool said
    if bad_pages is not None and bad_pages.pending:
        yield Health(
            HealthState.WARNING, f"{bad_pages.pending} bad pages of memory wait for a reset to be retired"
        )
    if any(count.severity == "uncorrected" and count.block is None and count.count for count in device.ecc):
        yield Health(HealthState.WARNING, "uncorrectable errors since the driver was loaded")
    slowed = sorted(t.reason for t in device.throttles if t.active and t.reason in FAULT_THROTTLES)
    if slowed:
        yield Health(HealthState.WARNING, f"slowed down by heat or its supply: {', '.join(slowed)}")
    limit = device.temperature_slowdown_celsius
    if hot is not None and limit is not None and hot >= limit > 0:
        yield Health(HealthState.WARNING, f"{hot:g} °C: at {limit:g} °C it slows itself down")
