"""Recordings are made before the tests that play them, whose time is bounded."""

from pathlib import Path

import pytest
from tests.simulate.fleet.test_fleet_server import DESCRIPTION

from accelscope.simulate.fleet.description import read_fleet
from accelscope.simulate.fleet.fleet import SimulatedFleet


@pytest.fixture(scope="session", autouse=True)
def recordings(native_cache: Path) -> None:
    del native_cache  # skips where nothing can be compiled
    SimulatedFleet(read_fleet(DESCRIPTION), "/nowhere")
