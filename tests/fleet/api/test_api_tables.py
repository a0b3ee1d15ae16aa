"""Rows of nodes, devices, pods and processes, over HTTP."""

from typing import Any
from urllib.parse import urlencode

import pytest
from tests.fleet.api.serving import nvidia, report, serving, snapshot


def ids(page: Any) -> list[str]:
    return [item["id"] for item in page["items"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("vendor=ascend", ["ascend:A1"]),
        ("vendor=ascend,amd", ["amd:0001", "ascend:A1"]),
        ("vendor=ascend&vendor=amd", ["amd:0001", "ascend:A1"]),
        ("health=warning,critical", ["nvidia:GPU-7"]),
        ("temperature_celsius_min=70&vendor=nvidia", ["nvidia:GPU-1", "nvidia:GPU-7"]),
        ("temperature_celsius_max=40", ["ascend:A1"]),
        ("temperature_celsius_min=69.5&temperature_celsius_max=70.5", ["nvidia:GPU-1"]),
        ("index=0&cluster=berlin", ["nvidia:GPU-0", "amd:0001"]),
        ("simulated=true", ["ascend:A1"]),
        ("absent=utilization_ratio", ["nvidia:GPU-1", "amd:0001", "ascend:A1"]),
        ("absent=utilization_ratio&temperature_celsius_min=70", ["nvidia:GPU-1"]),
        ("present=health_reason", ["nvidia:GPU-7"]),
        ("namespaces=team-b", ["amd:0001"]),
        ("namespaces=team-a,team-b&node=beta", ["nvidia:GPU-7", "amd:0001"]),
        ("state=stale", ["nvidia:GPU-3"]),
        ("age_seconds_min=200", ["nvidia:GPU-3"]),
        ("q=mi300", ["amd:0001"]),
        ("q=nothing-like-it", []),
        ("cluster=nowhere", []),
        ("model=AMD%5C,%20Inc.%20[Instinct]%20MI300X", ["amd:0001"]),
    ],
)
async def test_devices_are_filtered_by_every_field_of_a_row(query: str, expected: list[str]) -> None:
    async with serving() as client:
        page = await client.get(f"/api/v1/devices?{query}")
        assert sorted(ids(page)) == sorted(expected)
        assert page["total"] == len(expected)


async def test_devices_are_sorted_by_the_margin_to_their_own_limit() -> None:
    hotter = [
        nvidia(n, temperature_celsius=92.0, temperature_slowdown_celsius=110.0) for n in range(100, 150)
    ]
    near = nvidia(150, temperature_celsius=84.0, temperature_slowdown_celsius=87.0)
    async with serving() as client:
        client.store.take("berlin", report(snapshot("gamma", (*hotter, near))))
        page = await client.get("/api/v1/devices?temperature_margin_celsius_max=5")
        assert (ids(page), page["total"]) == (["nvidia:GPU-150"], 1)
        [row] = page["items"]
        assert row["temperature_margin_celsius"] == 3.0
        absent = await client.get("/api/v1/devices?absent=temperature_margin_celsius&node=gamma")
        assert absent["total"] == 0


async def test_rows_are_sorted_both_ways_with_null_last() -> None:
    async with serving() as client:
        up = ids(await client.get("/api/v1/devices?sort=temperature_celsius"))
        down = ids(await client.get("/api/v1/devices?sort=-temperature_celsius"))
        assert up[0] == "ascend:A1"
        assert down[0] == "nvidia:GPU-7"
        assert up[-1] == down[-1] == "amd:0001"
        by_age = ids(await client.get("/api/v1/devices?sort=-age_seconds"))
        assert by_age[0] == "nvidia:GPU-3"


@pytest.mark.parametrize("name", ["nodes", "devices", "pods", "processes"])
async def test_all_pages_together_are_the_whole_list(name: str) -> None:
    async with serving() as client:
        whole = (await client.get(f"/api/v1/{name}?sort=-node"))["items"]
        put_together, query = [], {"sort": "-node", "limit": "1"}
        while True:
            page = await client.get(f"/api/v1/{name}?{urlencode(query)}")
            assert page["total"] == len(whole)
            put_together += page["items"]
            if page["next"] is None:
                break
            query["cursor"] = page["next"]
        assert [_identity(row) for row in put_together] == [_identity(row) for row in whole]


def _identity(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "age_seconds"}


