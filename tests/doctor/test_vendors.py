"""The setting `readers` selects the vendors that are examined."""

from typing import TYPE_CHECKING

import pytest

from accelscope.doctor import areas_for
from accelscope.doctor.vendors import examination_of, vendor_area
from accelscope.model import Vendor

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder


@pytest.mark.parametrize("vendor", list(Vendor))
def test_every_vendor_has_an_area_that_ends_with_reading(vendor: Vendor) -> None:
    assert examination_of(vendor).vendor is vendor
    assert vendor_area(vendor).checks[-1].name == "reading"


def test_the_setting_readers_selects_the_areas(node: "NodeFolder") -> None:
    names = [area.name for area in areas_for(node.subject({"readers": "nvidia"}).settings)]
    assert names == ["settings", "http", "node", "nvidia", "attribution", "node object"]
