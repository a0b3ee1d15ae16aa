"""Sort, filter, choice, tree: what is made of a view before it is drawn."""

from dataclasses import replace
from typing import Any

import pytest
from tests.top.views import GIB, NOW, device, node, process, view

from accelscope.cli.top import page
from accelscope.model import AgentState, Device, HealthState, OwnerKind, PodUsage, Snapshot, Vendor
from accelscope.top.sources import fleet, source
from accelscope.top.view import devices, processes
from accelscope.top.view.frame import Choices, alert_lines, alerts, api_sort, header, panes
from accelscope.top.view.model import (
    ALL,
    READINGS_LIMIT,
    DeviceView,
    History,
    NodeSums,
    Overview,
    PartitionView,
    Sums,
    View,
    ViewKind,
    sums_of,
)
from accelscope.top.view.overview import CLUSTER_COLUMNS, NODE_COLUMNS, cluster_row, node_row
from accelscope.top.view.processes import Tree
from accelscope.top.view.table import (
    RenderContext,
    Sort,
    Span,
    Tone,
    conditions,
    place,
    plain,
    row_line,
    title_line,
)
from accelscope.top.view.text import ASCII

CONTEXT = RenderContext(ASCII, NOW)
CHAT = {"namespace": "inference", "pod": "chat-1", "container": "vllm", "owner_kind": OwnerKind.POD}
TRAIN = {"namespace": "research", "pod": "train-0", "container": "torch", "owner_kind": OwnerKind.POD}

TWO = view(
    node(
        [device(0, utilization_ratio=0.9, pods=("inference/chat-1", "research/train-0")), device(1)],
        [
            process(10, 0, name="vllm", user="alice", memory=4 * GIB, **CHAT),
            process(11, 0, 1, name="torchrun", user="bob", memory=6 * GIB, cpu_ratio=1.5, **TRAIN),
            process(
                12, 1, name="gromacs", user="carol", memory=None, owner_kind=OwnerKind.SLURM_JOB, owner="77"
            ),
        ],
    )
)


def pids(choices: Choices, shown: View = TWO) -> list[int | None]:
    return [row.pid for row in panes(shown, choices, CONTEXT)[1].rows]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        (Sort("memory"), [11, 10, 12]),
        (Sort("memory", reverse=True), [10, 11, 12]),
        (Sort("cpu"), [11, 10, 12]),
        (Sort("pid"), [10, 11, 12]),
        (Sort("pid", reverse=True), [12, 11, 10]),
        (Sort("user"), [10, 11, 12]),
        (Sort("command"), [12, 11, 10]),
        (Sort("owner"), [10, 12, 11]),
    ],
)
def test_what_is_absent_comes_last_in_either_order(sort: Sort, expected: list[int]) -> None:
    assert pids(Choices(sorts={"processes": sort})) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ALICE", [10]),
        ("chat", [10]),
        ("research", [11]),
        ("torch bob", [11]),
        ("torch alice", []),
        ("job 77", [12]),
        ("12", [12]),
        ("", [11, 10, 12]),
    ],
)
def test_filter_looks_at_whose_a_process_is(text: str, expected: list[int]) -> None:
    assert pids(Choices(text=text)) == expected


def test_filter_leaves_the_devices_on_which_something_fits() -> None:
    shown = panes(TWO, Choices(text="alice"), CONTEXT)[0]
    assert [row.device.index for row in shown.rows] == [0]
    assert shown.title == "devices 1 of 2"


def test_processes_follow_the_chosen_devices() -> None:
    [first, second] = TWO.nodes[0].devices
    assert pids(Choices(marked=frozenset({first.key}))) == [11, 10]
    assert pids(Choices(marked=frozenset({second.key}))) == [11, 12]
    assert pids(Choices(marked=frozenset({first.key, second.key}))) == [11, 10, 12]


def test_tree_by_pod_has_sums_at_every_level_and_folds() -> None:
    rows = panes(TWO, Choices(tree=Tree.POD), CONTEXT)[1].rows
    told = [(row.depth, row.label, row.pid, row.memory_bytes) for row in rows]
    assert told == [
        (0, "research/train-0", None, 12 * GIB),
        (1, "torch", None, 12 * GIB),
        (2, "torchrun", 11, 12 * GIB),
        (0, "inference/chat-1", None, 4 * GIB),
        (1, "vllm", None, 4 * GIB),
        (2, "vllm", 10, 4 * GIB),
        (0, "job 77", None, None),
        (1, "gromacs", 12, None),
    ]
    folded = panes(TWO, Choices(tree=Tree.POD, folded=frozenset({rows[0].key})), CONTEXT)[1].rows
    assert [row.label for row in folded][:2] == ["research/train-0", "inference/chat-1"]
    assert folded[0].utilization_ratio == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("types", "told"),
    [
        (("compute", None), "compute"),
        ((None, None), None),
        (("compute", "graphics"), "both"),
        (("both", None), "both"),
    ],
)
def test_group_is_of_the_types_that_are_told(types: tuple[str | None, ...], told: str | None) -> None:
    found = [process(pid, 0, **CHAT) for pid in range(len(types))]
    typed = [
        replace(each, uses=(replace(each.uses[0], type=kind),))
        for each, kind in zip(found, types, strict=True)
    ]
    shown = view(node([device(0)], typed))
    pod, container, *_ = panes(shown, Choices(tree=Tree.POD), CONTEXT)[1].rows
    assert (pod.type, container.type) == (told, told)


