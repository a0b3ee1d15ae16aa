"""Errors that last are shown until the event that ends them, on simulated nodes of each vendor."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.costless import costless
from tests.vendors.common.watched import Watched

from accelscope.agent.settings import AgentSettings
from accelscope.config.settings import make
from accelscope.model import Device, HealthState, Vendor
from accelscope.simulate import SimulatedNode
from accelscope.simulate.faults import Fault, FaultKind

OK, WARNING, CRITICAL = HealthState.OK, HealthState.WARNING, HealthState.CRITICAL
DEVICE = 1
AN_HOUR = 3600.0


class Lab:
    """A node and its reader; simulated time and the reader's clock move together."""

    def __init__(self, folder: Path, name: str, vendor: str) -> None:
        self.node = SimulatedNode(costless(name), folder / "node")
        self.node.build()
        settings = make(AgentSettings, self.node.agent_settings())
        self.watched = Watched(Vendor(vendor), settings, self.node)
        self._faults: tuple[Fault, ...] = ()
        self.state()

    def set(self, *faults: Fault) -> None:
        """In addition to those that are set."""
        self._faults = (*self._faults, *faults)
        self.node.set_faults(self._faults)

    def clear(self, kind: FaultKind) -> None:
        self._faults = tuple(fault for fault in self._faults if fault.kind is not kind)
        self.node.set_faults(self._faults)

    def later(self, seconds: float) -> None:
        self.watched.now += seconds
        self.node.write(self.node.at + seconds)

    def device(self) -> Device:
        self.later(10.0)
        self.watched.read()
        return next(device for device in self.watched.devices() if device.index == DEVICE)

    def state(self) -> tuple[HealthState, str | None]:
        health = self.device().health
        return health.state, health.cause


def xid(code: int) -> Fault:
    return Fault(kind=FaultKind.XID, device=DEVICE, code=code)


def event(kind: FaultKind) -> Fault:
    return Fault(kind=kind, device=DEVICE if kind is FaultKind.RESET else None)


@pytest.fixture
def nvidia(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, "nvidia-h100x8", "nvidia")
    yield lab
    lab.watched.close()


@pytest.fixture
def amd(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, "amd-mi300x8", "amd")
    yield lab
    lab.watched.close()


def test_a_fatal_xid_is_critical_until_the_reset(nvidia: Lab) -> None:
    nvidia.set(xid(48))
    found = nvidia.device().health
    assert (found.state, found.cause, found.until) == (CRITICAL, "xid_48", "reset")
    assert found.reason == "XID 48 (uncorrectable memory error)"
    assert (found.origin, bool(found.action)) == ("hardware", True)
    nvidia.later(AN_HOUR)
    lasting = nvidia.device().health
    assert (lasting.state, lasting.cause, lasting.since) == (CRITICAL, "xid_48", found.since)
    nvidia.set(event(FaultKind.RESET))
    assert nvidia.state() == (OK, None)


@pytest.mark.parametrize("code", [13, 31, 43])
def test_an_applications_xid_does_not_make_a_gpu_unhealthy(nvidia: Lab, code: int) -> None:
    nvidia.set(xid(code))
    device = nvidia.device()
    assert [error.code for error in device.errors] == [str(code)]
    assert device.health.state is OK


@pytest.mark.parametrize(
    ("code", "cause", "ending", "not_ending"),
    [
        (119, "xid_119", FaultKind.DRIVER_RELOAD, ()),
        (119, "xid_119", FaultKind.REBOOT, ()),
        (79, "xid_79", FaultKind.REBOOT, (FaultKind.RESET, FaultKind.DRIVER_RELOAD)),
    ],
)
def test_each_event_ends_what_it_can(
    nvidia: Lab, code: int, cause: str, ending: FaultKind, not_ending: tuple[FaultKind, ...]
) -> None:
    nvidia.set(xid(code))
    for kind in not_ending:
        assert nvidia.state() == (CRITICAL, cause)
        nvidia.set(event(kind))
    assert nvidia.state() == (CRITICAL, cause)
    nvidia.set(event(ending))
    assert nvidia.state() == (OK, None)


def test_a_gpu_that_had_to_be_reset_is_healthy_after_the_reset(nvidia: Lab) -> None:
    nvidia.set(xid(48), Fault(kind=FaultKind.RESET_REQUIRED, device=DEVICE))
    assert nvidia.state() == (CRITICAL, "reset_required")
    nvidia.set(event(FaultKind.RESET))
    assert nvidia.state() == (OK, None)


def test_the_firmware_error_of_a_gpu_that_hangs_stays(nvidia: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia.set(xid(119))
    assert nvidia.state() == (CRITICAL, "xid_119")
    monkeypatch.setattr(nvidia.watched.reader, "read", silent)
    device = nvidia.device()
    assert (device.stale, device.health.state, device.health.cause) == (True, CRITICAL, "xid_119")


def silent(key: str) -> None:
    raise TimeoutError(key)


def test_an_uncorrectable_error_of_amd_is_critical_until_the_reset(amd: Lab) -> None:
    storm = Fault(kind=FaultKind.ECC_STORM, device=DEVICE)
    amd.set(storm)
    amd.later(60.0)
    health = amd.device().health
    assert (health.state, health.cause, health.until) == (CRITICAL, "ras_umc_ue", "reset")
    amd.clear(FaultKind.ECC_STORM)
    amd.later(AN_HOUR)
    assert amd.state() == (CRITICAL, "ras_umc_ue")
    amd.set(event(FaultKind.RESET))
    assert amd.state()[0] is WARNING  # the driver's counts and pages are what they were
    amd.set(event(FaultKind.DRIVER_RELOAD))
    assert amd.state()[1] != "ecc_uncorrected"
