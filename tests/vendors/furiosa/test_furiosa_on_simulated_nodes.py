"""The reader in its runner, on simulated nodes: right where all is well, and what each fault costs."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.costless import costless
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.agent.runner import Deadlines, Result, Runner
from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.model import Device, HealthState
from accelscope.simulate import Fault, FaultKind, SimulatedNode
from accelscope.simulate.workload import SECRET_ARGUMENT
from accelscope.vendors.furiosa.reader import FuriosaReader
from accelscope.vendors.furiosa.simulated.card import CardReading
from accelscope.vendors.furiosa.simulated.driver import FuriosaDriver
from accelscope.vendors.furiosa.simulated.spec import Family

NODES = ("furiosa-warboy", "furiosa-rngd", "furiosa-both")


class Watched:
    """A node with the agent's runner on it."""

    def __init__(
        self, node: SimulatedNode, *, tool_seconds: float = 60.0, device_seconds: float = 60.0
    ) -> None:
        self.node = node
        self.node.build()
        settings = load(AgentSettings, node.agent_settings(), {}).settings
        options = replace(
            settings.reader_options, tool_timeout_seconds=tool_seconds, tool_interval_seconds=0.0
        )
        self._changed = threading.Condition()
        self._runner = Runner(
            FuriosaReader(options),
            deadlines=Deadlines(60.0, device_seconds, 60.0),
            changed=self._changed,
        )

    def collect(self, at: float) -> Result:
        self.node.write(at)
        deadline = time.monotonic() + 2 * PATIENCE_SECONDS
        with self._changed:
            self._runner.begin()
            while self._runner.busy and time.monotonic() < deadline:
                self._changed.wait(0.02)
                self._runner.abandon_overdue()
            return self._runner.result()

    def until(self, condition: Callable[[Result], bool], at: float) -> Result:
        """Passes at later and later times until one fulfils the condition."""
        results: list[Result] = []

        def fulfilled() -> bool:
            results.append(self.collect(at + len(results)))
            return condition(results[-1])

        wait_until(fulfilled)
        return results[-1]

    def stop(self) -> None:
        self.node.set_faults(())
        with self._changed:
            self._runner.stop()


Watch = Callable[..., Watched]


@pytest.fixture
def watch(tmp_path: Path, native_cache: Path) -> Iterator[Watch]:
    started: list[Watched] = []

    def start(node: str, *, tool_seconds: float = 60.0, device_seconds: float = 60.0) -> Watched:
        made = SimulatedNode(costless(node), tmp_path / f"node{len(started)}", cache=native_cache)
        started.append(Watched(made, tool_seconds=tool_seconds, device_seconds=device_seconds))
        return started[-1]

    yield start
    for watched in started:
        watched.stop()


def by_uuid(result: Result) -> dict[str | None, Device]:
    return {device.uuid: device for device in result.devices}


@pytest.mark.parametrize("name", NODES)
def test_a_healthy_node_is_read_as_it_is(watch: Watch, name: str) -> None:
    watched = watch(name)
    watched.collect(7200)
    earlier = {card.uuid: card for card in watched.node.readings(FuriosaDriver)}
    result = watched.collect(7210)
    assert (result.state.up, result.state.errors, result.state.rejected) == (True, (), ())
    devices = by_uuid(result)
    truth = watched.node.readings(FuriosaDriver)
    assert devices.keys() == {card.uuid for card in truth}
    for card in truth:
        assert_shows(devices[card.uuid], card)
        assert_counted(devices[card.uuid], earlier[card.uuid], card)
    held = {(p.device, p.pid): p.cores for p in result.processes}
    assert held == {(devices[c.uuid].id, p.pid): p.cores for c in truth for p in c.processes}
    assert SECRET_ARGUMENT not in repr(result)


def assert_shows(device: Device, card: CardReading) -> None:
    assert device.id == f"furiosa:{card.uuid}"
    assert (device.device_name, device.serial, device.pci_address) == (card.name, card.serial, card.address)
    assert (device.model, device.numa_node) == (card.model.family.value, card.numa_node)
    assert device.health.state is HealthState.OK
    assert device.uptime_seconds == int(card.uptime_seconds)
    assert device.temperature_celsius == card.peak_celsius
    assert device.power_watts == card.watts
    assert {error.count for error in device.errors} == {0}
    assert [core.occupied for core in device.cores] == [core.held for core in card.cores]
    if card.model.family is Family.RNGD:
        assert [core.clock_hertz for core in device.cores] == [core.mhz * 1e6 for core in card.cores]
        assert device.memory_used_bytes == card.memory_used_bytes
        assert (device.power_limit_watts, len(device.throttles)) == (300.0, 9)
        assert device.governor == "performance"
    else:
        for core, true in zip(device.cores, card.cores, strict=True):
            assert (core.utilization_ratio is not None) == true.held
        assert {rail.name for rail in device.rails} > {"NE Core Volt", "PCI 12V Curr", "NE 12V PWR"}


