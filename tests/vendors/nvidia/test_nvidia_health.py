"""What an NVIDIA GPU's throttling and recovery action say of its health."""

import pynvml
import pytest

from accelscope.model import FAULT_THROTTLES, Health, HealthState, Throttle
from accelscope.vendors.nvidia.gpu import NVML_THROTTLE_BITS, health_of


def judged(*slowed: str, recovery_action: int | None = None) -> Health:
    throttles = [Throttle(reason, reason in slowed) for reason in NVML_THROTTLE_BITS.values()]
    return health_of(
        now=0.0, remapped=None, ecc=(), errors=(), throttles=throttles, recovery_action=recovery_action
    )


@pytest.mark.parametrize("reason", NVML_THROTTLE_BITS.values())
def test_what_the_alert_calls_throttled_is_a_warning(reason: str) -> None:
    expected = HealthState.WARNING if reason in FAULT_THROTTLES else HealthState.OK
    assert judged(reason).state is expected


def test_who_slows_it_down_is_told() -> None:
    assert judged("sw_thermal_slowdown").reason == "slowed down by the driver: heat"
    by_hardware = "slowed down by hardware: heat or power supply"
    assert judged("hw_slowdown").reason == by_hardware
    assert judged("sw_thermal_slowdown", "hw_slowdown", "hw_thermal_slowdown").reason == by_hardware


def test_every_recovery_action_of_nvml_has_words_of_its_own() -> None:
    names = [name for name in vars(pynvml) if name.startswith("NVML_GPU_RECOVERY_ACTION_")]
    actions = {getattr(pynvml, name) for name in names} - {pynvml.NVML_GPU_RECOVERY_ACTION_NONE}
    found = {action: judged(recovery_action=action) for action in actions}
    assert {health.state for health in found.values()} == {HealthState.CRITICAL}
    assert len({health.reason for health in found.values()}) == len(actions)
    assert not [action for action, health in found.items() if str(action) in (health.reason or "")]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (None, Health(HealthState.OK)),
        (0, Health(HealthState.OK)),
        (5, Health(HealthState.CRITICAL, "the driver asks to recover the IMEX domain")),
        (99, Health(HealthState.CRITICAL, "the driver asks for a recovery action: 99", "99")),
    ],
)
def test_a_recovery_action_is_critical_also_when_its_number_is_new(
    action: int | None, expected: Health
) -> None:
    assert judged(recovery_action=action) == expected
