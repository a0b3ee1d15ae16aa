"""Energy and idle time of pods and devices over several collections."""

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.cgroup import location_from_cgroup
from accelscope.attribution.ledger import Ledger, StoredIdleTime
from accelscope.attribution.processes import HostProcess, PodTable, owner_of
from accelscope.attribution.usage import DeviceUse, UsageKey, uses
from accelscope.kube.objects import KubePod, PodContainer
from accelscope.model import (
    Absence,
    AbsenceReason,
    Allocation,
    AllocationSource,
    Device,
    Owner,
    OwnerKind,
    Process,
    Vendor,
)

GPU = Device(vendor=Vendor("amd"), id="amd:a", utilization_ratio=1.0)
WATTS = 700.0


def owner(pod: str, container: str | None = "main", uid: str | None = None) -> Owner:
    return Owner(
        kind=OwnerKind.POD, namespace="ns", pod=pod, container=container, pod_uid=pod if uid is None else uid
    )


def runs(of: Owner, use: float | None = 1.0, part: str | None = None) -> Process:
    return Process(pid=1, device=GPU.id, partition=part, owner=of, utilization_ratio=use)


def holds(pod: str, container: str = "main", part: str | None = None) -> Allocation:
    return Allocation(
        namespace="ns",
        pod=pod,
        container=container,
        source=AllocationSource.KUBELET,
        device_id="x",
        device=GPU.id,
        partition=part,
    )


def key(pod: str, container: str = "main", part: str = "") -> UsageKey:
    return UsageKey(GPU.id, part, "ns", pod, container)


class Node:
    """A GPU at 700 W whose counter the test updates."""

    def __init__(self, *pods: str) -> None:
        self.ledger = Ledger()
        self.pods: Collection[str] = pods  # that exist, whether they are seen or not

    def at(
        self,
        now: float,
        counter: float | None,
        *running: Process,
        watts: float | None = WATTS,
        stale: bool = False,
    ) -> None:
        device = replace(GPU, energy_joules=counter, power_watts=watts, read_at=now)
        if stale:
            device = Device(vendor=GPU.vendor, id=GPU.id, stale=True)
        found = uses([device], running, [])
        self.ledger.enter(found, [("ns", pod) for pod in self.pods], now)

    def energy(self, pod: str) -> float | None:
        return self.ledger.energy_joules(key(pod))

    @property
    def idle(self) -> float:
        joules = self.ledger.idle_energy_joules(GPU.id)
        assert joules is not None
        return joules


def test_a_counter_that_changes_once_a_minute_is_split_by_the_use_in_that_minute() -> None:
    node = Node("a", "b")
    for now in range(0, 60, 10):
        node.at(now, 0.0, runs(owner("a")))
    node.at(60, 60 * WATTS, runs(owner("b")))
    assert node.energy("a") == pytest.approx(50 * WATTS)
    assert node.energy("b") == pytest.approx(10 * WATTS)
    assert node.idle == pytest.approx(0.0)
    for now in range(70, 130, 10):
        node.at(now, 60 * WATTS if now < 120 else 120 * WATTS, runs(owner("b"), 0.5))
    assert node.energy("a") == pytest.approx(50 * WATTS)
    assert node.energy("b") == pytest.approx(40 * WATTS)
    assert node.idle == pytest.approx(30 * WATTS)


def test_the_share_of_a_pod_that_ended_before_the_counter_changed_is_idle_energy() -> None:
    node = Node("a", "b")
    for now in range(0, 60, 10):
        node.at(now, 0.0, runs(owner("a")))
    node.pods = ("b",)
    node.at(60, 60 * WATTS, runs(owner("b")))
    assert node.energy("a") is None
    assert node.energy("b") == pytest.approx(10 * WATTS)
    assert node.idle == pytest.approx(50 * WATTS)