async def test_a_node_added_between_two_pages_neither_hides_nor_repeats_rows() -> None:
    async with serving() as client:
        first = await client.get("/api/v1/nodes?cluster=berlin&limit=1")
        assert [node["node"] for node in first["items"]] == ["alpha"]
        client.store.take("berlin", report(snapshot("aardvark", (nvidia(50),))))
        second = await client.get(f"/api/v1/nodes?cluster=berlin&cursor={first['next']}")
        assert [node["node"] for node in second["items"]] == ["beta"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("colour=red", "colour"),
        ("temperature_celsius_min=hot", "temperature_celsius_min"),
        ("temperature_celsius_min=nan", "temperature_celsius_min"),
        ("temperature_celsius_min=1e999", "temperature_celsius_min"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("limit=1&limit=2", "limit"),
        ("sort=colour", "sort"),
        ("sort=node,node,id,index,vendor", "sort"),
        ("vendor=cray", "vendor"),
        ("vendor=", "vendor"),
        ("simulated=yes", "simulated"),
        ("index=0.5", "index"),
        ("present=colour", "present"),
        (f"q={'x' * 600}", "q"),
        ("cursor=AAAA", "cursor"),
        ("cursor=%21%21", "cursor"),
        ("cursor=" + "A" * 5000, "cursor"),
    ],
)
async def test_the_problem_names_the_invalid_parameter(query: str, parameter: str) -> None:
    async with serving() as client:
        problem = await client.get(f"/api/v1/devices?{query}", status=400)
        assert problem["parameter"] == parameter
        assert problem["status"] == 400
        assert parameter in problem["detail"]


async def test_the_problem_for_an_unknown_parameter_lists_the_known_ones() -> None:
    async with serving() as client:
        problem = await client.get("/api/v1/devices?temperature_min=80", status=400)
        assert "temperature_celsius_min" in problem["allowed"]
        problem = await client.get("/api/v1/devices?health=bad", status=400)
        assert problem["allowed"] == ["ok", "warning", "critical", "lost", "unknown"]


async def test_a_cursor_is_valid_only_with_the_same_parameters() -> None:
    async with serving() as client:
        cursor = (await client.get("/api/v1/devices?limit=1&vendor=nvidia"))["next"]
        assert await client.get(f"/api/v1/devices?limit=2&vendor=nvidia&cursor={cursor}")
        for other in ("vendor=amd", "vendor=nvidia&sort=-index", "vendor=nvidia&q=x", ""):
            problem = await client.get(f"/api/v1/devices?{other}&cursor={cursor}".replace("?&", "?"), 400)
            assert problem["type"].endswith("bad-cursor")
        changed = ("B" if cursor[0] != "B" else "C") + cursor[1:]
        await client.get(f"/api/v1/devices?vendor=nvidia&cursor={changed}", 400)
        await client.get(f"/api/v1/devices?vendor=nvidia&cursor={cursor[:-2]}", 400)
        await client.get(f"/api/v1/pods?cursor={cursor}", 400)


async def test_columns_contain_the_same_values_as_rows() -> None:
    async with serving() as client:
        rows = {row["id"]: row for row in (await client.get("/api/v1/devices"))["items"]}
        names = ["id", "vendor", "health_reason", "index", "temperature_celsius", "simulated", "state"]
        columns = await client.get(f"/api/v1/devices/columns?fields={','.join(names)}")
        assert columns["rows"] == len(rows)
        assert list(columns["fields"]) == names
        for place in range(columns["rows"]):
            row = {name: _cell(columns["fields"][name], place) for name in names}
            expected = rows[row["id"]]
            assert row == {name: expected[name] for name in names}


def _cell(column: dict[str, Any], place: int) -> Any:
    if column["kind"] != "text":
        return column["values"][place]
    code = column["codes"][place]
    return None if code is None else column["texts"][code]


async def test_columns_accept_the_filters_of_devices() -> None:
    async with serving() as client:
        columns = await client.get("/api/v1/devices/columns?fields=id&vendor=amd,ascend")
        assert sorted(columns["fields"]["id"]["texts"]) == ["amd:0001", "ascend:A1"]
        columns = await client.get("/api/v1/devices/columns?fields=id,temperature_celsius&cluster=none")
        assert columns["rows"] == 0
        await client.get("/api/v1/devices/columns?fields=colour", 400)
