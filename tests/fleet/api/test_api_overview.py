"""Sums, namespaces, idle pods, unhealthy devices and events."""

from typing import Any
from urllib.parse import urlencode

import pytest
from tests.fleet.api.serving import GIB, nvidia, report, serving, snapshot, usage, view

from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.model import Device, Health, HealthState, PodUsage


async def test_a_summary_contains_the_total_and_the_groups() -> None:
    async with serving() as client:
        whole = await client.get("/api/v1/summary")
        assert (whole["total"]["devices"], whole["groups"], whole["groups_total"]) == (6, [], 0)
        by_vendor = await client.get("/api/v1/summary?group_by=vendor")
        counted = {group["vendor"]: group["devices"] for group in by_vendor["groups"]}
        assert counted == {"nvidia": 4, "amd": 1, "ascend": 1}
        both = await client.get("/api/v1/summary?group_by=cluster,vendor&sort=-devices&limit=1")
        assert (both["groups"][0]["cluster"], both["groups"][0]["vendor"]) == ("berlin", "nvidia")
        assert both["groups_total"] == 4
        unhealthy = await client.get("/api/v1/summary?health=critical")
        assert unhealthy["total"]["devices"] == 1
        mine = await client.get("/api/v1/summary?namespace=team-b")
        assert mine["total"]["devices"] == 1
        await client.get("/api/v1/summary?group_by=colour", 400)


@pytest.mark.parametrize(
    ("path", "items"),
    [
        ("/api/v1/summary?group_by=cluster,vendor&sort=-devices", "groups"),
        ("/api/v1/namespaces?sort=-pods", "items"),
        ("/api/v1/idle?min_seconds=1", "items"),
    ],
)
async def test_computed_lists_are_paged(path: str, items: str) -> None:
    async with serving() as client:
        whole = (await client.get(path))[items]
        assert len(whole) > 1
        put_together: list[Any] = []
        query = {"limit": "1"}
        while True:
            page = await client.get(f"{path}&{urlencode(query)}")
            put_together += page[items]
            if page["next"] is None:
                break
            query["cursor"] = page["next"]
        assert [_steady(item) for item in put_together] == [_steady(item) for item in whole]
        await client.get(f"{path}&cursor=AAAA", 400)


def _steady(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "age_seconds"}


async def test_namespaces_contain_the_devices_of_their_pods() -> None:
    async with serving() as client:
        page = await client.get("/api/v1/namespaces")
        usages = {item["namespace"]: item["devices_allocated"] for item in page["items"]}
        assert usages == {"team-a": 3, "team-b": 1}
        assert (await client.get("/api/v1/namespaces?q=TEAM-B"))["total"] == 1


async def test_idle_pods_are_ordered_by_device_hours() -> None:
    async with serving() as client:
        idle = await client.get("/api/v1/idle")
        assert [(pod["pod"], pod["device_hours"]) for pod in idle["items"]] == [
            ("sleepy-0", 10.0),
            ("sleepy-0", 5.0),
            ("notebook-0", 2.0),
        ]
        assert idle["device_hours"] == 17.0
        assert idle["items"][2]["memory_used_bytes"] == GIB
        assert (await client.get("/api/v1/idle?min_seconds=30000"))["total"] == 1
        assert (await client.get("/api/v1/idle?namespace=team-b"))["total"] == 1
        assert (await client.get("/api/v1/idle?min_seconds=1000000"))["items"] == []


@pytest.mark.parametrize(
    ("shares", "devices", "hours"),
    [
        ((None,), 1.0, 2.0),
        ((None, None), 1.0, 2.0),
        ((0.25,), 0.25, 0.5),
        ((0.25, 0.25), 0.5, 1.0),
        ((0.75, 0.75), 1.0, 2.0),
        ((0.0,), 0.0, 0.0),
    ],
)
async def test_an_idle_device_shared_by_containers_of_a_pod_counts_once(
    shares: tuple[float | None, ...], devices: float, hours: float
) -> None:
    usages = tuple(
        usage("nvidia:GPU-0", "p", container=f"c{place}", idle_seconds=7200.0, device_share_ratio=share)
        for place, share in enumerate(shares)
    )
    async with serving(_berlin((nvidia(0),), usages)) as client:
        [pod] = (await client.get("/api/v1/idle"))["items"]
        assert (pod["devices"], pod["devices_idle"], pod["device_hours"]) == (1, devices, hours)


