"""A real agent through every fault of the matrix: one test for each, and the same demands on all."""

import dataclasses
import os
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.faults.breaks import BREAKS, DEVICE, PREPARED
from tests.faults.matrix import MATRIX, Fault, Stale
from tests.faults.measured import Measured
from tests.faults.scene import Probe, Scene, Usage, pods_of, total
from tests.waiting import wait_until

from accelscope.model import Device, HealthState, Snapshot

# Times and collections are those of an idle machine: a busy one may take many times as long, who is blocked
# takes longer still. What was measured is printed after the tests.
_BUSY = 10
_BUSY_LORIS = 3  # in which lorises may leave no room: those that nobody sends away go after five seconds
_GROWTH_BYTES = 32 << 20
_PEAK_BYTES = 64 << 20  # beyond what it took before: a tool that floods took 33 MiB as a rule, 48 once
_MOST_THREADS = 24
_MOST_FILES = 340  # with as many clients as are let in
# Identity and the agent's own fields: all that is shown of a device that cannot be read.
_IDENTITY = frozenset(
    {"vendor", "id", "index", "model", "architecture", "uuid", "serial", "pci_address", "numa_node"}
    | {
        "device_name",
        "driver_version",
        "firmware_version",
        "revision",
        "board_id",
        "chip_id",
        "chip_count",
        "physical_id",
    }
    | {"read_at", "errors", "stale", "health"}
)


