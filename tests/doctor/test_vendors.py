"""A vendor joins by one line; the agent's choice of readers decides who is examined."""

from typing import TYPE_CHECKING

import pytest

from accelscope.doctor import areas_for
from accelscope.doctor.finding import error
from accelscope.doctor.nvidia.advice import advice
from accelscope.doctor.report import Report, text
from accelscope.doctor.vendors import VENDORS, examination_of, vendor_area
from accelscope.model import Vendor
from accelscope.readers import registry

if TYPE_CHECKING:
    from tests.doctor.conftest import NodeFolder

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
# Every reason that the NVIDIA reader can give for a failure.
REASONS = [
    "driver_absent",
    "library_absent",
    "library_unusable",
    "binding_missing",
    "driver_not_loaded",
    "driver_reloaded",
    "version_mismatch",
    "no_permission",
    "driver_error",
    "timeout",
    "deadline",
    "lost",
    "reset_required",
    "missing",
    "unheld",
    "no_devices",
    "insufficient_power",
    "library_missing",
    "tool_missing",
    "tool_timeout",
    "tool_stuck",
    "tool_killed",
    "tool_not_started",
    "internal",
]


def test_every_vendor_that_can_be_read_can_be_examined() -> None:
    assert set(VENDORS) == set(registry.VENDORS)


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_area_ends_with_a_real_reading(vendor: Vendor) -> None:
    assert examination_of(vendor).vendor is vendor
    assert vendor_area(vendor).checks[-1].name == "reading"


def test_the_areas_follow_the_readers_that_are_set(node: "NodeFolder") -> None:
    names = [area.name for area in areas_for(node.subject({"readers": "nvidia"}).settings)]
    assert names == ["settings", "http", "node", "nvidia", "attribution", "node object"]


@pytest.mark.parametrize("environ", [{}, POD])
@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_advice_of_its_own_that_fits_the_page(
    node: "NodeFolder", reason: str, environ: dict[str, str]
) -> None:
    subject = node.subject(environ=environ)
    todo = advice(reason, subject)
    assert todo != advice("a reason that nobody knows", subject)
    page = text(Report(version="1", node="n", findings=(("nvidia", error("a", "b", todo)),)))
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize(
    ("health", "word"),
    [
        ("a memory row could not be remapped: the board needs replacing", "board replaced"),
        ("the driver asks for a reset of the GPU", "--gpu-reset"),
        ("the driver asks for a reboot of the node", "reboot it"),
        ("XID 48, 63 in the last ten minutes", "dmesg"),
        ("memory rows wait for a GPU reset to be remapped", "spare rows"),
        ("uncorrected memory errors since the driver was loaded", "Jobs may have failed"),
        ("slowed down by hardware: heat or power supply", "fans"),
    ],
)
def test_what_the_reader_says_of_health_has_advice(node: "NodeFolder", health: str, word: str) -> None:
    assert word in advice(health, node.subject())
