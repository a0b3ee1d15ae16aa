"""History over HTTP."""

import time
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.api.serving import fleet_store, recorded, serving, tokens_file, view

from accelscope.fleet.api.access import AccessControl, TokensFile
from accelscope.fleet.history_rings import HistorySeries
from accelscope.fleet.rows import SourceView


class LongMemory:
    """A store with a value at every time."""

    def __init__(self) -> None:
        self.requested: list[dict[str, Any]] = []

    async def series(self, scope: Any, key: str | None, **requested: Any) -> HistorySeries | None:
        self.requested.append({"scope": scope, "key": key, **requested})
        return HistorySeries(
            scope=scope,
            key=key,
            start=requested["since"],
            step_seconds=300.0,
            fields={"devices": [7.0, None]},
            source="prometheus",
        )

    async def devices(self, since: float, until: float) -> list[HistorySeries]:
        return []


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        ("scope=fleet", "devices", 5),
        ("scope=cluster&key=berlin", "devices", 4),
        ("scope=vendor&key=ascend", "temperature_max_celsius", 40),
        ("scope=model&key=910B", "devices", 1),
        ("scope=namespace&key=team-b", "devices", 1),
        ("scope=device&cluster=berlin&node=beta&key=nvidia:GPU-7", "temperature_celsius", 91),
        ("scope=pod&cluster=berlin&namespace=team-a&key=notebook-0", "memory_used_bytes", 1 << 30),
    ],
)
async def test_every_scope_has_history(query: str, field: str, value: float) -> None:
    async with serving(history=await recorded()) as client:
        series = await client.get(f"/api/v1/history?{query}")
        assert series["source"] == "ring"
        assert series["step_seconds"] == 60
        assert series["fields"][field][-3:] == [value] * 3


async def test_history_is_resampled_to_the_requested_step() -> None:
    async with serving(history=await recorded(6)) as client:
        series = await client.get("/api/v1/history?scope=fleet&step=120")
        assert series["step_seconds"] == 120
        assert [value for value in series["fields"]["devices"] if value is not None] in ([5] * 3, [5] * 4)
        narrow = await client.get(f"/api/v1/history?scope=fleet&since={time.time() - 150}")
        assert len(narrow["fields"]["devices"]) <= 3
        backwards = await client.get("/api/v1/history?scope=fleet&since=2000&until=1000")
        assert all(not values for values in backwards["fields"].values())


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("", "scope"),
        ("scope=galaxy", "scope"),
        ("scope=vendor", "key"),
        ("scope=device&key=x", "cluster"),
        ("scope=device&cluster=berlin&key=x", "node"),
        ("scope=pod&cluster=berlin&key=x", "namespace"),
        ("scope=fleet&key=x", "key"),
        ("scope=vendor&key=amd&node=alpha", "node"),
        ("scope=fleet&since=yesterday", "since"),
        ("scope=fleet&step=0", "step"),
        ("scope=fleet&since=1e25", "since"),
        ("scope=fleet&since=1e308&until=1e308", "since"),
        ("scope=fleet&until=-1", "until"),
    ],
)
async def test_the_problem_names_the_parameter_that_does_not_fit_the_scope(
    query: str, parameter: str
) -> None:
    async with serving(history=await recorded()) as client:
        problem = await client.get(f"/api/v1/history?{query}", 400)
        assert problem["parameter"] == parameter
        assert "None" not in problem["detail"]


async def test_history_of_an_unknown_device_or_pod_is_not_found() -> None:
    async with serving(history=await recorded()) as client:
        for query in (
            "scope=cluster&key=atlantis",
            "scope=device&cluster=berlin&node=beta&key=nvidia:GPU-99",
            "scope=pod&cluster=berlin&namespace=team-a&key=nothing",
        ):
            await client.get(f"/api/v1/history?{query}", 404)


async def test_older_history_comes_from_the_store() -> None:
    stored_history = LongMemory()
    async with serving(history=await recorded(), stored_history=stored_history) as client:
        day = time.time() - 2 * 86400
        series = await client.get(f"/api/v1/history?scope=cluster&key=berlin&since={day}")
        assert (series["source"], series["fields"]["devices"]) == ("prometheus", [7, None])
        assert stored_history.requested[0]["key"] == "berlin"
        recent = await client.get(f"/api/v1/history?scope=fleet&since={time.time() - 30}")
        assert recent["source"] == "ring"


async def test_a_limited_token_sees_the_history_of_its_clusters(tmp_path: Path) -> None:
    access = AccessControl(tokens=TokensFile(str(tokens_file(tmp_path))))
    stored_history = LongMemory()
    options: dict[str, Any] = {"access": access, "token": "parisian", "stored_history": stored_history}
    async with serving(history=await recorded(), **options) as client:
        series = await client.get("/api/v1/history?scope=fleet&since=0")
        assert series["fields"]["devices"][-1] == 1
        assert stored_history.requested == []
        series = await client.get("/api/v1/history?scope=vendor&key=nvidia")
        assert series["fields"]["devices"][-1] in (0, None)
        await client.get("/api/v1/history?scope=cluster&key=berlin", 404)
        await client.get("/api/v1/history?scope=device&cluster=berlin&node=beta&key=nvidia:GPU-7", 404)


@pytest.mark.parametrize("query", ["scope=fleet", "scope=device&cluster=berlin&node=beta&key=nvidia:GPU-7"])
async def test_the_future_has_no_values(query: str) -> None:
    async with serving(history=await recorded()) as client:
        series = await client.get(f"/api/v1/history?{query}&since=253402300799")
        assert all(values == [] for values in series["fields"].values())


@pytest.mark.parametrize(
    ("query", "simulated"),
    [
        ("scope=fleet", True),
        ("scope=cluster&key=paris", True),
        ("scope=cluster&key=berlin", False),
        ("scope=vendor&key=ascend", True),
        ("scope=vendor&key=nvidia", False),
        ("scope=namespace&key=team-a", False),
        ("scope=device&cluster=paris&node=louvre&key=ascend:A1", True),
        ("scope=pod&cluster=berlin&namespace=team-a&key=notebook-0", False),
    ],
)
async def test_history_of_simulated_devices_is_marked(query: str, simulated: bool) -> None:
    async with serving(history=await recorded()) as client:
        assert (await client.get(f"/api/v1/history?{query}"))["simulated"] is simulated


@pytest.mark.parametrize(("kind", "simulated"), [("prometheus", True), ("agents", False)])
async def test_a_sum_from_stores_is_simulated_if_any_store_is(kind: str, simulated: bool) -> None:
    store = fleet_store()
    store.describe(view("paris", simulated=True, sources=[SourceView(kind=kind, up=True)]))
    async with serving(store, history=await recorded(), stored_history=LongMemory()) as client:
        series = await client.get("/api/v1/history?scope=fleet&since=0")
        assert (series["source"], series["simulated"]) == ("prometheus", simulated)