def _berlin(devices: tuple[Device, ...], usages: tuple[PodUsage, ...]) -> FleetStore:
    store = FleetStore()
    store.declare([view("berlin")])
    store.take("berlin", report(snapshot("alpha", devices, pod_usages=usages)))
    return store


async def test_summary_and_idle_list_agree_on_shared_devices() -> None:
    """Three pods share a device, and one of them is busy. A fourth has a device of its own, and is idle."""
    usages = (
        usage("nvidia:GPU-0", "works", idle_seconds=0.0),
        usage("nvidia:GPU-0", "sleeps", idle_seconds=7200.0),
        usage("nvidia:GPU-0", "dreams", namespace="team-b", idle_seconds=3600.0),
        usage("nvidia:GPU-1", "alone", idle_seconds=10_800.0),
        usage("nvidia:GPU-1", "only uses it", allocated=0, idle_seconds=None),
    )
    async with serving(_berlin((nvidia(0), nvidia(1)), usages)) as client:
        idle = await client.get("/api/v1/idle")
        assert [(pod["pod"], pod["devices_idle"], pod["device_hours"]) for pod in idle["items"]] == [
            ("alone", 1.0, 3.0),
            ("sleeps", 0.333, 0.667),
            ("dreams", 0.333, 0.333),
        ]
        assert (idle["devices_idle"], idle["device_hours"]) == (1.667, 4.0)
        summary = await client.get("/api/v1/summary?group_by=namespace")
        assert summary["total"]["devices_idle"] == 1.667
        by_name = {group["namespace"]: group["devices_idle"] for group in summary["groups"]}
        assert by_name == {"team-a": 1.333, "team-b": 0.333}
        some = await client.get("/api/v1/summary?namespace=team-b")
        assert some["total"]["devices_idle"] == 0.333


async def test_devices_idle_for_less_than_an_hour_do_not_count() -> None:
    usages = (usage("nvidia:GPU-0", "p", idle_seconds=3599.0),)
    async with serving(_berlin((nvidia(0),), usages)) as client:
        assert (await client.get("/api/v1/idle"))["items"] == []
        assert (await client.get("/api/v1/summary"))["total"]["devices_idle"] == 0
        assert (await client.get("/api/v1/idle?min_seconds=1800"))["devices_idle"] == 1


async def test_health_lists_problems_worst_first() -> None:
    async with serving() as client:
        lost = nvidia(70, health=Health(HealthState.LOST, "fell off the bus"))
        client.store.take("berlin", report(snapshot("zeta", (lost,))))
        health = await client.get("/api/v1/health")
        assert health["ok"] is False
        assert [device["health"] for device in health["devices"]] == ["lost", "critical"]
        assert health["devices_by_health"]["ok"] == 5
        assert [(node["node"], node["state"]) for node in health["nodes"]] == [
            ("orsay", "incompatible"),
            ("fjord", "stale"),
        ]
        assert [cluster["id"] for cluster in health["clusters"]] == ["oslo", "rome"]
        paris = await client.get("/api/v1/health?cluster=paris&limit=1")
        assert paris["devices"] == []
        assert [node["node"] for node in paris["nodes"]] == ["orsay"]
        assert paris["clusters"] == []


async def test_unusual_devices_and_pods_are_listed() -> None:
    async with serving() as client:
        client.store.set_unusual("device", {("berlin", "alpha", "nvidia:GPU-0"): "hotter than usual"})
        unusual = await client.get("/api/v1/unusual")
        assert [device["unusual"] for device in unusual["devices"]] == ["hotter than usual"]
        assert (unusual["devices_total"], unusual["pods_total"]) == (1, 0)


