"""Expressions and value mappings that several dashboards share."""

from accelscope.model import HARMLESS_THROTTLES
from tools.monitoring.dashboards.panels import BAD, DULL, GOOD, WARN, Levels, States

HEALTH_STATES: States = {
    0: ("ok", GOOD),
    1: ("unknown", DULL),
    2: ("warning", WARN),
    3: ("critical", BAD),
    4: ("lost", "dark-red"),
}
YES_NO: States = {0: ("no", GOOD), 1: ("yes", WARN)}
UP_DOWN: States = {0: ("down", BAD), 1: ("up", GOOD)}
WARM: Levels = ((75, WARN), (90, BAD))  # celsius
FULL: Levels = ((0.9, WARN), (0.97, BAD))  # fraction of a device's memory

TROUBLING = f'reason!~"{"|".join(sorted(HARMLESS_THROTTLES))}"'

# Numbers that represent the health states in HEALTH_STATES.
_NUMBERS = {"ok": 0, "unknown": 1, "warning": 2, "critical": 3, "lost": 4}


def health_number(matchers: str) -> str:
    """One series per device with the number of its health state."""
    parts = (
        f'accelerator_health{{{matchers}, state="{state}"}} * {number}' for state, number in _NUMBERS.items()
    )
    return f"sum without (state) ({' or '.join(parts)})"


def pcie_rate(direction: str, matchers: str) -> str:
    """Bytes per second, from the counter or else from the rate that the driver reports."""
    family = f"accelerator_pcie_{direction}_bytes"
    return f"rate({family}_total{{{matchers}}}[$__rate_interval]) or {family}_per_second{{{matchers}}}"