def test_tree_by_device_shows_a_process_on_each_with_what_it_does_there() -> None:
    rows = panes(TWO, Choices(tree=Tree.DEVICE, sorts={"processes": Sort("pid")}), CONTEXT)[1].rows
    told = [(row.depth, row.pid, row.devices, row.memory_bytes) for row in rows]
    assert told == [
        (0, None, "0", 10 * GIB),
        (1, 10, "0", 4 * GIB),
        (1, 11, "0", 6 * GIB),
        (0, None, "1", 6 * GIB),
        (1, 11, "1", 6 * GIB),
        (1, 12, "1", None),
    ]
    assert len({row.key for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["ok"]),
        ({"health": HealthState.UNKNOWN}, ["?"]),
        ({"health": HealthState.LOST, "stale": True}, ["LOST"]),
        ({"health": HealthState.UNKNOWN, "stale": True}, ["STALE"]),
        ({"health": HealthState.WARNING, "temperature_celsius": 91.0}, ["HOT", "WARN"]),
        ({"temperature_celsius": 84.0, "temperature_slowdown_celsius": 89.0}, ["HOT"]),
        ({"temperature_celsius": 83.0, "temperature_slowdown_celsius": 89.0}, ["ok"]),
        ({"temperature_celsius": 95.0, "temperature_slowdown_celsius": 110.0}, ["ok"]),
        ({"temperature_celsius": 90.0}, ["HOT"]),
        ({"temperature_celsius": 89.0, "temperature_slowdown_celsius": 0.0}, ["ok"]),
        ({"memory_used_bytes": 95, "memory_total_bytes": 100}, ["FULL"]),
        ({"memory_used_bytes": 95, "memory_total_bytes": 0}, ["ok"]),
        ({"throttles": ("gpu_idle",)}, ["ok"]),
        ({"throttles": ("gpu_idle", "sw_power_cap")}, ["SLOW"]),
        ({"idle_seconds": 3600.0, "idle_ratio": 1.0}, ["IDLE"]),
        ({"idle_seconds": 0.0, "idle_ratio": 0.25}, ["IDLE"]),
        ({"idle_seconds": 1800.0}, ["ok"]),
        ({"unusual": "power"}, ["ANOMALY"]),
    ],
)
def test_what_is_sick_hot_full_or_idle_has_a_word(given: dict[str, Any], words: list[str]) -> None:
    assert [condition.word for condition in conditions(device(0, **given))] == words


def test_a_shared_card_is_idle_by_the_shares_of_those_who_do_nothing() -> None:
    card, other = (Device(vendor=Vendor("nvidia"), id=f"nvidia:GPU-{index}", index=index) for index in (0, 1))
    held = [(card, "works", 0.0), (card, "sleeps", 7200.0), (card, "dreams", 3600.0), (other, "alone", 9e3)]
    usages = tuple(
        PodUsage(device=on.id, namespace="ns", pod=pod, container="c", allocated=1, idle_seconds=seconds)
        for on, pod, seconds in held
    )
    agent = AgentState(version="1", started_at=1.0)
    taken = Snapshot(node="n", taken_at=NOW, agent=agent, devices=(card, other), pod_usages=usages)
    shown = source.node_view(taken, key="n", source="this node", age_seconds=0.0)
    assert [d.idle_ratio for d in shown.devices] == pytest.approx([2 / 3, 1.0])
    text = page(view(shown), Choices(), CONTEXT, 200)
    assert "1.7 idle" in text
    assert "IDLE 67%" in text
    assert "IDLE 2h30m" in text


def test_alerts_name_the_worst_first_and_one_line_a_device() -> None:
    hot = device(
        1,
        health=HealthState.WARNING,
        health_reason="XID 94",
        health_action="Restart the application",
        temperature_celsius=91.0,
        temperature_slowdown_celsius=89.0,
    )
    lost = device(
        3,
        health=HealthState.LOST,
        health_reason="lost: not_shown: off the bus",
        stale=True,
        read_at=NOW - 252,
    )
    shown = view(node([device(0), hot, lost], notes=("pods: unreachable",)))
    assert [alert.text for alert in alerts(shown, CONTEXT)] == [
        "device 3 H100 80GB HBM3: LOST for 4m12s (not shown: off the bus)",
        "device 1 H100 80GB HBM3: HOT 91C, slowdown limit 89C; WARN (XID 94): Restart the application",
        "attribution source pods: unreachable",
    ]