@pytest.mark.parametrize("fault", MATRIX, ids=lambda fault: fault.name)
def test_the_agent_survives_the_fault(fault: Fault, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What it took is printed after the tests, see conftest.py."""
    if fault.needs_root and os.geteuid() != 0:
        pytest.skip("only root may mount a disk to break")
    scene = Scene(tmp_path, fault.site)
    with scene:
        if prepare := PREPARED.get(fault.name):
            prepare(scene)
        with scene.running():
            measured = _come_through(fault, scene)
            request.node.user_properties.append(("fault", dataclasses.asdict(measured)))
            _check_measured(fault, measured)
    for log in scene.logs:
        assert "raceback" not in log, log
        assert not [secret for secret in scene.secrets if secret in log]
    wait_until(lambda: not scene.leftovers(), f"nothing runs on: {scene.leftovers()}")


def _come_through(fault: Fault, scene: Scene) -> Measured:
    healthy = scene.until_fresh()
    if fault.pods_stay:
        scene.expected_pods = pods_of(healthy)
    page, usage = scene.page(), scene.usage()
    with Probe(scene) if fault.probed else nullcontext() as probe:
        with BREAKS[fault.name](scene):
            broken = (
                _look_while_broken(fault, scene, healthy, page, usage.peak_bytes) if fault.probed else None
            )
        if scene.ended_at is None:
            scene.over()
        again = scene.until_fresh(scene.ended)
        if broken is not None:
            again = scene.until(lambda s: _sources_told(s, broken, healthy), "what failed answers again")
        seconds = time.monotonic() - (scene.ended_at or 0.0)
    assert {d.id for d in again.devices} == {d.id for d in healthy.devices}
    assert scene.agent.get("/readyz").status == 200
    wait_until(lambda: _is_bounded(scene.usage(), usage), "it lets go of what it took")
    wait_until(lambda: not scene.zombies(), "it lets go of children that have ended")
    if probe is not None:
        _check_probe(fault, probe)
    return Measured(
        name=fault.name,
        collections=again.agent.collections - (scene.ended.agent.collections if scene.ended else 0),
        seconds=seconds,
        slowest_answer_seconds=probe.slowest_seconds if probe is not None else None,
    )


def _check_measured(fault: Fault, measured: Measured) -> None:
    if fault.collections:
        assert measured.collections <= _BUSY * fault.collections
    else:
        assert measured.seconds <= _BUSY * fault.seconds
    if measured.slowest_answer_seconds is not None:
        assert measured.slowest_answer_seconds <= _BUSY * fault.answer_seconds


def _look_while_broken(fault: Fault, scene: Scene, healthy: Snapshot, page: str, peak_bytes: int) -> Snapshot:
    for series in fault.counted:
        _wait_for_rise(scene, series, total(page, series))
    broken = scene.until(lambda s: _is_as_said(fault, s, healthy), f"{fault.stale} stale")
    _nothing_is_invented(fault, broken, healthy)
    others = {d.id: d.read_at for d in broken.devices if not d.stale}
    later = scene.until(
        lambda s: (
            s.agent.collections > broken.agent.collections + 1
            and _is_as_said(fault, s, healthy)
            and _were_read_again(fault, s, others)
        ),
        "the others are read again and again",
    )
    _nothing_is_invented(fault, later, healthy)
    if fault.pods_stay:
        assert pods_of(later) == pods_of(healthy)
    ready = 503 if fault.stale is Stale.ALL else 200
    if fault.stale is not Stale.SOME:
        wait_until(lambda: scene.agent.get("/readyz").status == ready, f"/readyz is {ready}")
    if fault.untouched:
        scene.until(
            lambda s: any(not d.stale and _is_untouched(d, healthy) for d in s.devices),
            "nothing is missing of a device",
        )
    usage = scene.usage()
    assert usage.peak_bytes <= peak_bytes + _PEAK_BYTES
    assert usage.threads <= _MOST_THREADS
    assert usage.files <= _MOST_FILES
    text = scene.page() + scene.agent.get("/snapshot").body.decode()
    assert not [secret for secret in scene.secrets if secret in text]
    return later


def _sources_told(now: Snapshot, broken: Snapshot, healthy: Snapshot) -> bool:
    """Each source that failed, and had not answered since, has. One that fails for seconds only still counts
    as up: that it answers again is seen by when it last did."""
    first = {state.source: state for state in healthy.attribution}
    latest = {state.source: state for state in now.attribution}
    waiting = [
        state
        for state in broken.attribution
        if state.source in first
        and state.errors != first[state.source].errors
        and state.last_success == first[state.source].last_success
    ]
    return all(latest[state.source].last_success != state.last_success for state in waiting)


def _wait_for_rise(scene: Scene, series: str, before: float) -> None:
    try:
        wait_until(lambda: total(scene.page(), series) > before)
    except AssertionError:
        raise AssertionError(f"{series} does not rise:\n{scene.agent.log()}") from None


def _is_as_said(fault: Fault, snapshot: Snapshot, healthy: Snapshot) -> bool:
    """To be waited for: on a busy machine a healthy device may be late, for a moment."""
    stale = {device.id for device in snapshot.devices if device.stale}
    if len(snapshot.devices) != len(healthy.devices) or stale != _broken(fault, healthy, stale):
        return False
    return not fault.lost or _are_known_to_be_lost(stale, snapshot)


def _broken(fault: Fault, healthy: Snapshot, chance: set[str]) -> set[str]:
    match fault.stale:
        case Stale.NONE:
            return set()
        case Stale.ONE:
            return {healthy.devices[DEVICE].id}
        case Stale.SOME:
            return chance
        case Stale.ALL:
            return {device.id for device in healthy.devices}


def _are_known_to_be_lost(devices: set[str], snapshot: Snapshot) -> bool:
    [reader] = [reader for reader in snapshot.readers if reader.found]
    return _lost(snapshot) == devices and reader.devices_seen == reader.devices_expected - len(devices)


def _lost(snapshot: Snapshot) -> set[str]:
    return {device.id for device in snapshot.devices if device.health.state is HealthState.LOST}


def _were_read_again(fault: Fault, snapshot: Snapshot, others: dict[str, float | None]) -> bool:
    if fault.stale is Stale.SOME:
        return True
    return all(d.read_at != others[d.id] for d in snapshot.devices if d.id in others)


def _nothing_is_invented(fault: Fault, broken: Snapshot, healthy: Snapshot) -> None:
    assert {d.id for d in broken.devices} == {d.id for d in healthy.devices}
    assert fault.lost or not _lost(broken)
    for device in broken.devices:
        if device.stale:
            assert not _values(device)
            assert not [p for p in broken.processes if p.device == device.id]


def _is_untouched(device: Device, healthy: Snapshot) -> bool:
    [before] = [other for other in healthy.devices if other.id == device.id]
    return bool(_values(device)) and all(
        getattr(device, name) == getattr(before, name) for name in _values(before)
    )


def _values(device: Device) -> list[str]:
    return [
        field.name
        for field in dataclasses.fields(device)
        if field.name not in _IDENTITY and getattr(device, field.name) not in (None, (), field.default)
    ]


def _is_bounded(now: Usage, before: Usage) -> bool:
    return (
        now.resident_bytes <= before.resident_bytes + _GROWTH_BYTES
        and now.threads <= before.threads + 6
        and now.files <= before.files + 12
    )


def _check_probe(fault: Fault, probe: Probe) -> None:
    assert not probe.wrong
    assert probe.asked > 2
    if probe.refused_at:
        since_the_first = probe.refused_at[-1] - probe.refused_at[0]
        assert fault.refused_seconds, "nobody may be told 503"
        busy = _BUSY_LORIS if fault.name == "slow-loris" else _BUSY
        assert since_the_first <= busy * fault.refused_seconds