def test_a_pod_is_not_charged_for_an_earlier_pod_of_the_same_name() -> None:
    node = Node("a")
    for now in range(0, 60, 10):
        node.at(now, 0.0, runs(owner("a", uid="first")))
    node.at(60, 60 * WATTS, runs(owner("a", uid="second")))
    assert node.energy("a") == pytest.approx(10 * WATTS)
    assert node.idle == pytest.approx(50 * WATTS)


def test_a_counter_that_returns_is_split_by_the_use_while_it_was_missing() -> None:
    node = Node("x", "y")
    node.at(0, 0.0, runs(owner("x")))
    for now in range(10, 400, 10):
        node.at(now, None, runs(owner("x")))
    node.at(400, 400 * WATTS + 50, runs(owner("y")))
    assert node.energy("x") == pytest.approx(390 / 400 * (400 * WATTS + 50))
    assert node.energy("y") == pytest.approx(10 / 400 * (400 * WATTS + 50))
    assert node.idle == pytest.approx(0.0)


def test_a_missing_counter_is_replaced_by_power_and_the_gap_counts_once() -> None:
    node = Node("x", "y")
    node.at(0, 0.0, runs(owner("x")))
    for now in range(10, 601, 10):
        node.at(now, None, runs(owner("x")))
    assert node.energy("x") == 0.0  # the counter may return
    node.at(610, None, runs(owner("x")))
    assert node.energy("x") == pytest.approx(610 * WATTS)
    for now in range(620, 3600, 10):
        node.at(now, None, runs(owner("x")))
    assert node.energy("x") == pytest.approx(3590 * WATTS)
    node.at(3600, 3600 * WATTS, runs(owner("y")))
    node.at(3610, 3610 * WATTS, runs(owner("y")))
    assert node.energy("x") == pytest.approx(3590 * WATTS)
    assert node.energy("y") == pytest.approx(20 * WATTS)
    assert node.idle == pytest.approx(0.0)


def test_a_missing_counter_without_power_is_waited_for() -> None:
    node = Node("x", "y")
    node.at(0, 0.0, runs(owner("x")), watts=None)
    for now in range(10, 3600, 10):
        node.at(now, None, runs(owner("x")), watts=None)
    node.at(3600, 7200.0, runs(owner("y")), watts=None)
    assert node.energy("x") == pytest.approx(7180.0)
    assert node.energy("y") == pytest.approx(20.0)


def test_time_without_readings_is_not_attributed() -> None:
    node = Node("a")
    node.at(0, 0.0, runs(owner("a")))
    for now in (10, 20, 30):
        node.at(now, None, stale=True)
    node.at(40, 0.0, runs(owner("a")))
    node.at(50, 0.0, runs(owner("a")))
    node.at(60, 60 * WATTS, runs(owner("a")))
    assert node.energy("a") == pytest.approx(20 * WATTS)
    assert node.idle == pytest.approx(40 * WATTS)


def test_pods_of_a_device_without_utilization_have_no_energy_before_their_processes_run() -> None:
    """As on a GPU with MIG instances: 0 would remain when the processes run."""
    device = replace(GPU, utilization_ratio=None, energy_joules=0.0, power_watts=WATTS, read_at=0.0)
    ledger = Ledger()
    for now, processes in ((0.0, []), (10.0, [runs(owner("a"), use=None, part="1")])):
        found = uses(
            [replace(device, energy_joules=now * WATTS, read_at=now)],
            processes,
            [holds("a", part="1"), holds("b", part="2")],
        )
        ledger.enter(found, [("ns", "a"), ("ns", "b")], now)
    assert ledger.energy_joules(key("a", part="1")) is None
    assert ledger.energy_joules(key("b", part="2")) is None
    assert ledger.idle_energy_joules(GPU.id) == pytest.approx(10 * WATTS)


def test_pending_shares_are_limited_to_existing_pods() -> None:
    node = Node()
    for number in range(1000):
        node.at(number * 10.0, 5.0, runs(owner(f"job-{number}")))
    [account] = node.ledger._accounts.values()
    assert list(account.shares) == [key("job-999")]