async def test_following_events_misses_none() -> None:
    async with serving() as client:
        begin = await client.get("/api/v1/events")
        unhealthy = nvidia(0, health=Health(HealthState.CRITICAL, "on fire"))
        client.store.take("berlin", report(snapshot("alpha", (unhealthy, nvidia(1)))))
        client.store.take("berlin", report(snapshot("alpha", (nvidia(0), nvidia(1)))))
        later = await client.get(f"/api/v1/events?after={begin['next']}&limit=1")
        assert [event["device"] for event in later["items"]] == ["nvidia:GPU-0"]
        assert later["next"] == later["items"][-1]["id"]
        rest = await client.get(f"/api/v1/events?after={later['next']}")
        assert len(rest["items"]) == 1
        none = await client.get(f"/api/v1/events?after={rest['next']}")
        assert none["items"] == []
        before_restart = await client.get("/api/v1/events?after=1000000")
        assert len(before_restart["items"]) == before_restart["last"]
        worse = await client.get("/api/v1/events?severity=critical&cluster=berlin")
        assert {event["severity"] for event in worse["items"]} == {"critical"}
        await client.get("/api/v1/events?kind=colour", 400)


@pytest.mark.parametrize("sort", ["-devices", "devices"])
async def test_a_group_that_moves_between_two_pages_neither_hides_nor_repeats_others(sort: str) -> None:
    """The last group of the first page becomes the largest or smallest; the next page continues after it."""
    store = FleetStore()
    store.declare([view("c")])

    def has(node: str, *devices: int) -> None:
        store.take("c", report(snapshot(node, tuple(nvidia(number) for number in devices))))

    for node, first, count in (("a", 0, 2), ("b", 10, 3), ("d", 20, 4), ("e", 30, 5)):
        has(node, *range(first, first + count))
    async with serving(store) as client:
        path = f"/api/v1/summary?group_by=node&sort={sort}"
        before = [group["node"] for group in (await client.get(path))["groups"]]
        page = await client.get(f"{path}&limit=2")
        has(before[1], *(range(100, 109) if sort == "-devices" else range(100, 101)))
        rest = await client.get(f"{path}&cursor={page['next']}")
        assert [group["node"] for group in rest["groups"]] == before[2:]
        page = await client.get(f"{path}&limit=2")
        has(page["groups"][1]["node"], *range(100, 120))
        rest = await client.get(f"{path}&cursor={page['next']}")
        there = {group["node"] for group in [*page["groups"], *rest["groups"]]}
        assert there == {"a", "b", "d", "e"}


async def test_nodes_of_one_name_in_two_clusters_are_two_groups() -> None:
    store = FleetStore()
    store.declare([view("c"), view("d")])
    store.take("c", report(snapshot("gpu-1", (nvidia(0),))))
    store.take("d", report(snapshot("gpu-1", (nvidia(1), nvidia(2)))))
    async with serving(store) as client:
        groups = (await client.get("/api/v1/summary?group_by=vendor,node"))["groups"]
        shown = [(group["cluster"], group["node"], group["devices"]) for group in groups]
        assert shown == [("c", "gpu-1", 1), ("d", "gpu-1", 2)]


async def test_sums_count_simulated_devices() -> None:
    store = FleetStore()
    store.declare([view("made-up", simulated=True), view("real")])
    store.take(
        "made-up",
        report(snapshot("n", (nvidia(0), nvidia(1)), pod_usages=(usage("nvidia:GPU-0", "train-0"),))),
    )
    store.take("real", report(snapshot("n", (nvidia(2),), pod_usages=(usage("nvidia:GPU-2", "train-1"),))))
    async with serving(store) as client:
        summary = await client.get("/api/v1/summary?group_by=cluster")
        assert summary["total"]["devices_simulated"] == 2
        by_cluster = {group["cluster"]: group["devices_simulated"] for group in summary["groups"]}
        assert by_cluster == {"made-up": 2, "real": 0}
        spaces = (await client.get("/api/v1/namespaces"))["items"]
        assert {item["cluster"]: item["devices_simulated"] for item in spaces} == {
            "made-up": 1,
            "real": 0,
        }
        columns = await client.get("/api/v1/devices/columns")
        assert sorted(columns["fields"]["simulated"]["values"]) == [False, True, True]
