"""What detectors look at: an hour of some slots, and what else is known of them now."""

from dataclasses import dataclass

from accelscope.fleet.trends.usual import Mask, Numbers, Window

GIB = float(1 << 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWindow:
    """Of pods, or of devices of whose pods nothing is known."""

    utilization: Window  # ratio
    memory: Window  # bytes
    capacity: Numbers  # bytes that there are for it
    idle_minutes: Numbers  # since it last did anything, by what its node says; NaN: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWindow(JobWindow):
    seen: Mask  # in this minute
    power: Window  # watts, at a moment of each minute
    drawn: Window  # watts, the mean of each minute where that is known
    heat: Window  # degrees Celsius
    power_limit: Numbers  # watts
    throttled: Mask  # by heat or by its supply
    throttled_before: Numbers  # share of the minutes before the last few
    same_pods: Numbers  # minutes since the pods on it changed; NaN: it has none
    measured_by_pods: Mask  # the utilisation of a pod on it was told in the last hour
    memory_errors: Numbers  # uncorrected, of the last minutes
    errors: Numbers  # with a code, likewise
    neighbours_heat: Numbers  # median of those that do the same work; NaN: too few
