"""Health of an NVIDIA GPU from its throttle reasons and recovery action."""

import pynvml
import pytest

from accelscope.model import FAULT_THROTTLES, Health, HealthState, Throttle
from accelscope.vendors.nvidia.gpu import NVML_THROTTLE_BITS, find_problems


def assess(*active: str, recovery_action: int | None = None) -> Health:
    throttles = [Throttle(reason, reason in active) for reason in NVML_THROTTLE_BITS.values()]
    problems = find_problems(remapped=None, ecc=(), throttles=throttles, recovery_action=recovery_action)
    return problems[0] if problems else Health(HealthState.OK)


@pytest.mark.parametrize("reason", NVML_THROTTLE_BITS.values())
def test_throttle_reasons_of_the_alert_are_a_warning(reason: str) -> None:
    expected = HealthState.WARNING if reason in FAULT_THROTTLES else HealthState.OK
    assert assess(reason).state is expected


@pytest.mark.parametrize(
    ("active", "reason"),
    [
        (["sw_thermal_slowdown"], "throttled by driver: temperature"),
        (["sw_thermal_slowdown", "hw_slowdown", "hw_thermal_slowdown"], "throttled by hardware: temperature"),
        (["hw_slowdown", "hw_power_brake_slowdown"], "throttled by hardware: power brake"),
        (
            ["hw_thermal_slowdown", "hw_power_brake_slowdown"],
            "throttled by hardware: temperature and power brake",
        ),
        (["hw_slowdown"], "throttled by hardware: temperature or power"),
    ],
)
def test_the_reason_names_the_cause_of_throttling(active: list[str], reason: str) -> None:
    assert assess(*active).reason == reason


def test_every_recovery_action_of_nvml_has_a_text() -> None:
    names = [name for name in vars(pynvml) if name.startswith("NVML_GPU_RECOVERY_ACTION_")]
    actions = {getattr(pynvml, name) for name in names} - {pynvml.NVML_GPU_RECOVERY_ACTION_NONE}
    found = {action: assess(recovery_action=action) for action in actions}
    assert {health.state for health in found.values()} == {HealthState.CRITICAL}
    assert len({health.reason for health in found.values()}) == len(actions)
    assert not [action for action, health in found.items() if str(action) in (health.reason or "")]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (None, (HealthState.OK, None)),
        (0, (HealthState.OK, None)),
        (5, (HealthState.CRITICAL, "the driver requests recovery of the IMEX domain")),
        (99, (HealthState.CRITICAL, "the driver requests a recovery action: 99")),
    ],
)
def test_a_recovery_action_is_critical_even_if_unknown(
    action: int | None, expected: tuple[HealthState, str | None]
) -> None:
    health = assess(recovery_action=action)
    assert (health.state, health.reason) == expected
