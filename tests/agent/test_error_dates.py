"""Errors that a driver only counts have a date as soon as a count grows."""

import pytest

from accelscope.agent.runner import ErrorDates
from accelscope.model import Device, EccCount, ErrorCount, Vendor


def device(at: float, ecc: int = 0, errors: int = 0, told: float | None = None) -> Device:
    return Device(
        vendor=Vendor("amd"),
        id="amd:x",
        read_at=at,
        ecc=(EccCount("uncorrected", False, ecc), EccCount("uncorrected", False, 0, "umc")),
        retired_pages=(EccCount("uncorrected", True, ecc),),
        errors=(ErrorCount("pcie", "nak_sent", errors, told),),
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([7, 7, 7], [None, None, None]),  # errors before the first reading have no date
        ([0, 0, 1, 1], [None, None, 2.0, 2.0]),
        ([0, 1, 1, 5], [None, 1.0, 1.0, 3.0]),
        ([5, 2], [None, 1.0]),  # the driver was reloaded and counts from 0
        ([5, 0, 0], [None, None, None]),
    ],
)
def test_an_increased_count_sets_the_date_of_its_errors(
    counts: list[int], expected: list[float | None]
) -> None:
    dates = ErrorDates()
    shown = [dates.fill_in(device(float(at), count, count)) for at, count in enumerate(counts)]
    assert [each.ecc[0].last_seen for each in shown] == expected
    assert [each.retired_pages[0].last_seen for each in shown] == expected
    assert [each.errors[0].last_seen for each in shown] == expected
    assert {each.ecc[1].last_seen for each in shown} == {None}


def test_a_date_from_the_reader_is_kept() -> None:
    dates = ErrorDates()
    dates.fill_in(device(1.0, errors=1, told=0.5))
    assert dates.fill_in(device(2.0, errors=2, told=1.5)).errors[0].last_seen == 1.5


def test_a_date_stays_while_a_source_does_not_respond() -> None:
    dates = ErrorDates()
    for at, count in ((1.0, 0), (2.0, 3)):
        dates.fill_in(device(at, count))
    silent = Device(vendor=Vendor("amd"), id="amd:x", read_at=3.0)
    assert dates.fill_in(silent) is silent
    assert dates.fill_in(device(4.0, 3)).ecc[0].last_seen == 2.0