STEP = st.tuples(
    st.floats(0.1, 100.0),  # seconds since the step before
    st.sampled_from(("moves", "moves", "stands", "silent", "stale", "loaded anew")),
    st.floats(0, 1e6),  # joules
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.floats(0, 1)), max_size=3),
)


@given(st.lists(STEP, min_size=1, max_size=30))
def test_pods_and_idle_energy_add_up_to_the_counter(
    steps: list[tuple[float, str, float, list[tuple[str, float | None]]]],
) -> None:
    node = Node("a", "b", "c")
    node.at(0, 0.0)
    now, counter, told = 0.0, 0.0, 0.0
    for seconds, what, joules, running in steps:
        now += seconds
        if what == "moves":
            told += joules
            counter += joules
        elif what == "loaded anew" and joules < counter:
            told += joules
            counter = joules
        shown = None if what in ("silent", "stale") else counter
        # Without power, so that the counter is all there is.
        processes = [runs(owner(pod), use) for pod, use in running]
        node.at(now, shown, *processes, watts=None, stale=what == "stale")
        of_pods = sum(node.energy(pod) or 0.0 for pod in "abc")
        assert of_pods + node.idle == pytest.approx(told, rel=1e-9, abs=1e-6)


def idle_seconds(ledger: Ledger, use: DeviceUse, of: UsageKey, now: float) -> float | None:
    ledger.enter({use.device.id: use}, [], now)
    return ledger.idle_seconds(use, of, now)


def seen(running: list[Process], granted: list[Allocation]) -> DeviceUse:
    return uses([GPU], running, granted)[GPU.id]


@pytest.mark.parametrize("use", [(0.0, 1.0), (1.0, 0.0), (None, 1.0)])
def test_a_container_with_the_whole_device_is_active_on_any_partition(
    use: tuple[float | None, float],
) -> None:
    running = [runs(owner("a"), use[0], "part-0"), runs(owner("a"), use[1], "part-1")]
    ledger, whole = Ledger(), seen(running, [holds("a")])
    assert idle_seconds(ledger, whole, key("a"), 0) == 0
    assert idle_seconds(ledger, whole, key("a"), 3600) == 0
    still = seen([replace(process, utilization_ratio=0.0) for process in running], [holds("a")])
    assert idle_seconds(ledger, still, key("a"), 3630) == 30


def test_a_container_with_one_partition_is_idle_while_it_uses_another() -> None:
    running = [runs(owner("a"), 0.0, "part-0"), runs(owner("a"), 1.0, "part-1")]
    ledger = Ledger()
    for now in (0.0, 60.0):
        use = seen(running, [holds("a", part="part-0"), holds("a", part="part-1")])
        ledger.enter({GPU.id: use}, [], now)
    assert ledger.idle_seconds(use, key("a", part="part-0"), 60) == 60
    assert ledger.idle_seconds(use, key("a", part="part-1"), 60) == 0


NOT_BUSY = replace(GPU, utilization_ratio=0.0)


def still(uid: str | None) -> DeviceUse:
    return uses([NOT_BUSY], [], [replace(holds("a"), pod_uid=uid)])[GPU.id]


def test_stored_idle_time_continues_after_a_restart() -> None:
    ledger = Ledger({key("a"): StoredIdleTime("uid-1", 7200.0)})
    assert idle_seconds(ledger, still("uid-1"), key("a"), 100) == 7200
    assert idle_seconds(ledger, still("uid-1"), key("a"), 160) == 7260


def test_stored_idle_time_waits_for_the_pods_uid() -> None:
    ledger = Ledger({key("a"): StoredIdleTime("uid-1", 7200.0)})
    ledger.enter({}, [], 100)  # the driver has not answered yet
    assert idle_seconds(ledger, still(None), key("a"), 110) == 0
    assert idle_seconds(ledger, still("uid-1"), key("a"), 120) == 7220


def test_stored_idle_time_is_not_used_for_another_pod_of_the_same_name() -> None:
    ledger = Ledger({key("a"): StoredIdleTime("uid-1", 7200.0)})
    assert idle_seconds(ledger, still("uid-2"), key("a"), 100) == 0
    assert idle_seconds(ledger, still("uid-2"), key("a"), 130) == 30


