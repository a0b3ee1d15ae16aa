"""From what the driver tells about a card to its health."""

from collections.abc import Iterable

from accelscope.model import ErrorCount, Health, HealthState, Throttle

ERROR_IS_RECENT_SECONDS = 600.0

_HARDWARE_SLOWDOWNS = frozenset({"thermal_slowdown", "hw_power_cap", "hw_bus_limit"})


def health_of(
    *,
    now: float,
    alive: bool | None,
    told: Health,
    errors: Iterable[ErrorCount] = (),
    throttles: Iterable[Throttle] = (),
) -> Health:
    """The worst that holds. `alive` is the driver's word, `told` the tool's, which is taken where the driver
    says nothing."""
    if alive is False:
        return Health(HealthState.CRITICAL, "the driver says that the card is not alive", told.vendor_word)
    if alive is None and told.state is not HealthState.OK:
        reason = told.reason or "neither driver nor tool says whether the card is alive"
        return Health(told.state, reason, told.vendor_word)
    recent = sorted(
        error.code
        for error in errors
        # The file also counts doorbells, which are no errors.
        if error.code.endswith("error")
        and error.last_seen is not None
        and now - error.last_seen < ERROR_IS_RECENT_SECONDS
    )
    if recent:
        return Health(
            HealthState.WARNING, f"{', '.join(recent)} in the last ten minutes", vendor_word=told.vendor_word
        )
    slowed = sorted(t.reason for t in throttles if t.active and t.reason in _HARDWARE_SLOWDOWNS)
    if slowed:
        return Health(
            HealthState.WARNING, f"slowed down by hardware: {', '.join(slowed)}", vendor_word=told.vendor_word
        )
    return Health(HealthState.OK, vendor_word=told.vendor_word)