def assert_counted(device: Device, earlier: CardReading, now: CardReading) -> None:
    """Over the time between the two readings."""
    for core, before, after in zip(device.cores, earlier.cores, now.cores, strict=True):
        if after.held and now.model.family is Family.RNGD:
            true = (after.busy_seconds - before.busy_seconds) / (now.uptime_seconds - earlier.uptime_seconds)
            assert core.utilization_ratio == pytest.approx(true, abs=1e-6)
    shown = [core.utilization_ratio or 0.0 for core in device.cores]
    assert device.utilization_ratio == pytest.approx(sum(shown) / len(shown))


@pytest.mark.parametrize("tool", ["none", "2024.2", "2026.1"])
def test_memory_of_an_rngd_needs_no_tool(watch: Watch, tool: str) -> None:
    watched = watch(
        f"node: x\nfuriosa: {{furiosa_smi: '{tool}', devices: [{{model: rngd, count: 2}}]}}\n"
        "processes: [{devices: all, memory: 20GiB}]\n"
    )
    devices = by_uuid(watched.collect(100))
    for card in watched.node.readings(FuriosaDriver):
        assert devices[card.uuid].memory_used_bytes == card.memory_used_bytes
        assert devices[card.uuid].memory_total_bytes == 51_002_736_640


def test_a_container_without_the_drivers_classes(watch: Watch) -> None:
    watched = watch(
        "node: x\nfuriosa: {sysfs: false, devices: [{model: rngd, count: 2}]}\nprocesses: [{devices: all}]\n"
    )
    result = watched.collect(50)
    assert (result.state.source, result.state.driver_version) == ("furiosa-smi", "2026.1.2, 7d20b6e")
    for device in result.devices:
        assert device.health.vendor_word == "alive"
        assert device.memory_total_bytes == 51_002_736_640
        assert device.utilization_ratio is not None
        assert device.power_watts is not None
    assert len(result.processes) == 2


def test_a_card_that_fell_off_the_bus(watch: Watch) -> None:
    watched = watch("furiosa-rngd")
    watched.collect(10)
    watched.node.set_faults([Fault(kind=FaultKind.LOST, device=2)])
    result = watched.collect(20)
    states = {device.index: device.health.state for device in result.devices}
    assert states == {0: HealthState.OK, 1: HealthState.OK, 2: HealthState.LOST, 3: HealthState.OK}
    [lost] = [device for device in result.devices if device.stale]
    assert (lost.device_name, lost.power_watts) == ("npu2", None)
    watched.node.set_faults(())
    assert {d.health.state for d in watched.collect(30).devices} == {HealthState.OK}


def test_a_card_that_vanished_is_lost_and_the_others_keep_their_ids(watch: Watch) -> None:
    watched = watch("furiosa-rngd")
    before = [device.id for device in watched.collect(10).devices]
    watched.node.set_faults([Fault(kind=FaultKind.VANISHED, device=1)])
    result = watched.collect(20)
    assert {d.id: d.health.state for d in result.devices} == {
        before[0]: HealthState.OK,
        before[1]: HealthState.LOST,
        before[2]: HealthState.OK,
        before[3]: HealthState.OK,
    }
    assert {d.id: d.index for d in result.devices if not d.stale} == {
        before[0]: 0,
        before[2]: 1,
        before[3]: 2,
    }


def test_a_card_whose_files_hang_costs_itself(watch: Watch) -> None:
    """And the tool, which asks that card too."""
    watched = watch("furiosa-both", tool_seconds=0.6, device_seconds=1.0)
    watched.collect(10)
    watched.node.set_faults([Fault(kind=FaultKind.HANG, device=1)])
    result = watched.until(lambda r: sum(device.stale for device in r.devices) == 1, at=20)
    warboy, rngd = sorted(result.devices, key=lambda device: device.stale)
    assert (warboy.model, warboy.stale, warboy.temperature_celsius is not None) == ("warboy", False, True)
    assert (rngd.model, rngd.stale, rngd.health.state) == ("rngd", True, HealthState.UNKNOWN)
    assert "timeout" in (rngd.health.reason or "")
    assert {c.reason for c in result.state.errors} == {"timeout", "tool_timeout"}
    assert result.state.abandoned_calls == 1
    watched.node.set_faults(())
    watched.until(lambda r: not any(device.stale for device in r.devices), at=60)


