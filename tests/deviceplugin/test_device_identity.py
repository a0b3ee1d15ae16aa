"""Identity of a device whose driver does not report the same identifiers at every check."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.deviceplugin.health import HealthLedger, HealthRule
from accelscope.deviceplugin.watch import CheckResult
from accelscope.model import Absence, AbsenceReason, Device, Health, HealthState, Vendor, device_id
from accelscope.vendors.common.contract import ReaderError

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"


def card(
    uuid: str | None = "U0", serial: str | None = "S0", pci: str | None = FIRST, *, name: str = "npu0"
) -> Device:
    return Device(
        vendor=Vendor("furiosa"),
        id=device_id(Vendor("furiosa"), uuid=uuid, serial=serial, pci=pci, index=int(name[3:])),
        index=int(name[3:]),
        device_name=name,
        architecture="warboy",
        uuid=uuid,
        serial=serial,
        pci_address=pci,
        health=Health(HealthState.OK),
    )


OTHER = card("U1", "S1", SECOND, name="npu1")


def after(*checks: tuple[Device, ...] | CheckResult) -> list[str]:
    """The listed devices after each check: uuids or, without one, addresses; ! marks unhealthy ones."""
    ledger = HealthLedger(HealthRule(bad=3, good=2, unanswered=5))
    listed = []
    for check in checks:
        ledger.record(check if isinstance(check, CheckResult) else CheckResult(check))
        found = [(each.device.uuid or each.device.pci_address, each.healthy) for each in ledger.listed()]
        listed.append(" ".join(f"{name}" if healthy else f"{name}!" for name, healthy in found))
    return listed


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(card(None), id="no uuid"),
        pytest.param(card(None, None), id="only its address"),
        pytest.param(card(None, pci=None), id="only its serial number"),
        pytest.param(card(None, None, None), id="only its name"),
        pytest.param(card("#!garbage"), id="another uuid"),
        pytest.param(card("garbage", "garbage"), id="another uuid and serial number"),
        pytest.param(replace(card(None), uuid="0" * 8), id="a uuid that its own reader does not believe"),
    ],
)
def test_one_bad_reading_of_identifiers_changes_nothing(bad: Device) -> None:
    assert after((card(), OTHER), (bad, OTHER), (card(), OTHER)) == ["U0 U1"] * 3


def test_a_device_whose_uuid_stays_unreadable_is_unhealthy() -> None:
    checks = [(card(),), *[(card(None),)] * 3, (card(),), (card(),)]
    assert after(*checks) == ["U0", "U0", "U0", "U0!", "U0!", "U0"]


def test_known_identifiers_are_kept_while_they_are_not_reported() -> None:
    ledger = HealthLedger(HealthRule())
    ledger.record(CheckResult((card(),)))
    ledger.record(CheckResult((card(serial=None),)))
    assert [(each.device.uuid, each.device.serial) for each in ledger.listed()] == [("U0", "S0")]


def test_a_device_that_fails_under_its_temporary_id_is_the_known_device() -> None:
    error = {card(None).id: ReaderError("timeout", "no answer")}
    failed = CheckResult(failed=error)
    assert after((card(),), (card(None),), failed, failed) == ["U0", "U0", "U0", "U0!"]


def test_a_device_that_reports_its_uuid_later_has_one_id_at_a_time() -> None:
    assert after((card(None, None),), (card(),), (card(),)) == [FIRST, "U0", "U0"]


def test_a_new_device_with_a_damaged_uuid_waits_for_another_check() -> None:
    damaged = replace(card(None), absent=(Absence("uuid", AbsenceReason.NO_SAMPLE),))
    assert after((damaged,), (card(),)) == ["", "U0"]
    assert after((damaged,), (damaged,), (damaged,)) == ["", "", FIRST]


def test_another_uuid_with_the_same_serial_number_is_damaged() -> None:
    assert after((card(),), *[(card("garbage"),)] * 4) == ["U0", "U0", "U0", "U0!", "U0!"]


def test_a_device_at_the_address_of_another_replaces_it() -> None:
    new = card("U9", "S9")
    assert after((card(),), *[(new,)] * 4) == ["U0", "U0", "U0", "U9", "U9"]
    without_uuid = card(None, "S9")
    assert after((card(),), *[(without_uuid,)] * 3) == ["U0", "U0", "U0", FIRST]


def test_a_device_that_comes_back_without_its_uuid_is_not_another() -> None:
    checks = [(card(),), *[()] * 3, (card(None),), (card(),), (card(),)]
    assert after(*checks) == ["U0", "U0", "U0", "", "", "", "U0"]


def test_devices_with_the_same_uuid_keep_their_ids() -> None:
    """The first that answers gets an id from its uuid, the others from their addresses."""

    def shared(pci: str, name: str, *, first: bool) -> Device:
        known = card("U", None, pci, name=name)
        return known if first else replace(known, id=device_id(Vendor("furiosa"), pci=pci))

    ledger = HealthLedger(HealthRule())
    ledger.record(CheckResult((shared(FIRST, "npu0", first=True), shared(SECOND, "npu1", first=False))))
    before = [(each.device.id, each.device.pci_address) for each in ledger.listed()]
    ledger.record(CheckResult((card(None, None), shared(SECOND, "npu1", first=True))))
    assert [(each.device.id, each.device.pci_address) for each in ledger.listed()] == before
    assert all(each.healthy for each in ledger.listed())


def test_chips_of_one_board_share_its_address_and_serial_number() -> None:
    def chip(number: int, uuid: str | None) -> Device:
        identity = device_id(Vendor("ascend"), uuid=uuid, serial=f"S-{number}")
        return replace(
            card(uuid, "S"),
            vendor=Vendor("ascend"),
            id=identity,
            chip_id=number,
            device_name=None,
            index=number,
        )

    assert after((chip(0, "D0"), chip(1, "D1")), (chip(0, None), chip(1, "D1"))) == ["D0 D1", "D0 D1"]
    assert after((chip(0, "D0"),), (chip(0, "D0"), chip(1, "D1"))) == ["D0", "D0 D1"]


reported = st.builds(
    card,
    st.sampled_from([None, "U0", "U1", "garbage"]),
    st.sampled_from([None, "S0", "S1"]),
    st.sampled_from([FIRST, SECOND]),
    name=st.sampled_from(["npu0", "npu1"]),
)
checks_of_two_slots = st.lists(
    st.lists(
        reported, max_size=2, unique_by=(lambda d: d.id, lambda d: d.pci_address, lambda d: d.device_name)
    )
)


@given(checks_of_two_slots)
def test_no_pci_address_is_ever_listed_twice(checks: list[list[Device]]) -> None:
    ledger = HealthLedger(HealthRule(bad=2, good=1))
    for check in checks:
        ledger.record(CheckResult(tuple(check)))
        places = [each.device.pci_address for each in ledger.listed()]
        ids = [each.device.id for each in ledger.listed()]
        assert len(set(places)) == len(places)
        assert len(set(ids)) == len(ids)
