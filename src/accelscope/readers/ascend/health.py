"""npu-smi's words for the health of a chip, on the scale of all vendors."""

from accelscope.model import Health, HealthState

_STATES = {
    "ok": HealthState.OK,
    "warning": HealthState.WARNING,
    "alarm": HealthState.CRITICAL,
    "critical": HealthState.CRITICAL,
}
_WORD_LIMIT = 32


def health_of(word: str, information: str | None = None) -> Health:
    """A word that is not known is not healthy. `information` is what the driver adds to its error codes."""
    bare = word.strip()[:_WORD_LIMIT]
    state = _STATES.get(bare.casefold(), HealthState.UNKNOWN)
    if state is HealthState.OK:
        return Health(state, vendor_word=bare)
    reason = f"the driver reports {bare}" if bare else "the driver does not tell"
    return Health(state, f"{reason}: {information}" if information else reason, bare or None)
