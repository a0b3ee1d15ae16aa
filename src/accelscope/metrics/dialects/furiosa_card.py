"""What both Furiosa dialects have in common."""

from accelscope.metrics.dialects.amounts import fine_percent
from accelscope.metrics.dialects.dialect import gauges
from accelscope.metrics.dialects.view import DeviceView
from accelscope.metrics.family import Family
from accelscope.model import HealthState

_CORES = {"warboy": 2, "rngd": 8}


def architecture(view: DeviceView) -> str:
    return (view.device.architecture or view.device.model or "").lower()


def core_range(view: DeviceView) -> str:
    """All cores of the card, as the exporters write them: `0-7`."""
    if view.device.cores:
        return f"0-{max(core.index for core in view.device.cores)}"
    count = _CORES.get(architecture(view))
    return "" if count is None else f"0-{count - 1}"


def alive(view: DeviceView) -> bool | None:
    """Absent where nobody could tell."""
    state = view.device.health.state
    if view.device.stale or state in (HealthState.CRITICAL, HealthState.LOST):
        return False
    return None if state is HealthState.UNKNOWN else True


def core_utilization() -> Family:
    return gauges(
        "furiosa_npu_core_utilization",
        "Fraction of time during which a core was running, in %.",
        ("core",),
        lambda v: [((str(c.index),), fine_percent(c.utilization_ratio)) for c in v.device.cores],
    )
