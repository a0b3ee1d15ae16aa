"""The trial on more nodes: all faults, and a day without any."""

import pytest
from tests.fleet.trends.nodes import Fault, Load
from tests.fleet.trends.trial import faulty, well

SEED = 12
NOT_FOUND = (
    (Fault.BRAKE, Load.STEADY),  # a job alone on its device
    (Fault.BRAKE, Load.WAVE),
    (Fault.BRAKE, Load.BURST),
    (Fault.HUNG, Load.BURST),  # pauses anyway
)


@pytest.mark.parametrize("fault", list(Fault))
def test_most_faults_of_each_kind_are_found(fault: Fault) -> None:
    for load, result in faulty(SEED, fault, 5).items():
        assert (len(result.delays) >= 3) is ((fault, load) not in NOT_FOUND)


@pytest.mark.parametrize("load", list(Load))
def test_a_day_without_a_fault_raises_at_most_one_alarm(load: Load) -> None:
    assert len(well(SEED, load, 12, 24 * 60).false) <= 1
