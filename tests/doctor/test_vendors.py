"""A vendor joins by one line; the agent's choice of readers decides who is examined."""

from typing import TYPE_CHECKING

import pytest

from accelscope.doctor import areas_for
from accelscope.doctor.vendors import VENDORS, examination_of, vendor_area
from accelscope.model import Vendor
from accelscope.readers import registry

if TYPE_CHECKING:
    from tests.doctor.conftest import NodeFolder


def test_every_vendor_that_can_be_read_can_be_examined() -> None:
    assert set(VENDORS) == set(registry.VENDORS)


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_area_ends_with_a_real_reading(vendor: Vendor) -> None:
    assert examination_of(vendor).vendor is vendor
    assert vendor_area(vendor).checks[-1].name == "reading"


def test_the_areas_follow_the_readers_that_are_set(node: "NodeFolder") -> None:
    names = [area.name for area in areas_for(node.subject({"readers": "nvidia"}).settings)]
    assert names == ["settings", "http", "node", "nvidia", "attribution", "node object"]
