"""An agent tries to fill the fleet's memory. `tools.soak.hostile_agent` does it for an hour."""

from pathlib import Path

import pytest
from tools.soak.hostile_agent import ATTACKS, run


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_memory_of_the_fleet_stays_flat_and_other_clusters_are_read(attack: str, tmp_path: Path) -> None:
    result = run(attack, 12, tmp_path)
    wrong = [f"{what}: {measured}" for what, measured, good in result.findings() if not good]
    assert not wrong, f"{wrong}\n{result.table().as_text()}"
