"""Sources against what they read: a simulated node, agents, and a fleet."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agent_process import AgentProcess
from tests.certificates import make_certificates
from tests.fleet_process import FleetProcess, simulated_clusters
from tests.top.stub_agent import StubAgent, stored, stub_agent
from tests.waiting import wait_until

from accelscope.agent import assembly
from accelscope.agent.settings import AgentSettings
from accelscope.cli.top import page
from accelscope.config import make
from accelscope.kube.endpoint import EndpointError
from accelscope.model import Device, HealthState, Reading, Vendor
from accelscope.simulate import SimulatedNode, load_node
from accelscope.top.screen.board import SourceReader
from accelscope.top.sources.agents import AgentsSource
from accelscope.top.sources.fleet import FleetSource
from accelscope.top.sources.local import LocalSource
from accelscope.top.sources.source import Credentials, Query, ViewSource, endpoint_of
from accelscope.top.view.frame import Choices, alerts
from accelscope.top.view.model import NodeView, View
from accelscope.top.view.table import RenderContext
from accelscope.top.view.text import ASCII
from accelscope.vendors.common.contract import ReaderOptions, Survey

NOTHING = Credentials()
HOUR = 3600.0


@pytest.fixture
def simulated(tmp_path: Path, native_cache: Path) -> SimulatedNode:
    node = SimulatedNode(load_node("nvidia-shared"), tmp_path / "node", cache=native_cache)
    node.build(60.0)
    return node


@contextmanager
def started(source: ViewSource, interval_seconds: float = 0.2) -> Iterator[ViewSource]:
    source.hurry(interval_seconds)
    source.start()
    try:
        yield source
    finally:
        source.stop()
        _await_agents()


def _await_agents() -> None:
    asking = [thread for thread in threading.enumerate() if thread.name.startswith("agent ")]
    for thread in asking:
        thread.join()  # they let go of their connections


def until(source: ViewSource, condition: Callable[[View], bool], query: Query | None = None) -> View:
    seen: list[View] = []

    def fulfilled() -> bool:
        seen[:] = [source.read(query or Query())]
        return condition(seen[0])

    wait_until(fulfilled, "the view shows it")
    return seen[0]


def agents(*stubs: StubAgent | str, **more: Any) -> AgentsSource:
    urls = [stub if isinstance(stub, str) else stub.url for stub in stubs]
    return AgentsSource([endpoint_of(url, Credentials(**more)) for url in urls], timeout_seconds=5.0)


def facts(node: NodeView) -> list[tuple[object, ...]]:
    """The part that does not depend on the source."""
    return [
        (d.id, d.index, d.model, d.health, d.memory_total_bytes, d.power_limit_watts) for d in node.devices
    ]


def test_local_node_and_agent_on_it_tell_the_same(simulated: SimulatedNode, tmp_path: Path) -> None:
    given = {**simulated.agent_settings(), "node_name": "node-7", "gpu_allocation_file": ""}
    with started(LocalSource(make(AgentSettings, given), {})) as source:
        [here] = until(source, lambda view: bool(view.nodes[0].processes)).nodes
    with AgentProcess(given, tmp_path / "agent") as agent:
        agent.settled()
        with started(agents(f"http://127.0.0.1:{agent.port}")) as source:
            [there] = until(source, lambda view: view.nodes[0].read).nodes
    assert here.name == there.name == "node-7"
    assert len(here.devices) == 2
    assert facts(here) == facts(there)
    assert {(p.pid, p.name, p.user, p.memory_bytes) for p in here.processes} == {
        (p.pid, p.name, p.user, p.memory_bytes) for p in there.processes
    }
    assert {p.owner_kind for p in here.processes} >= {"pod", "slurm_job", "container", "systemd_unit"}


class LearningReader:
    """Gets to know one more of its three devices at each pass, as one does whose tool is slow."""

    vendor = Vendor("ascend")
    known = 0

    def survey(self) -> Survey:
        self.known = min(self.known + 1, 3)
        return Survey("fake", tuple(map(str, range(self.known))), expected=3)

    def read(self, key: str) -> Reading:
        return Reading(Device(vendor=self.vendor, id=f"ascend:{key}", index=int(key)))

    def close(self) -> None:
        pass


def test_one_look_at_this_node_waits_until_its_reader_knows_its_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opened(vendor: Vendor, options: ReaderOptions) -> LearningReader:
        return LearningReader()

    monkeypatch.setattr(assembly, "open_reader", opened)
    with started(LocalSource(AgentSettings(readers=("ascend",)), {}), 10.0) as source:
        source.settle()
        view = source.read(Query())
    assert [device.index for device in view.nodes[0].devices] == [0, 1, 2]
    assert alerts(view, RenderContext(ASCII, view.at)) == []


def test_agent_with_tls_and_token_is_read_and_nobody_without_them(
    simulated: SimulatedNode, tmp_path: Path
) -> None:
    certificates = make_certificates(tmp_path)
    token = tmp_path / "token"
    token.write_text("secret-of-the-agent\n")
    given = {
        **simulated.agent_settings(),
        "tls_certificate": str(certificates.server),
        "tls_key": str(certificates.server_key),
        "token_file": str(token),
    }
    with AgentProcess(
        given, tmp_path / "agent", trust=certificates.trust(), token="secret-of-the-agent"
    ) as agent:
        agent.until(lambda snapshot: len(snapshot.devices) == 2, "both devices are read")
        url = f"https://127.0.0.1:{agent.port}"
        ca = str(certificates.ca)
        cases: list[tuple[dict[str, Any], str | None]] = [
            ({"token_file": str(token), "ca_file": ca}, None),
            ({"token_file": str(token), "insecure": True}, None),
            ({"ca_file": ca}, "401"),
            ({"token_file": str(token)}, "certificate is not trusted"),
        ]
        for credentials, error in cases:
            with started(agents(url, **credentials)) as source:
                source.settle()
                [node] = source.read(Query()).nodes
            if error is None:
                assert (node.error, len(node.devices)) == (None, 2)
            else:
                assert error in (node.error or "")
                assert "secret-of-the-agent" not in (node.error or "")


def test_agent_that_falls_silent_stays_with_its_last_values_and_their_age() -> None:
    with stub_agent(stored("nvidia-sick")) as sick, stub_agent(stored("nvidia-mig")) as well:
        with started(agents(sick, well)) as source:
            until(source, lambda view: all(node.error is None for node in view.nodes))
            sick.status, sick.body = 503, b"the first collection is not done yet"
            view = until(source, lambda view: view.nodes[0].error is not None)
            later = until(source, lambda later: _age(later) > _age(view))
        first, second = later.nodes
        assert first.error == "503 the first collection is not done yet"
        assert len(first.devices) == 4
        assert (second.error, len(second.devices)) == (None, 3)


def _age(view: View) -> float:
    return view.nodes[0].age_seconds or 0.0


def test_agents_are_asked_when_a_reading_is_wanted_now_however_slow_the_pace() -> None:
    seen: list[View] = []

    def shown_now(condition: Callable[[NodeView], bool]) -> bool:
        feed.now()
        return bool(seen) and condition(seen[-1].nodes[0])

    with stub_agent(stored("nvidia-mig")) as stub:
        source = agents(stub)
        source.hurry(HOUR)
        feed = SourceReader(source, Query(), HOUR, lambda view, _: seen.append(view))
        feed.start()
        try:
            wait_until(lambda: shown_now(lambda node: node.read), "the first reading")
            stub.status, stub.body = 503, b"it is going down"
            wait_until(lambda: shown_now(lambda node: node.error is not None), "it is read by hand")
        finally:
            feed.stop()
            _await_agents()


def test_a_faster_pace_of_agents_counts_at_once() -> None:
    with stub_agent(stored("nvidia-mig")) as stub, started(agents(stub), HOUR) as source:
        until(source, lambda view: view.nodes[0].read)
        source.hurry(0.05)
        wait_until(lambda: len(stub.seen) >= 3, "it is read at the new pace")


def test_known_snapshot_is_not_sent_again() -> None:
    with stub_agent(stored("nvidia-mig")) as stub, started(agents(stub)) as source:
        wait_until(lambda: len(stub.seen) >= 3)
        [node] = source.read(Query()).nodes
        assert stub.seen[0] is None
        assert set(stub.seen[1:]) == {'W/"1-1"'}
        assert (node.error, len(node.devices)) == (None, 3)


def test_devices_of_a_vendor_that_is_not_known_are_told_as_missing() -> None:
    newer = stored("nvidia-mig")
    newer["devices"][0]["vendor"] = "acme"
    newer["readers"].append({"vendor": "acme", "found": True, "up": True})
    with stub_agent(newer) as stub, started(agents(stub)) as source:
        source.settle()
        [node] = source.read(Query()).nodes
    assert (node.error, len(node.devices)) == (None, 2)
    assert 'left out devices of vendors that this version does not support: "acme" (1)' in node.troubles


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>", "the response is not JSON"),
        (b"[]", "expected a JSON object"),
        (b'{"schema_version": "2.0"}', "the snapshot schema has version 2.0"),
        (b'{"schema_version": "1.0", "node": 3}', "expected str"),
        (b"[" * 100_000, "the response is not JSON"),
    ],
)
def test_answer_that_is_no_snapshot_is_told_as_such(body: bytes, error: str) -> None:
    with stub_agent(None) as stub:
        stub.body = body
        with started(agents(stub)) as source:
            source.settle()
            [node] = source.read(Query()).nodes
    assert error in (node.error or "")
    assert node.devices == ()


@pytest.mark.parametrize(
    ("url", "token", "error"),
    [
        ("node1", None, "node1: not a URL; use http://HOST:PORT or https://HOST:PORT"),
        ("ftp://node1", None, "use http://HOST:PORT"),
        ("node1:9400", "token", "a token must not be sent over http"),
        ("node1:99999", None, "http://node1:99999: the port is not a whole number up to 65535"),
        ("user:9400@node1", None, "user or password"),
        ("http://user:password@node1", None, "user or password"),
        ("http://node1:9400", "token", "a token must not be sent over http"),
        ("http://localhost:99999", None, "the port is not a whole number up to 65535"),
        ("https://node1:x", None, "the port is not a whole number up to 65535"),
        ("http://", None, "http://: not a URL; use http://HOST:PORT or https://HOST:PORT"),
        ("https://:9400", None, "not a URL; use http://HOST:PORT"),
        ("http://node1:9400/?x=1", None, "query"),
    ],
)
def test_url_that_cannot_be_used_is_refused_with_a_reason(url: str, token: str | None, error: str) -> None:
    with pytest.raises((EndpointError, ValueError), match=error):
        endpoint_of(url, Credentials(token_file=token))


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("node1:9400", "http://node1:9400"),
        ("localhost:9400", "http://localhost:9400"),
        ("10.0.0.7:9400/base", "http://10.0.0.7:9400/base"),
        ("[fd00::7]:9400", "http://[fd00::7]:9400"),
    ],
)
def test_host_and_port_alone_are_taken_as_http(written: str, url: str) -> None:
    endpoint = endpoint_of(written, NOTHING)
    assert (endpoint.url, endpoint.port, endpoint.secure) == (url, 9400, False)


def test_plain_http_to_another_machine_is_taken_without_a_token() -> None:
    endpoint = endpoint_of("http://node1:9400/base", NOTHING)
    assert (endpoint.secure, endpoint.host, endpoint.port, endpoint.base_path) == (
        False,
        "node1",
        9400,
        "/base",
    )
    assert endpoint_of("http://node1", NOTHING).port == 80


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    folder = tmp_path_factory.mktemp("fleet")
    options = ("--clusters", "2", "--nodes", "6", "--kind", "nvidia-shared", "--interval", "1")
    with simulated_clusters(folder / "clusters", *options) as clusters:
        lost = ("lost", "--cluster", "oslo-1", "--node", "nvidia-shared-0003", "--device", "1")
        clusters.fault(*lost)
        with FleetProcess(clusters.entries, folder / "fleet", {"refresh_interval": "1s"}) as process:
            yield process


def _fleet(fleet: FleetProcess, page_size: int = 5) -> FleetSource:
    endpoint = endpoint_of(f"http://127.0.0.1:{fleet.port}", NOTHING)
    return FleetSource(endpoint, timeout_seconds=30.0, page_size=page_size)


def _is_lost(view: View) -> bool:
    return view.overview is not None and view.overview.sums.devices_lost == 1


def test_fleet_shows_the_sick_node_first_and_pages_of_the_rest(fleet: FleetProcess) -> None:
    with started(_fleet(fleet)) as source:
        found = until(source, _is_lost).overview
        assert found is not None
        assert (found.sums.nodes, found.sums.devices, found.nodes_total) == (12, 24, 12)
        assert [cluster.key for cluster in found.clusters] == ["berlin-1", "oslo-1"]
        assert (found.nodes[0].cluster, found.nodes[0].node) == ("oslo-1", "nvidia-shared-0003")
        assert any("oslo-1/nvidia-shared-0003 nvidia 1: LOST" in trouble for trouble in found.troubles)
        query = Query(sort="node,cluster")
        names: list[str] = []
        for page in range(3):
            shown = source.read(Query(sort="node,cluster", page=page)).overview
            assert shown is not None
            assert shown.page == page
            names += [node.key for node in shown.nodes]
        assert len(set(names)) == 12
        beyond = source.read(Query(sort="node,cluster", page=9)).overview
        assert beyond is not None
        assert beyond.page == 2, "the last there is"
        one = source.read(Query(sort=query.sort, cluster="berlin-1", text="0002")).overview
        assert one is not None
        assert [node.key for node in one.nodes] == ["berlin-1/nvidia-shared-0002"]


def test_node_of_a_fleet_has_its_devices_and_processes(fleet: FleetProcess) -> None:
    with started(_fleet(fleet)) as source:
        until(source, _is_lost)
        [node] = source.read(Query(node=("oslo-1", "nvidia-shared-0003"))).nodes
        assert [device.index for device in node.devices] == [0, 1]
        assert node.devices[1].health is HealthState.LOST
        assert node.simulated
        assert any(process.pod for process in node.processes)
        missing = source.read(Query(node=("oslo-1", "no-such-node")))
        error = "the fleet has no node no-such-node in cluster oslo-1"
        assert (missing.error, missing.nodes[0].error) == (None, error)
        context = RenderContext(ASCII, missing.at)
        told = [alert.text for alert in alerts(missing, context)]
        assert told == [error], "once"
        assert page(missing, Choices(), context, 120).count("no-such-node in") == 1


def test_url_of_the_other_kind_of_server_is_told_with_what_to_do(fleet: FleetProcess) -> None:
    url = f"http://127.0.0.1:{fleet.port}"
    with started(agents(url)) as source:
        source.settle()
        [node] = source.read(Query()).nodes
    assert node.error == f"this is a fleet, not an agent: use --fleet {url}"


def test_agent_given_as_a_fleet_is_told_as_such() -> None:
    with stub_agent(stored("nvidia-mig")) as stub:
        stub.only = "/snapshot"
        source = FleetSource(endpoint_of(stub.url, NOTHING), timeout_seconds=5.0)
        with started(source):
            views = [source.read(query) for query in (Query(), Query(node=("a", "b")))]
    assert {view.error for view in views} == {"this is an agent, not a fleet: omit --fleet"}


def test_fleet_that_goes_away_leaves_what_was_known_with_its_age(fleet: FleetProcess) -> None:
    endpoint = endpoint_of(f"http://127.0.0.1:{fleet.port}", NOTHING)
    source = FleetSource(endpoint, timeout_seconds=30.0)
    with started(source):
        until(source, _is_lost)
        source.stop()  # lets go of the connection
        object.__setattr__(endpoint, "port", 1)
        view = source.read(Query())
    assert "cannot connect" in (view.error or "")
    assert view.overview is not None
    assert view.overview.nodes_total == 12
    assert view.age_seconds > 0


def test_node_of_which_a_fleet_has_nothing_new_grows_older() -> None:
    row = {"cluster": "oslo", "node": "n1", "state": "fresh", "age_seconds": 5.0}
    with stub_agent({"node": row, "devices": [], "pods": [], "processes": []}) as stub:
        query = Query(node=("oslo", "n1"))
        source = FleetSource(endpoint_of(stub.url, NOTHING), timeout_seconds=5.0)
        with started(source):
            assert _age(source.read(query)) == 5.0
            until(source, lambda view: _age(view) > 5.05, query)
        assert set(stub.seen[1:]) == {'W/"1-1"'}, "it was sent once"


@pytest.mark.parametrize("body", [b"[]", b"{}", b"<html>", b'{"groups": 3}'])
def test_what_is_no_fleet_is_told_as_such(body: bytes) -> None:
    with stub_agent(None) as stub:
        stub.body = body
        source = FleetSource(endpoint_of(stub.url, NOTHING), timeout_seconds=5.0)
        with started(source):
            view = source.read(Query())
    assert view.error is not None
    assert view.error.startswith(("not the response of a fleet: ", "the response is not JSON"))