def test_stored_idle_time_ends_when_the_pod_is_active() -> None:
    ledger = Ledger({key("a"): StoredIdleTime("uid-1", 7200.0)})
    working = uses([GPU], [runs(owner("a", uid="uid-1"))], [replace(holds("a"), pod_uid=None)])[GPU.id]
    assert idle_seconds(ledger, working, key("a"), 100) == 0
    assert idle_seconds(ledger, still("uid-1"), key("a"), 130) == 30


def test_stored_idle_time_expires() -> None:
    ledger = Ledger({key("a"): StoredIdleTime("uid-1", 7200.0)})
    ledger.enter({}, [], 100)
    assert idle_seconds(ledger, still("uid-1"), key("a"), 701) == 0


def test_without_a_source_of_pods_the_name_identifies_the_pod() -> None:
    ledger = Ledger({key("a"): StoredIdleTime(None, 7200.0)})
    assert idle_seconds(ledger, still(None), key("a"), 100) == 7200


def test_a_pod_with_an_unknown_container_is_active() -> None:
    """As until the kubelet publishes the id of a new container."""
    ledger = Ledger()
    for now in (0.0, 3600.0):
        use = seen([runs(owner("a", container=None))], [holds("a", "dind"), holds("b")])
        ledger.enter({GPU.id: use}, [], now)
    assert ledger.idle_seconds(use, key("a", "dind"), 3600) == 0
    assert ledger.idle_seconds(use, key("b"), 3600) == 3600


def test_a_container_inside_a_pods_container_makes_the_pod_active() -> None:
    uid, outer, inner = "0a1b2c3d-0000-4000-8000-000000000001", "c" * 64, "d" * 64
    pod = KubePod(
        uid=uid,
        namespace="ns",
        name="a",
        containers=(PodContainer("dind", outer), PodContainer("prepare", "e" * 64)),
    )
    path = f"/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/cri-containerd-{outer}.scope"
    place = location_from_cgroup(f"0::{path}/docker/{inner}\n")
    host = HostProcess(start_ticks=1, name="x", user="root", location=place, problem=None)
    of = owner_of(host, PodTable.of({uid: pod}, up=True))
    assert (of.pod, of.container) == ("a", "dind")
    ledger = Ledger()
    for now in (0.0, 3600.0):
        use = seen([runs(of)], [holds("a", "dind")])
        ledger.enter({GPU.id: use}, [], now)
    assert ledger.idle_seconds(use, key("a", "dind"), 3600) == 0


SHARED = (Absence("power_watts", AbsenceReason.SHARED), Absence("energy_joules", AbsenceReason.SHARED))
X, Y = (UsageKey(die, "", "ns", pod, "main") for die, pod in (("amd:0", "x"), ("amd:1", "y")))


def dies(*, first: str | None, second: str | None) -> tuple[Device, Device]:
    """Of a module: the power of both is shown at the first."""
    return (
        Device(vendor=Vendor("amd"), id="amd:0", serial=first, power_watts=500.0),
        Device(vendor=Vendor("amd"), id="amd:1", serial=second, absent=SHARED),
    )


def a_minute(devices: tuple[Device, ...], x: float, y: float) -> Ledger:
    ledger = Ledger()
    running = [
        Process(pid=1, device="amd:0", owner=owner("x"), utilization_ratio=x),
        Process(pid=2, device="amd:1", owner=owner("y"), utilization_ratio=y),
    ]
    for now in range(0, 70, 10):
        found = uses([replace(device, read_at=float(now)) for device in devices], running, [])
        ledger.enter(found, [("ns", "x"), ("ns", "y")], now)
    return ledger


def balance(ledger: Ledger) -> list[float | None]:
    of_pods = [ledger.energy_joules(X), ledger.energy_joules(Y)]
    return [*of_pods, ledger.idle_energy_joules("amd:0"), ledger.idle_energy_joules("amd:1")]


