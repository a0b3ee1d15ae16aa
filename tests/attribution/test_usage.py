"""Memory and energy add up, whatever the node looks like."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.ledger import Ledger, use_fractions
from accelscope.attribution.usage import DeviceUse, UsageKey, UsageSum, uses
from accelscope.model import (
    Allocation,
    AllocationSource,
    Device,
    Owner,
    OwnerKind,
    Process,
    UnattributedReason,
    Vendor,
)

DEVICES = ("nvidia:a", "nvidia:b", "amd:c")
OWNERS = (
    *(
        Owner(kind=OwnerKind.POD, namespace="ns", pod=pod, container=container, pod_uid=pod)
        for pod in ("p1", "p2", "p3")
        for container in ("main", "side")
    ),
    Owner(kind=OwnerKind.CONTAINER, name="c" * 64, reason=UnattributedReason.NOT_IN_A_POD),
    Owner(kind=OwnerKind.SLURM_JOB, name="17", reason=UnattributedReason.NOT_IN_A_POD),
    Owner(kind=OwnerKind.USER, name="alice", reason=UnattributedReason.NOT_IN_A_POD),
    Owner(kind=OwnerKind.POD, name="p9", reason=UnattributedReason.POD_UNKNOWN),
    Owner(kind=OwnerKind.UNKNOWN, reason=UnattributedReason.PROCESS_GONE),
)
ratio = st.none() | st.floats(0, 1)
memory = st.none() | st.integers(0, 80 << 30)
processes = st.builds(
    Process,
    pid=st.integers(1, 4_000_000),
    device=st.sampled_from(DEVICES),
    partition=st.sampled_from((None, None, "part-1")),
    owner=st.sampled_from(OWNERS),
    memory_bytes=memory,
    utilization_ratio=ratio,
    memory_utilization_ratio=ratio,
    encoder_utilization_ratio=ratio,
)
held = st.builds(
    Allocation,
    namespace=st.just("ns"),
    pod=st.sampled_from(("p1", "p2", "p3")),
    container=st.sampled_from(("main", "side")),
    source=st.just(AllocationSource.KUBELET),
    device_id=st.text(max_size=5),
    device=st.sampled_from((*DEVICES, None, "gone:x")),
    partition=st.sampled_from((None, "part-1")),
)


@st.composite
def collections(draw: st.DrawFn) -> tuple[list[Device], list[Process], list[Allocation]]:
    devices = [
        Device(
            vendor=Vendor("nvidia"),
            id=name,
            stale=draw(st.booleans()) and draw(st.booleans()),
            memory_used_bytes=draw(memory),
            utilization_ratio=draw(ratio),
            power_watts=draw(st.none() | st.floats(0, 700)),
        )
        for name in DEVICES
        if draw(st.integers(0, 9))
    ]
    return devices, draw(st.lists(processes, max_size=12)), draw(st.lists(held, max_size=6))


@given(collections())
def test_memory_of_pods_and_unattributed_minus_surplus_equals_used(
    node: tuple[list[Device], list[Process], list[Allocation]],
) -> None:
    devices, running, granted = node
    for use in uses(devices, running, granted).values():
        of_pods = sum(m.memory_bytes or 0 for m in use.pods.values())
        unattributed = use.unattributed()
        of_nobody = sum(u.memory_used_bytes or 0 for u in unattributed)
        own = [p for p in running if p.device == use.device.id]
        in_pods = sum(measured.processes for measured in use.pods.values())
        assert in_pods + sum(other.processes for other in unattributed) == len(own)
        used = use.device.memory_used_bytes
        if used is None:
            assert use.surplus_memory_bytes is None
            assert of_pods + of_nobody == sum(p.memory_bytes or 0 for p in own)
            continue
        surplus = use.surplus_memory_bytes
        assert surplus is not None
        assert of_pods + of_nobody - surplus == used
        if surplus:  # processes' figures stay as measured, and nothing is left over
            rest = [u.memory_used_bytes for u in unattributed if u.kind is OwnerKind.NONE]
            assert rest == [0]


@given(st.lists(collections(), min_size=2, max_size=6), st.data())
def test_pods_and_idle_energy_get_what_the_device_used(
    nodes: list[tuple[list[Device], list[Process], list[Allocation]]], data: st.DataObject
) -> None:
    ledger = Ledger()
    counters = dict.fromkeys(DEVICES, 0.0)
    told: dict[str, float] = {}
    before: Mapping[str, float] = {}
    for number, (devices, running, granted) in enumerate(nodes):
        shown, added = [], {}
        for device in devices:
            counters[device.id] += data.draw(st.floats(0, 1e6))
            if data.draw(st.integers(0, 9)) == 0:
                counters[device.id] = data.draw(st.floats(0, 10))  # the driver was reloaded
            if device.stale:
                shown.append(device)
                continue
            joules = counters[device.id]
            if device.id in told:
                last = told[device.id]
                added[device.id] = joules - last if joules >= last else joules
            told[device.id] = joules
            shown.append(replace(device, energy_joules=joules, read_at=float(number)))
        for gone in set(told) - {device.id for device in devices}:
            del told[gone]  # forgotten with the device
        used = uses(shown, running, granted)
        ledger.enter(used, [("ns", "p1"), ("ns", "p2"), ("ns", "p3")], float(number))
        after = _energies(ledger, used)
        for device_id in used:
            kept = set(before) & set(after) | {k for k in after if k not in before}
            grown = sum(after[k] - before.get(k, 0.0) for k in kept if k.startswith(device_id))
            assert grown == pytest.approx(added.get(device_id, 0.0), rel=1e-9, abs=1e-6)
        # The idle energy of a removed device starts at 0; that of a pod continues.
        before = {**{k: v for k, v in before.items() if not k.endswith("|") or k[:-1] in used}, **after}


def _energies(ledger: Ledger, used: Mapping[str, DeviceUse]) -> dict[str, float]:
    found = {}
    for device_id in used:
        idle = ledger.idle_energy_joules(device_id)
        if idle is not None:
            found[f"{device_id}|"] = idle
    for key, joules in ledger._energy.items():
        if key.device in used:
            found[f"{key.device}|{key}"] = joules
    return found


def use_of(device: Device, running: list[Process] = [], granted: list[Allocation] = []) -> DeviceUse:  # noqa: B006
    return uses([device], running, granted)[device.id]


GPU = Device(vendor=Vendor("nvidia"), id="nvidia:a", utilization_ratio=0.8)


def on_gpu(owner: Owner, *, use: float | None = None, memory_bytes: int | None = None) -> Process:
    return Process(pid=1, device="nvidia:a", owner=owner, utilization_ratio=use, memory_bytes=memory_bytes)


def holds(pod: str, container: str = "main") -> Allocation:
    return Allocation(
        namespace="ns",
        pod=pod,
        container=container,
        source=AllocationSource.KUBELET,
        device_id="x",
        device="nvidia:a",
    )


P1, P2, USER, GONE = OWNERS[0], OWNERS[2], OWNERS[8], OWNERS[10]


@pytest.mark.parametrize(
    ("running", "granted", "expected"),
    [
        pytest.param([on_gpu(P1, use=0.3), on_gpu(P2, use=0.2)], [], [0.3, 0.2], id="measured"),
        pytest.param([on_gpu(P1, use=0.9), on_gpu(P2, use=0.9)], [], [0.5, 0.5], id="more than all"),
        pytest.param([on_gpu(P1, use=0.9), on_gpu(USER, use=0.9)], [], [0.5], id="others take part"),
        pytest.param(
            [on_gpu(P1, memory_bytes=3), on_gpu(P2, memory_bytes=1)], [], [0.6, 0.2], id="by memory"
        ),
        pytest.param([on_gpu(P1, memory_bytes=3), on_gpu(P2)], [], [0.4, 0.4], id="memory of one only"),
        pytest.param([], [holds("p1")], [0.8], id="nobody seen, one holds it"),
        pytest.param([], [holds("p1"), holds("p2")], [], id="nobody seen, two hold it"),
        pytest.param([on_gpu(GONE, memory_bytes=3)], [holds("p1")], [0.8], id="seen but not known"),
        pytest.param([on_gpu(USER, memory_bytes=3)], [holds("p1")], [], id="somebody else's"),
    ],
)
def test_fractions_of_use(running: list[Process], granted: list[Allocation], expected: list[float]) -> None:
    shares = use_fractions(use_of(GPU, running, granted))
    assert shares is not None
    assert [round(share, 9) for share in shares.values()] == expected


def test_values_of_processes_are_added_up() -> None:
    measured = UsageSum()
    assert (measured.is_active, measured.memory_bytes) == (None, None)
    one = Process(
        pid=1,
        memory_bytes=5,
        utilization_ratio=0.25,
        memory_utilization_ratio=0.125,
        encoder_utilization_ratio=0.5,
        decoder_utilization_ratio=0.0,
    )
    measured.add([one, Process(pid=2)])
    measured.add([one])
    assert measured == UsageSum(
        processes=3, memory_bytes=10, utilization=0.5, memory_utilization=0.25, encoder=1.0, decoder=0.0
    )
    assert measured.is_active is True
    assert UsageSum(decoder=0.0).is_active is False


def test_unattributed_use_has_a_reason() -> None:
    use = use_of(
        Device(vendor=Vendor("nvidia"), id="nvidia:a"),
        [on_gpu(owner, memory_bytes=7, use=0.25) for owner in OWNERS[6:]],
    )
    found = use.unattributed()
    assert [(u.kind, u.name, u.reason) for u in found] == [(o.kind, o.name, o.reason) for o in OWNERS[6:]]
    assert {(u.processes, u.memory_used_bytes, u.utilization_ratio) for u in found} == {(1, 7, 0.25)}


def test_a_pod_of_which_only_the_uid_is_known_has_no_name() -> None:
    nameless = Owner(kind=OwnerKind.POD, pod_uid="p")
    use = use_of(Device(vendor=Vendor("nvidia"), id="nvidia:a"), [on_gpu(nameless)])
    assert use.uids == {UsageKey("nvidia:a", "", "", "", ""): "p"}


def test_energy_comes_from_power_without_a_counter() -> None:
    ledger, key = Ledger(), UsageKey("nvidia:a", "", "ns", "p1", "main")
    for at in (0.0, 10.0, 20.0):
        device = replace(GPU, power_watts=100.0, read_at=at)
        ledger.enter({"nvidia:a": use_of(device, [on_gpu(P1, use=0.25)])}, [], at)
    assert ledger.energy_joules(key) == pytest.approx(500.0)
    assert ledger.idle_energy_joules("nvidia:a") == pytest.approx(1500.0)


@pytest.mark.parametrize(("gap", "joules"), [(600.0, 60_000.0), (601.0, 0.0)])
def test_power_is_not_extrapolated_over_a_long_gap(gap: float, joules: float) -> None:
    ledger = Ledger()
    for at, stale in ((0.0, False), (gap / 2, True), (gap, False)):
        device = replace(GPU, power_watts=None if stale else 100.0, read_at=0.0 if stale else at, stale=stale)
        ledger.enter({"nvidia:a": use_of(device)}, [], at)
    assert ledger.idle_energy_joules("nvidia:a") == pytest.approx(joules)


def test_power_counts_if_collections_are_far_apart() -> None:
    ledger = Ledger()
    for at in (0.0, 3600.0, 7200.0):
        ledger.enter({"nvidia:a": use_of(replace(GPU, power_watts=100.0, read_at=at))}, [], at)
    assert ledger.idle_energy_joules("nvidia:a") == pytest.approx(720_000.0)


def test_energy_by_power_does_not_follow_a_clock_that_is_set() -> None:
    ledger = Ledger()
    for at, read_at in ((0.0, 1000.0), (10.0, 1500.0), (20.0, 400.0), (30.0, 400.0), (40.0, 410.0)):
        ledger.enter({"nvidia:a": use_of(replace(GPU, power_watts=100.0, read_at=read_at))}, [], at)
    assert ledger.idle_energy_joules("nvidia:a") == pytest.approx(4000.0)


def test_a_missing_counter_adds_nothing() -> None:
    ledger = Ledger()
    for at, joules in ((0.0, 100.0), (10.0, None), (20.0, 150.0)):
        device = replace(GPU, power_watts=7.0, energy_joules=joules, read_at=at)
        ledger.enter({"nvidia:a": use_of(device)}, [], at)
    assert ledger.idle_energy_joules("nvidia:a") == pytest.approx(50.0)


def test_energy_used_without_readings_is_idle_energy() -> None:
    ledger, key = Ledger(), UsageKey("nvidia:a", "", "ns", "p1", "main")

    def enter(joules: float | None, at: float) -> None:
        device = replace(GPU, energy_joules=joules, read_at=at, stale=joules is None)
        ledger.enter({"nvidia:a": use_of(device, [on_gpu(P1, use=1.0)])}, [], at)

    enter(100.0, 0)
    enter(None, 10)
    enter(300.0, 20)
    assert (ledger.energy_joules(key), ledger.idle_energy_joules("nvidia:a")) == (0.0, 200.0)
    enter(350.0, 30)
    assert (ledger.energy_joules(key), ledger.idle_energy_joules("nvidia:a")) == (50.0, 200.0)


def test_energy_of_a_removed_pod_is_dropped_and_that_of_a_paused_one_is_kept() -> None:
    ledger, key = Ledger(), UsageKey("nvidia:a", "", "ns", "p1", "main")

    def enter(joules: float, running: list[Process], pods: list[tuple[str, str]]) -> None:
        device = replace(GPU, energy_joules=joules, read_at=joules)
        ledger.enter({"nvidia:a": use_of(device, running)}, pods, joules)

    enter(0.0, [on_gpu(P1, use=1.0)], [("ns", "p1")])
    enter(10.0, [on_gpu(P1, use=1.0)], [("ns", "p1")])
    enter(20.0, [], [("ns", "p1")])
    enter(30.0, [on_gpu(P1, use=1.0)], [("ns", "p1")])
    assert ledger.energy_joules(key) == 20.0
    enter(40.0, [], [])
    assert ledger.energy_joules(key) is None


def idle(ledger: Ledger, device: Device, running: list[Process], at: float) -> float | None:
    use = use_of(device, running, [holds("p1")])
    ledger.enter({"nvidia:a": use}, [], at)
    return ledger.idle_seconds(use, UsageKey("nvidia:a", "", "ns", "p1", "main"), at)


def test_idle_seconds_count_from_the_last_activity() -> None:
    ledger = Ledger()
    still = replace(GPU, utilization_ratio=0.0)
    assert idle(ledger, still, [], 100) == 0
    assert idle(ledger, still, [], 130) == 30
    assert idle(ledger, still, [on_gpu(P1, use=0.0)], 140) == 40
    assert idle(ledger, GPU, [on_gpu(P1, use=0.5)], 150) == 0
    assert idle(ledger, GPU, [on_gpu(P1, use=0.0), on_gpu(P2, use=0.8)], 170) == 20
    assert idle(ledger, GPU, [on_gpu(USER)], 180) == 30
    assert idle(ledger, GPU, [on_gpu(P1), on_gpu(P2, use=0.8)], 190) == 40  # no sample of it, but of others
    assert idle(ledger, GPU, [on_gpu(P1, memory_bytes=1)], 200) == 0  # a driver that measures no processes


def test_a_container_without_visible_processes_is_active_when_the_device_is() -> None:
    ledger = Ledger()
    assert idle(ledger, GPU, [on_gpu(GONE)], 10) == 0
    assert idle(ledger, GPU, [on_gpu(GONE)], 20) == 0
    assert idle(ledger, replace(GPU, utilization_ratio=0.0), [], 30) == 10


def test_idle_seconds_are_absent_if_activity_is_unknown() -> None:
    assert idle(Ledger(), replace(GPU, utilization_ratio=None), [], 10) is None
    two_hold_it = use_of(GPU, [on_gpu(GONE, use=0.5)], [holds("p1"), holds("p2")])
    ledger = Ledger()
    ledger.enter({"nvidia:a": two_hold_it}, [], 10)
    assert ledger.idle_seconds(two_hold_it, UsageKey("nvidia:a", "", "ns", "p1", "main"), 20) is None


def test_a_pod_with_the_name_of_another_starts_at_zero() -> None:
    ledger, key = Ledger(), UsageKey("nvidia:a", "", "ns", "p1", "main")

    def enter(uid: str, joules: float) -> DeviceUse:
        device = replace(GPU, energy_joules=joules, read_at=joules)
        owner = replace(P1, pod_uid=uid)
        use = use_of(device, [on_gpu(owner, use=0.0)], [replace(holds("p1"), pod_uid=uid)])
        ledger.enter({"nvidia:a": use}, [("ns", "p1")], joules)
        return use

    enter("first", 0.0)
    assert ledger.idle_seconds(enter("first", 3000.0), key, 3000.0) == 3000
    busy = use_of(
        replace(GPU, energy_joules=4000.0, read_at=4000.0), [on_gpu(replace(P1, pod_uid="first"), use=1.0)]
    )
    ledger.enter({"nvidia:a": busy}, [("ns", "p1")], 4000.0)
    assert ledger.energy_joules(key) == 1000.0
    second = enter("second", 4010.0)
    assert ledger.idle_seconds(second, key, 4010.0) == 0
    assert ledger.energy_joules(key) == 0


def test_without_utilization_pods_have_no_energy() -> None:
    """As for a GPU with MIG instances: neither its own nor its processes' use is known."""
    ledger, key = Ledger(), UsageKey("nvidia:a", "", "ns", "p1", "main")
    for joules in (0.0, 10.0, 20.0):
        device = replace(GPU, utilization_ratio=None, energy_joules=joules, read_at=joules)
        ledger.enter({"nvidia:a": use_of(device, [on_gpu(P1, memory_bytes=5)])}, [], joules)
    assert ledger.energy_joules(key) is None
    assert ledger.idle_energy_joules("nvidia:a") == 20.0