def test_node_that_does_not_answer_keeps_its_rows_and_says_since_when() -> None:
    silent = node([device(0, node="a")], name="a", source="http://a:9400", error="timeout", age_seconds=75.0)
    never = node(name="b", source="http://b:9400", error="refused", age_seconds=None, read=False)
    upper, _ = panes(view(silent, never), Choices(), CONTEXT)
    told = [plain(entry.heading) for entry in upper.entries if entry.heading is not None]
    assert told == [
        "a  http://a:9400  1 devices, - used  NO RESPONSE, last read 1m15s ago: timeout",
        "b  http://b:9400  NO RESPONSE, never read: refused",
    ]
    assert len(upper.rows) == 1


@pytest.mark.parametrize(
    ("not_read", "told"), [(1, "49 nodes (1 not read)  280 devices"), (0, "49 nodes  280 devices")]
)
def test_nodes_that_were_not_read_are_counted_and_told(not_read: int, told: str) -> None:
    sums = Sums(nodes=49, nodes_not_read=not_read, devices=280)
    shown = view(kind=ViewKind.FLEET, overview=Overview(sums=sums, nodes_total=49))
    assert told in plain(header(shown, [], CONTEXT, 120, "")[1])


def test_the_hottest_of_many_is_not_judged_without_the_limit_of_its_device() -> None:
    sums = Sums(devices=8, temperature_max_celsius=95.0)  # fine for a device that slows down at 110
    there = NodeSums(key="oslo/n1", cluster="oslo", node="n1", state="fresh", sums=sums)
    [heat] = [column for column in NODE_COLUMNS if column.name == "temperature_max_celsius"]
    assert heat.span(node_row(there), CONTEXT) == Span("95C", Tone.PLAIN)


def test_what_a_fleet_does_not_list_is_counted_all_the_same() -> None:
    health = {
        "clusters": [{"id": "rome", "reachable": False, "text": "no route"}],
        "devices": [
            {"cluster": "oslo", "node": "n1", "id": "amd:a", "vendor": "amd", "index": 1, "health": "lost"}
        ],
        "devices_by_health": {"ok": 90, "unknown": 5, "lost": 1, "warning": 700},
        "nodes": [],
        "nodes_by_state": {"fresh": 80, "stale": 20},
    }
    summary: dict[str, Any] = {"total": {}, "groups": []}
    found = fleet.overview(summary, {"items": []}, health, {"items": []}, 0)
    shown = view(kind=ViewKind.FLEET, overview=found)
    told = alerts(shown, CONTEXT)
    assert [alert.text for alert in told] == [
        "rome: unreachable: no route",
        "oslo/n1 amd 1: LOST",
        "720 more; see /api/v1/health of the fleet",
    ]
    assert "722 problems" in plain(header(shown, told, CONTEXT, 120, "")[1])
    assert plain(alert_lines(told, CONTEXT, 120, 2)[-1]) == "  and 721 more: press ! to list them"
    assert alert_lines(told, CONTEXT, 120, 0) == [], "a terminal of two lines has no room for them"


def test_counts_of_a_cluster_that_was_never_reached_are_not_shown_as_zero() -> None:
    clusters = {
        "items": [
            {"id": "oslo", "reachable": True, "nodes": 0, "devices": 0},
            {"id": "rome", "reachable": False, "nodes": None, "devices": None},
        ]
    }
    health: dict[str, Any] = {"clusters": [], "devices": [], "nodes": []}
    found = fleet.overview({"total": {}, "groups": []}, clusters, health, {"items": []}, 0)
    rows = [cluster_row(cluster, None) for cluster in found.clusters]
    counts = [column for column in CLUSTER_COLUMNS if column.name in ("nodes", "devices", "processes")]
    placed = place(counts, rows, 40, CONTEXT)
    assert [plain(row_line(placed, row, CONTEXT)).split() for row in rows] == [
        ["0", "0", "0"],
        [ASCII.absent] * 3,
    ]