@pytest.mark.parametrize(
    ("kind", "state", "word"),
    [
        (FaultKind.RESET_REQUIRED, HealthState.CRITICAL, "not alive"),
        (FaultKind.HOT, HealthState.WARNING, "thermal_slowdown"),
        (FaultKind.ECC_STORM, HealthState.WARNING, "axi_post_error"),
    ],
)
def test_a_card_that_is_not_well_says_why(
    watch: Watch, kind: FaultKind, state: HealthState, word: str
) -> None:
    watched = watch("furiosa-rngd")
    watched.collect(10)
    watched.node.set_faults([Fault(kind=kind, device=3)])
    result = watched.collect(20)
    assert [device.health.state for device in result.devices] == [HealthState.OK] * 3 + [state]
    sick = result.devices[3]
    assert not sick.stale
    assert word in (sick.health.reason or "")
    if kind is FaultKind.HOT:
        assert sick.temperature_celsius is not None
        assert sick.temperature_celsius > 100
        assert sick.cores[0].clock_hertz == 1.2e9
    if kind is FaultKind.ECC_STORM:
        assert {e.code for e in sick.errors if e.last_seen} == {"axi_post_error", "axi_fetch_error"}
        watched.node.set_faults(())
        counts = watched.collect(21).devices[3].errors
        assert {e.code: e.count for e in counts} == {e.code: e.count for e in sick.errors}


TOOL_FAULTS = [
    (Fault(kind=FaultKind.TOOL_MISSING), set()),
    (Fault(kind=FaultKind.TOOL_HANG), {"tool_timeout"}),
    (Fault(kind=FaultKind.TOOL_GARBAGE), {"unrecognized"}),
    (Fault(kind=FaultKind.TOOL_KILLED), {"tool_killed"}),
    (Fault(kind=FaultKind.TOOL_ERROR, error="no_permission"), {"no_permission"}),
    (Fault(kind=FaultKind.TOOL_ERROR, error="no_devices"), {"no_devices"}),
    (Fault(kind=FaultKind.TOOL_ERROR, error="io"), {"driver_error"}),
    (Fault(kind=FaultKind.LIBRARY_MISSING), {"library_missing"}),
    (Fault(kind=FaultKind.VERSION_MISMATCH), {"version_mismatch"}),
]


@pytest.mark.parametrize(("fault", "reasons"), TOOL_FAULTS, ids=[f.error or f.kind for f, _ in TOOL_FAULTS])
def test_a_broken_tool_costs_what_it_adds(watch: Watch, fault: Fault, reasons: set[str]) -> None:
    watched = watch("furiosa-rngd", tool_seconds=0.6 if fault.kind is FaultKind.TOOL_HANG else 60.0)
    watched.collect(10)
    watched.node.set_faults([fault])
    result = watched.collect(20)
    assert {c.reason for c in result.state.errors} == reasons
    assert (result.state.up, result.processes) == (True, ())
    for device in result.devices:
        assert not device.stale
        assert device.temperature_celsius is not None
        assert device.health.state is HealthState.OK
        assert device.memory_total_bytes == 51_002_736_640
        assert device.utilization_ratio is not None


@pytest.mark.parametrize("kind", [FaultKind.TOOL_TRUNCATED, FaultKind.TOOL_NON_UTF8])
def test_damaged_output_invents_nothing(watch: Watch, kind: FaultKind) -> None:
    watched = watch("furiosa-rngd")
    watched.collect(10)
    watched.node.set_faults([Fault(kind=kind)])
    result = watched.collect(20)
    truth = {card.uuid: card for card in watched.node.readings(FuriosaDriver)}
    assert len(result.devices) == 4
    for device in result.devices:
        card = truth[device.uuid or ""]
        assert device.temperature_celsius == card.peak_celsius
        assert device.memory_total_bytes == card.model.memory_bytes
        assert device.memory_used_bytes == card.memory_used_bytes
        assert [core.occupied for core in device.cores] == [core.held for core in card.cores]
    pids = {process.pid for card in truth.values() for process in card.processes}
    assert {process.pid for process in result.processes} <= pids


def test_a_driver_that_is_unloaded_and_comes_back(watch: Watch) -> None:
    watched = watch("furiosa-rngd")
    watched.collect(10)
    watched.node.set_faults([Fault(kind=FaultKind.DRIVER_NOT_LOADED)])
    result = watched.collect(20)
    assert not result.state.up
    assert [c.reason for c in result.state.errors] == ["driver_not_loaded"]
    assert all(device.stale for device in result.devices)
    watched.node.set_faults(())
    result = watched.collect(30)
    assert result.state.up
    assert not any(device.stale for device in result.devices)
