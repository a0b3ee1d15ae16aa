"""Agents that send updates: whole snapshots only when something else than values has changed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web
from tests.fleet.sources.stub_cluster import StubCluster, one_round
from tests.fleet.sources.test_agents_source import agents_of, document

from accelscope.agent.pages import Pages
from accelscope.fleet.rows import ClusterView, DeviceRow, NodeFailure, NodeUpdate
from accelscope.fleet.sources.agents import AgentsSource
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.metrics.exposition import Exposition
from accelscope.model import Snapshot
from accelscope.model.update import CONTENT_TYPE
from accelscope.model.wire import read_snapshot
from accelscope.serve import Request, Response, Route

SNAPSHOT = read_snapshot(document())


class Agent:
    """The HTTP handlers of the agent behind the pod proxy of a stub cluster."""

    def __init__(self) -> None:
        self._collections = 0
        self.sent: list[str] = []
        self.start(1.0)

    def start(self, at: float) -> None:
        self._pages = Pages(Exposition(), metrics_path="/metrics", moved_at=lambda: 0.0)
        self.publish(replace(SNAPSHOT, agent=replace(SNAPSHOT.agent, started_at=at)))

    def publish(self, snapshot: Snapshot) -> None:
        self._collections += 1
        self.snapshot = replace(snapshot, agent=replace(snapshot.agent, collections=self._collections))
        self._pages.publish(self.snapshot)

    def heat(self, celsius: float) -> None:
        first, *others = self.snapshot.devices
        self.publish(replace(self.snapshot, devices=(replace(first, temperature_celsius=celsius), *others)))

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        route = self._pages.routes()["/snapshot"]
        assert not isinstance(route, Route)
        headers = {name.lower(): value for name, value in request.headers.items()}
        response = route(Request("GET", "/snapshot", "", headers))
        assert isinstance(response, Response)
        self.sent.append(
            "304"
            if response.status == 304
            else "update"
            if response.content_type == CONTENT_TYPE
            else "whole"
        )
        return web.Response(
            status=response.status,
            body=response.bodies.get("identity"),
            headers={"Content-Type": response.content_type, **dict(response.headers)},
        )


class Fleet:
    def __init__(self, source: AgentsSource) -> None:
        self._source = source
        self.store = FleetStore()
        self.store.declare([ClusterView(id="berlin")])

    def take(self, update: NodeUpdate) -> None:
        self.store.take("berlin", update)

    async def refresh(self) -> None:
        outcome = await self._source.refresh(self.take)
        assert (outcome.expected, outcome.answered) == (1, 1)

    def first_device(self) -> DeviceRow:
        position = self.store.devices.find(cluster="berlin", node="node-a", id=SNAPSHOT.devices[0].id)
        assert position is not None
        [row] = self.store.devices.rows(self.store.devices.positions()[[position]])
        return row


@asynccontextmanager
async def fleet_of(agent: Agent) -> AsyncIterator[Fleet]:
    cluster = StubCluster()
    cluster.add_agent("agent-a", "node-a", agent)
    async with agents_of(cluster) as source:
        yield Fleet(source)


async def test_an_agent_sends_updates_while_only_values_change() -> None:
    agent = Agent()
    async with fleet_of(agent) as fleet:
        await fleet.refresh()
        for celsius in (41.0, 42.0):
            agent.heat(celsius)
            await fleet.refresh()
            assert fleet.first_device().temperature_celsius == celsius
        await fleet.refresh()
        agent.publish(replace(agent.snapshot, processes=()))
        await fleet.refresh()
        assert len(fleet.store.processes) == 0
    assert agent.sent == ["whole", "update", "update", "304", "whole"]


async def test_a_restarted_agent_sends_its_whole_snapshot() -> None:
    agent = Agent()
    async with fleet_of(agent) as fleet:
        await fleet.refresh()
        agent.start(2.0)
        await fleet.refresh()
    assert agent.sent == ["whole", "whole"]


async def test_an_update_that_the_store_cannot_use_is_replaced_by_the_whole_snapshot() -> None:
    agent = Agent()
    async with fleet_of(agent) as fleet:
        await fleet.refresh()
        fleet.store = FleetStore()  # as after the cluster was removed and added
        fleet.store.declare([ClusterView(id="berlin")])
        agent.heat(43.0)
        await fleet.refresh()
        assert fleet.first_device().temperature_celsius == 43.0
    assert agent.sent == ["whole", "update", "whole"]


async def test_an_invalid_update_is_replaced_by_the_whole_snapshot() -> None:
    agent = Agent()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = await agent(request)
        assert isinstance(response, web.Response)
        if agent.sent[-1] == "update":
            content = json.dumps({"format": 99}).encode()
            return web.Response(
                body=content, headers={**response.headers, "Content-Length": str(len(content))}
            )
        return response

    cluster = StubCluster()
    cluster.add_agent("agent-a", "node-a", answer)
    async with agents_of(cluster) as source:
        fleet = Fleet(source)
        await fleet.refresh()
        agent.heat(45.0)
        await fleet.refresh()
        assert fleet.first_device().temperature_celsius == 45.0
    assert agent.sent == ["whole", "update", "whole"]


async def test_an_agent_that_always_sends_updates_is_a_failure_and_not_asked_for_ever() -> None:
    agent = Agent()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await agent(request)
        return web.Response(body=b'{"format":1}', headers={"Content-Type": CONTENT_TYPE})

    cluster = StubCluster()
    cluster.add_agent("agent-a", "node-a", answer)
    async with agents_of(cluster) as source:
        _, updates = await one_round(source)
    failure = updates["node-a"]
    assert isinstance(failure, NodeFailure)
    assert failure.reason == "bad_answer"
    assert len(agent.sent) == 1


async def test_the_whole_snapshot_of_a_node_is_read_for_its_details() -> None:
    agent = Agent()
    async with fleet_of(agent) as fleet:
        await fleet.refresh()
        agent.heat(46.0)
        await fleet.refresh()
        assert fleet.store.has_newer_values("berlin", "node-a")
        await fleet._source.read_whole("node-a", fleet.take)
        assert not fleet.store.has_newer_values("berlin", "node-a")
        stored = fleet.store.snapshot("berlin", "node-a")
        assert stored is not None
        assert stored.devices[0].temperature_celsius == 46.0
        agent.heat(47.0)
        await fleet.refresh()
    assert agent.sent == ["whole", "update", "whole", "update"]