def test_used_memory_is_set_beside_the_total_of_the_same_devices_only() -> None:
    same = {"memory_used_bytes": 20 * GIB, "memory_total_bytes": 80 * GIB, "memory_used_ratio": 0.25}
    other = {"memory_used_bytes": 78 * GIB, "memory_total_bytes": 160 * GIB, "memory_used_ratio": 0.975}
    summary: dict[str, Any] = {
        "total": other,
        "groups": [{"cluster": "oslo", **same}, {"cluster": "rome", **other}],
    }
    clusters = {"items": [{"id": "oslo"}, {"id": "rome"}]}
    health: dict[str, Any] = {"clusters": [], "devices": [], "nodes": []}
    found = fleet.overview(summary, clusters, health, {"items": []}, 0)
    rows = [cluster_row(cluster, None) for cluster in found.clusters]
    [memory] = [column for column in CLUSTER_COLUMNS if column.name == "memory_used_bytes"]
    assert memory.text is not None
    assert [memory.text(row, CONTEXT) for row in rows] == [
        Span("20.0/80.0G", Tone.PLAIN),
        Span("78.0G/-", Tone.WARN),  # nearly full, of devices that report both
    ]
    assert "memory 78.0G/- " in plain(
        header(view(kind=ViewKind.FLEET, overview=found), [], CONTEXT, 120, "")[1]
    )


def drawn(shown: DeviceView, width: int) -> tuple[str, str]:
    rows = devices.rows_of(node([shown]), [shown], None, frozenset())
    placed = place(devices.COLUMNS, rows, width, CONTEXT)
    return plain(title_line(placed, CONTEXT, None)), plain(row_line(placed, rows[0], CONTEXT))


def test_columns_give_way_by_priority_and_lines_never_exceed_the_width() -> None:
    full = device(
        0,
        utilization_ratio=0.5,
        memory_used_bytes=40 * GIB,
        memory_total_bytes=80 * GIB,
        power_watts=300.0,
        power_limit_watts=700.0,
        temperature_celsius=50.0,
        clock_hertz=1.98e9,
        fan_ratio=0.3,
        pods=("research/train-0",),
    )
    seen = []
    for width in range(12, 200):
        title, line = drawn(full, width)
        assert len(title) <= width
        assert len(line) <= width
        seen.append(set(title.split()))
    assert seen[0] >= {"#", "state"}
    assert seen[80 - 12] >= {"#", "model", "state", "use", "used/total", "power", "temp", "pods"}
    assert "fan" not in seen[80 - 12]
    assert seen[-1] >= {"fan", "clock", "memory", "pods"}


def test_columns_that_nobody_fills_are_left_out() -> None:
    title, line = drawn(device(0), 200)
    assert not {"fan", "clock", "pods"} & set(title.split())
    assert "0%" not in line


def test_partitions_stand_under_their_device_and_can_be_chosen() -> None:
    cut = device(0)
    parts = tuple(
        PartitionView(key=f"{cut.key} {i}", id=str(i), label="3g.40gb", index=i, utilization_ratio=0.5)
        for i in range(2)
    )
    other = device(1)
    shown = view(node([replace(cut, partitions=parts), other]))
    rows = panes(shown, Choices(sorts={"devices": Sort("device", reverse=True)}), CONTEXT)[0].rows
    assert [(row.device.index, row.partition and row.partition.index) for row in rows] == [
        (1, None),
        (0, None),
        (0, 0),
        (0, 1),
    ]


def test_sums_leave_out_what_is_absent() -> None:
    sums = sums_of(view(node([device(0, utilization_ratio=0.5, memory_used_bytes=5), device(1)])))
    assert (sums.utilization_ratio, sums.power_watts, sums.memory_used_bytes) == (0.5, None, None)
    assert sums_of(view(node())).utilization_ratio is None


def test_history_has_gaps_is_bounded_and_forgets_what_is_gone() -> None:
    history = History()
    [first, second] = TWO.nodes[0].devices
    history.note(TWO)
    assert history.of(first.key) == [0.9]
    assert history.of(second.key) == []
    for _ in range(2 * READINGS_LIMIT):
        history.note(view(node([replace(second, utilization_ratio=0.1)])))
    assert history.of(first.key) == []
    assert len(history.of(second.key)) == READINGS_LIMIT
    assert history.of(ALL)[-1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("sort", "spelled"),
    [
        (None, ""),
        (Sort("power_watts"), "-power_watts"),
        (Sort("power_watts", reverse=True), "power_watts"),
        (Sort("node"), "node"),
    ],
)
def test_a_fleet_sorts_by_its_own_names(sort: Sort | None, spelled: str) -> None:
    assert api_sort(sort) == spelled


def test_processes_say_whose_they_are() -> None:
    told = [processes.owner_text(each) for each in TWO.nodes[0].processes]
    assert told == ["inference/chat-1/vllm", "research/train-0/torch", "job 77"]
    unnamed = process(1, 0, owner_kind=OwnerKind.POD, owner="c60bfbfc-131e")
    assert processes.owner_text(unnamed) == "pod c60bfbfc-131e"
    container = process(1, 0, owner_kind=OwnerKind.CONTAINER, owner="e4196793e4e9abcdef")
    assert processes.owner_text(container) == "container e4196793e4e9"