def test_energy_of_a_module_is_divided_equally_among_its_dies() -> None:
    module = dies(first="S1", second="S1")
    assert balance(a_minute(module, 1.0, 1.0)) == pytest.approx([15_000, 15_000, 0, 0])
    assert balance(a_minute(module, 0.0, 1.0)) == pytest.approx([0, 15_000, 15_000, 0])
    assert balance(a_minute(module[::-1], 0.5, 0.0)) == pytest.approx([7500, 0, 7500, 15_000])


def test_chips_of_a_board_are_matched_by_board_id_first() -> None:
    one, other = dies(first="S1", second="S1")
    of_one_board = replace(one, board_id=3, serial="S1"), replace(other, board_id=3, serial="S2")
    assert balance(a_minute(of_one_board, 1.0, 1.0)) == pytest.approx([15_000, 15_000, 0, 0])
    of_two = replace(one, board_id=3), replace(other, board_id=4)
    assert balance(a_minute(of_two, 1.0, 1.0)) == [pytest.approx(30_000), None, 0.0, None]


@pytest.mark.parametrize(("first", "second"), [(None, None), ("S1", "S2"), ("S1", None)])
def test_dies_without_a_common_board_get_no_energy(first: str | None, second: str | None) -> None:
    assert balance(a_minute(dies(first=first, second=second), 1.0, 1.0)) == [
        pytest.approx(30_000),
        None,
        0.0,
        None,
    ]


def test_a_stale_die_keeps_its_share() -> None:
    one, other = dies(first="S1", second="S1")
    ledger = Ledger()
    for now, stale in ((0, False), (10, False), (20, True), (30, True), (40, False)):
        silent = Device(vendor=Vendor("amd"), id="amd:1", serial="S1", stale=True)
        second = silent if stale else replace(other, read_at=float(now))
        running = [
            Process(pid=1, device="amd:0", owner=owner("x"), utilization_ratio=1.0),
            Process(pid=2, device="amd:1", owner=owner("y"), utilization_ratio=1.0),
        ]
        ledger.enter(uses([replace(one, read_at=float(now)), second], running, []), [], now)
    x, y, idle_x, idle_y = balance(ledger)
    assert [x, idle_x] == pytest.approx([10_000, 0.0])
    assert y is not None
    assert idle_y is not None
    assert y + idle_y == pytest.approx(10_000)


def test_energy_of_a_gap_is_charged_to_the_users_of_that_time() -> None:
    """The die that shows the module's power is silent for an hour; on the other, a pod runs in its last ten
    seconds."""
    one, other = dies(first="S1", second="S1")
    silent = Device(vendor=Vendor("amd"), id="amd:0", serial="S1", stale=True)
    ledger = Ledger()
    for now in range(0, 3610, 10):
        counter = replace(one, power_watts=100.0, energy_joules=100.0 * now, read_at=float(now))
        shown = silent if 10 < now < 3600 else counter
        late = Process(pid=2, device="amd:1", owner=owner("y"), utilization_ratio=1.0)
        running = [late] if now == 3600 else []
        ledger.enter(uses([shown, replace(other, read_at=float(now))], running, []), [], now)
    _, y, *idle = balance(ledger)
    assert y == pytest.approx(50.0 * 10, rel=0.01)
    assert sum(joules or 0.0 for joules in idle) + (y or 0.0) == pytest.approx(100.0 * 3600)


def test_power_reported_by_another_die_counts_once() -> None:
    one, other = dies(first="S1", second="S1")
    ledger = Ledger()
    for now in range(0, 100, 10):
        counter = 500.0 * now
        shown, dark = (one, other) if now < 40 or now > 60 else (other, one)
        module = (
            replace(shown, power_watts=500.0, energy_joules=counter, absent=(), read_at=float(now)),
            replace(dark, power_watts=None, energy_joules=None, absent=SHARED, read_at=float(now)),
        )
        ledger.enter(uses(module, [], []), [], now)
    assert sum(joules or 0.0 for joules in balance(ledger)) == pytest.approx(45_000)
