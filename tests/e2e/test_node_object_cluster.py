"""What an agent writes to the Node object of a real cluster: readers written in Go take it, everybody else's
keys stay, and no API server, however bad, costs the agent's page anything."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from tests.agent_process import AgentProcess
from tests.certificates import make_certificates
from tests.e2e.kubernetes.accounts import PATCH_NODES, Account, account, put_token
from tests.e2e.kubernetes.cluster import PATIENCE_SECONDS, Cluster
from tests.e2e.kubernetes.fault_proxy import (
    Fault,
    FaultProxy,
    Visit,
    answering,
    cut_before_the_answer,
    cut_in_the_answer,
    hanging,
    refusing,
    refusing_token,
    written,
)
from tests.sinks.go_reader import decode_chips
from tests.waiting import wait_until

from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, KubeError, Reason
from accelscope.model import SinkState, Snapshot
from accelscope.simulate import SimulatedNode, load_node
from accelscope.simulate.description import read_node
from accelscope.sinks.annotation import annotate
from accelscope.sinks.documents import DEVICES, FittedDocument
from accelscope.vendors.ascend import NPU_METRICS

RETRY_AFTER_SECONDS = 5  # longer than the sink waits by itself after a first failure

TWO_CHIPS = {
    "node": "two-chips",
    "ascend": {"devices": [{"model": "910b3", "count": 2}]},
    "processes": [{"name": "train", "devices": "all", "memory": "9GiB", "load": {"shape": "wave"}}],
}


@contextmanager
def moving(node: SimulatedNode) -> Iterator[SimulatedNode]:
    """With the wall clock."""
    node.build()
    stop = threading.Event()
    mover = threading.Thread(target=node.run, args=(stop,), kwargs={"period": 0.5})
    mover.start()
    try:
        wait_until(node.is_running, "the node moves")
        yield node
    finally:
        stop.set()
        mover.join()


@pytest.fixture(scope="module")
def writer(cluster: Cluster) -> Iterator[Account]:
    with account(cluster, "annotator", [PATCH_NODES]) as made:
        yield made
    cluster.kubectl("annotate", f"node/{cluster.node_name}", f"{NPU_METRICS}-", f"{DEVICES}-")


@pytest.fixture(scope="module")
def chips(folder: Path) -> Iterator[SimulatedNode]:
    with moving(SimulatedNode(read_node(yaml.safe_dump(TWO_CHIPS)), folder / "chips")) as node:
        yield node


def annotating(folder: Path, *keys: str) -> dict[str, str]:
    """Settings; on the command line such a one is a flag without a value."""
    file = folder / f"{'-'.join(keys)}.yaml"
    file.write_text("".join(f"{key}: true\n" for key in keys))
    return {
        "config_file": str(file),
        "annotation_interval": "1s",
        "annotation_heartbeat": "5s",
        "collection_interval": "1s",
    }


def metadata(cluster: Cluster, node: str | None = None) -> dict[str, dict[str, str]]:
    found = cluster.get(f"node/{node or cluster.node_name}")["metadata"]
    return {"annotations": found.get("annotations", {}), "labels": found.get("labels", {})}


def sink_of(snapshot: Snapshot, name: str = "annotation") -> SinkState:
    [found] = [sink for sink in snapshot.sinks if sink.sink == name]
    return found


def errors_of(state: SinkState) -> dict[str, int]:
    return {counted.reason: counted.count for counted in state.errors}


def until_written(agent: AgentProcess, more_than: int = 0) -> SinkState:
    """And well: writes are counted only if they succeed."""

    def is_written(snapshot: Snapshot) -> bool:
        sink = sink_of(snapshot)
        return sink.up and sink.writes > more_than

    return sink_of(until(agent, is_written, "the annotation is written"))


def until(agent: AgentProcess, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
    seen: list[Snapshot] = []

    def fulfilled() -> bool:
        seen[:] = [agent.snapshot()]
        return condition(seen[0])

    wait_until(fulfilled, what, PATIENCE_SECONDS)
    return seen[0]


@pytest.mark.parametrize(("name", "chip_count"), [("ascend-910b-x8", 8), ("ascend-a3", 16)])
def test_chips_stand_on_the_node_as_readers_in_go_take_them(
    cluster: Cluster, writer: Account, tmp_path: Path, name: str, chip_count: int
) -> None:
    node = SimulatedNode(load_node(name), tmp_path / name)
    node.build(at=300.0)
    started = datetime.now(UTC).replace(microsecond=0)  # an RFC 3339 timestamp has seconds
    settings = {**node.agent_settings(), **writer.settings(tmp_path / "token")}
    with AgentProcess({**settings, **annotating(tmp_path, "npuAnnotation")}, tmp_path / "agent") as agent:

        def is_whole() -> bool:
            text = metadata(cluster)["annotations"].get(NPU_METRICS)
            return text is not None and len(decode_chips(text)) == chip_count

        until_written(agent)
        wait_until(is_whole, "every chip stands there", PATIENCE_SECONDS)
        devices = agent.snapshot().devices
        page = agent.get("/metrics").body.decode().splitlines()
    shown = {
        (d.board_id, d.chip_id, d.index, (d.memory_total_bytes or 0) >> 20, d.health.vendor_word)
        for d in devices
    }
    text = metadata(cluster)["annotations"][NPU_METRICS]
    chips = decode_chips(text)
    # On these nodes a chip has the same number in the runtime and in /dev.
    assert {(c["npu"], c["chip"], c["phy_id"], c["hbm_total"], c["health"]) for c in chips} == shown
    assert all(0 < c["temp"] < 120 and 0 <= c["aicore"] <= 100 for c in chips)
    taken = datetime.fromisoformat(json.loads(text)["timestamp"])
    assert started <= taken <= datetime.now(UTC)
    assert 'accelscope_sink_up{sink="annotation"} 1' in page


def test_what_others_wrote_stays(
    cluster: Cluster, writer: Account, chips: SimulatedNode, tmp_path: Path
) -> None:
    before = metadata(cluster)
    node = f"node/{cluster.node_name}"
    settings = {**chips.agent_settings(), **writer.settings(tmp_path / "token")}
    both = annotating(tmp_path, "npuAnnotation", "devicesAnnotation")
    cluster.kubectl("annotate", node, "example.com/earlier=a")
    try:
        with AgentProcess({**settings, **both}, tmp_path / "agent") as agent:
            writes = until_written(agent).writes
            cluster.kubectl("annotate", node, "example.com/later=b")
            cluster.kubectl("label", node, "example.com/rack=7")
            until_written(agent, writes)
        after = metadata(cluster)
    finally:
        cluster.kubectl("annotate", node, "example.com/earlier-", "example.com/later-")
        cluster.kubectl("label", node, "example.com/rack-")
    ours = {NPU_METRICS, DEVICES}
    assert ours <= after["annotations"].keys()
    theirs = {name: text for name, text in after["annotations"].items() if name not in ours}
    known = {name: text for name, text in before["annotations"].items() if name not in ours}
    assert theirs == {**known, "example.com/earlier": "a", "example.com/later": "b"}
    assert after["labels"] == {**before["labels"], "example.com/rack": "7"}


def test_annotations_that_are_too_large_are_invalid_and_not_forbidden(
    writer: Account, cluster: Cluster, tmp_path: Path
) -> None:
    """By these the sink tells that it must leave something out."""
    token_file = tmp_path / "token"
    put_token(token_file, writer.token())
    client = Client(Endpoint(cluster.api_url, str(token_file), str(cluster.ca_file)))
    try:
        with pytest.raises(KubeError) as caught:
            annotate(client, cluster.node_name, {NPU_METRICS: FittedDocument("x" * (257 << 10))})
    finally:
        client.close()
    assert caught.value.status == 422
    assert caught.value.reason is not Reason.FORBIDDEN
    assert "Too long" in caught.value.text


# A bad API server. One agent meets all of it, and its page is asked for all the time.


class Scraping:
    """Of the page, as often as it comes; what was wrong is kept."""

    def __init__(self, agent: AgentProcess) -> None:
        self._agent = agent
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.scrapes = 0
        self.wrong: list[str] = []

    def __enter__(self) -> "Scraping":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            try:
                answer = self._agent.get("/metrics")
            except OSError as error:
                self.wrong.append(repr(error))
                continue
            self.scrapes += 1
            if answer.status != 200 or b"\naccelerator_power_watts{" not in answer.body:
                self.wrong.append(f"{answer.status}: {answer.body[:200]!r}")


@pytest.fixture(scope="module")
def proxy(cluster: Cluster, folder: Path) -> Iterator[FaultProxy]:
    with FaultProxy(make_certificates(folder), cluster.api_url, cluster.ca_file) as made:
        yield made


@pytest.fixture(scope="module")
def token_file(writer: Account, folder: Path) -> Path:
    path = folder / "proxied.token"
    put_token(path, writer.token())
    return path


@pytest.fixture(scope="module")
def proxied(
    writer: Account, proxy: FaultProxy, chips: SimulatedNode, token_file: Path, folder: Path
) -> Iterator[AgentProcess]:
    settings = {
        **chips.agent_settings(),
        **writer.settings(token_file),
        "kube_api_url": proxy.url,
        "kube_ca_file": str(proxy.ca_file),
        **annotating(folder, "npuAnnotation"),
    }
    with AgentProcess(settings, folder / "proxied") as agent:
        until_written(agent)
        yield agent


@pytest.fixture
def scraping(proxied: AgentProcess, proxy: FaultProxy) -> Iterator[Scraping]:
    try:
        with Scraping(proxied) as made:
            yield made
    finally:
        proxy.fault = None
    assert made.wrong == []
    assert made.scrapes > 0


def until_failed(agent: AgentProcess, reason: str, more_than: int = 0) -> SinkState:
    def has_failed(snapshot: Snapshot) -> bool:
        sink = sink_of(snapshot)
        return not sink.up and sink.reason == reason and errors_of(sink).get(reason, 0) > more_than

    return sink_of(until(agent, has_failed, f"the sink fails: {reason}"))


NOT_THAT_NODE = b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"quite-another"}}'


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(refusing(409, "the object has been modified"), "conflict", id="409"),
        pytest.param(refusing(500, "etcdserver: request timed out"), "server_error", id="500"),
        pytest.param(answering(written(503, b"<html>no backend</html>")), "server_error", id="503"),
        pytest.param(answering(b"\x00\x01 SSH-2.0-what\r\n\r\n"), "bad_answer", id="garbage"),
        pytest.param(answering(written(200, b"<html>log in</html>")), "bad_answer", id="page"),
        pytest.param(answering(written(200, NOT_THAT_NODE)), "bad_answer", id="another-node"),
        pytest.param(cut_before_the_answer, "unreachable", id="cut-before-the-answer"),
        pytest.param(cut_in_the_answer, "unreachable", id="cut-in-the-answer"),
    ],
)
def test_a_failure_is_counted_and_over_when_it_is_over(
    cluster: Cluster,
    proxied: AgentProcess,
    proxy: FaultProxy,
    scraping: Scraping,
    fault: Fault,
    reason: str,
) -> None:
    before = until_written(proxied)
    proxy.fault = fault
    failed = until_failed(proxied, reason, errors_of(before).get(reason, 0))
    assert failed.error
    proxy.fault = None
    until_written(proxied, failed.writes)
    text = metadata(cluster)["annotations"][NPU_METRICS]
    assert len(decode_chips(text)) == 2
    page = proxied.get("/metrics").body.decode()
    assert f'accelscope_sink_errors_total{{sink="annotation",reason="{reason}"}} ' in page


def test_a_server_that_asks_for_patience_gets_it(
    proxied: AgentProcess, proxy: FaultProxy, scraping: Scraping
) -> None:
    before = until_written(proxied)
    proxy.fault = refusing(429, "too many requests", ("Retry-After", str(RETRY_AFTER_SECONDS)))
    until_failed(proxied, "throttled")
    refused = [visit for visit in proxy.visits if visit.ended is not None][-1]
    proxy.fault = None
    until_written(proxied, before.writes)
    again = proxy.visits[proxy.visits.index(refused) + 1]
    assert again.arrived - refused.arrived >= RETRY_AFTER_SECONDS


def test_a_hanging_server_holds_up_no_collection(
    proxied: AgentProcess, proxy: FaultProxy, scraping: Scraping
) -> None:
    before = until_written(proxied)
    proxy.fault = hanging
    made: dict[Visit, set[float]] = {}  # collections, by the visit that hung before and after the look

    def went_on() -> bool:
        hung = proxy.waiting()
        taken_at = proxied.snapshot().taken_at
        if hung is not None and hung is proxy.waiting():
            made.setdefault(hung, set()).add(taken_at)
        return any(len(collections) >= 3 for collections in made.values())

    wait_until(went_on, "three collections while one write hangs", PATIENCE_SECONDS)
    until_failed(proxied, "timeout")
    proxy.fault = None
    until_written(proxied, before.writes)


def test_a_token_that_has_expired_is_replaced_by_the_rotated_one(
    writer: Account, proxied: AgentProcess, proxy: FaultProxy, token_file: Path, scraping: Scraping
) -> None:
    before = until_written(proxied)
    new = writer.token()
    proxy.fault = refusing_token(token_file.read_text())
    until_failed(proxied, "unauthorized")
    put_token(token_file, new)
    after = until_written(proxied, before.writes)
    assert errors_of(after)["unauthorized"] == 1  # a token that was refused is not shown again and again
    assert proxy.visits[-1].token == new


def test_a_refusal_is_tried_again_with_another_token(
    writer: Account, proxied: AgentProcess, proxy: FaultProxy, token_file: Path, scraping: Scraping
) -> None:
    before = until_written(proxied)
    proxy.fault = refusing(403, "nodes is forbidden: cannot patch resource")
    failed = until_failed(proxied, "forbidden", errors_of(before).get("forbidden", 0))
    assert "cannot patch resource" in (failed.error or "")
    proxy.fault = None
    put_token(token_file, writer.token())
    until_written(proxied, before.writes)


def test_an_api_server_that_is_away_costs_only_the_annotation(
    cluster: Cluster, writer: Account, chips: SimulatedNode, tmp_path: Path
) -> None:
    settings = {**chips.agent_settings(), **writer.settings(tmp_path / "token")}
    with AgentProcess({**settings, **annotating(tmp_path, "npuAnnotation")}, tmp_path / "agent") as agent:
        before = until_written(agent)
        with Scraping(agent) as scraping:
            cluster.stop_api_server()
            try:
                until_failed(agent, "unreachable")
                collected = agent.snapshot().taken_at
                until(agent, lambda s: s.taken_at > collected, "collections go on")
                assert agent.get("/readyz").status == 200
            finally:
                cluster.start_api_server()
            until_written(agent, before.writes)
        assert scraping.wrong == []


@pytest.fixture(scope="module", autouse=True)
def granted_late(cluster: Cluster, chips: SimulatedNode, folder: Path) -> Iterator[AgentProcess]:
    """An agent that got its right only after it was refused. It tries again after a minute, which passes
    while the other tests run; so that it is not in their way, it has a Node of its own."""
    own = "late"
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": own}})
    try:
        with account(cluster, "late") as late:
            settings = {**chips.agent_settings(), **late.settings(folder / "late.token"), "node_name": own}
            settings |= annotating(folder, "npuAnnotation")
            with AgentProcess(settings, folder / "late") as agent:
                failed = until_failed(agent, "forbidden")
                assert 'cannot patch resource "nodes"' in (failed.error or "")
                assert agent.get("/readyz").status == 200
                late.grant(PATCH_NODES)
                yield agent
    finally:
        cluster.kubectl("delete", f"node/{own}")


def test_a_right_that_is_granted_later_is_used_later(cluster: Cluster, granted_late: AgentProcess) -> None:
    assert errors_of(until_written(granted_late))["forbidden"] >= 1
    assert NPU_METRICS in metadata(cluster, "late")["annotations"]
