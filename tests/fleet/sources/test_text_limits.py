"""All sources truncate long texts, and the readings of a cluster are limited."""

import gzip
import json
import os
from typing import Any

import pytest
from aiohttp import web
from tests.fleet.loop import run
from tests.fleet.sources.prometheus.scraped import StubStore
from tests.fleet.sources.prometheus.test_prometheus_source import NOW, agent, node, reading
from tests.fleet.sources.stub_cluster import StubCluster, answering, one_round
from tests.fleet.sources.test_agents_source import agents_of, document
from tests.fleet.sources.test_annotations_source import annotated, source_of
from tests.fleet.sources.test_exec_source import VALUES, clusters_with, drivers_of, row, smi
from tests.fleet.sources.test_plausible_numbers import DEVICE, MINIMAL, written

from accelscope.fleet.rows import NodeFailure, NodeReport, NodeUpdate
from accelscope.fleet.sources.exec import _MAX_ADDRESSES
from accelscope.fleet.sources.snapshots import TEXT_LIMIT, SnapshotTooLarge, decode_light, decode_snapshot
from accelscope.sinks.documents import timestamp

LONG = "x" * 5000


def cut_in(update: NodeUpdate, field: str) -> None:
    assert isinstance(update, NodeReport), update
    assert update.remark == f"texts of more than {TEXT_LIMIT} characters were truncated: {field}"
    assert update.document == b""  # the document still contains the whole text


@pytest.mark.parametrize("decode", [decode_light, decode_snapshot])
@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("model", {"devices": [{**DEVICE, "model": LONG}]}),
        ("id", {"devices": [{**DEVICE, "id": LONG}]}),
        ("reason", {"devices": [{**DEVICE, "health": {"state": "ok", "reason": LONG}}]}),
        ("name", {"processes": [{"pid": 1, "name": LONG}]}),
        ("pod", {"processes": [{"pid": 1, "owner": {"kind": "pod", "pod": LONG}}]}),
        (
            "resources",
            {
                "pod_usages": [
                    {"device": "a", "namespace": "b", "pod": "c", "container": "d", "resources": [LONG]}
                ]
            },
        ),
        ("node_labels", {"node_labels": [["rack", LONG]]}),
        ("labels", {"labels": [[LONG, "7"]]}),
        ("version", {"agent": {"version": LONG, "started_at": 1.0}}),
    ],
)
def test_a_long_text_is_truncated_and_its_field_is_listed(
    decode: Any, name: str, members: dict[str, Any]
) -> None:
    result = decode(json.dumps({**MINIMAL, "devices": [DEVICE], **members}).encode())
    assert result.remark == f"texts of more than {TEXT_LIMIT} characters were truncated: {name}"
    assert not result.whole
    assert LONG not in str(result.snapshot)
    assert "x" * (TEXT_LIMIT - 1) + "…" in str(result.snapshot)


@pytest.mark.parametrize("decode", [decode_light, decode_snapshot])
def test_a_text_of_the_maximum_length_is_kept(decode: Any) -> None:
    result = decode(written({**DEVICE, "model": "é" * TEXT_LIMIT}))
    assert (result.whole, result.snapshot.devices[0].model) == (True, "é" * TEXT_LIMIT)


def test_a_large_document_with_a_long_text_is_rejected_with_its_field() -> None:
    with pytest.raises(SnapshotTooLarge, match=r"more than 1024 characters in devices\[0\]\.model"):
        decode_light(written({**DEVICE, "model": "x" * (2 << 20)}))


async def test_a_long_text_of_an_agent_is_truncated() -> None:
    cluster = StubCluster()
    short, huge = document(), document()
    short["devices"][0]["model"] = LONG
    huge["devices"][0]["model"] = "x" * (15 << 20)
    cluster.add_agent("agent-a", "node-a", answering(short))
    cluster.add_agent("agent-b", "node-b", answering(huge))
    async with agents_of(cluster, timeout_seconds=60.0) as agents:
        outcome, updates = await one_round(agents)
    cut_in(updates["node-a"], "model")
    failure = updates["node-b"]
    assert isinstance(failure, NodeFailure)
    assert (failure.reason, failure.incompatible) == ("too_large", False)
    assert "more than 1024 characters in devices[0].model" in failure.text
    assert outcome.answered == 1


async def test_a_large_document_with_unknown_fields_is_rejected() -> None:
    noise = os.urandom(3 << 20).hex()  # compresses to half
    body = gzip.compress(json.dumps({**document(), "invented": noise}).encode(), 1)

    async def invents(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    cluster = StubCluster()
    cluster.add_agent("agent-a", "node-a", invents)
    cluster.add_agent("agent-b", "node-b", answering(document()))
    cluster.add_agent("agent-c", "node-b", invents)
    async with agents_of(cluster, timeout_seconds=60.0) as agents:
        _, updates = await one_round(agents)
    failure = updates["node-a"]
    assert isinstance(failure, NodeFailure)
    assert failure.reason == "too_large"
    assert "do not compress" in failure.text
    assert isinstance(updates["node-b"], NodeReport)


async def test_many_agents_with_too_large_documents_do_not_delay_others() -> None:
    cluster = StubCluster()
    huge = document()
    huge["devices"][0]["model"] = "x" * (2 << 20)
    for number in range(20):
        cluster.add_agent(f"agent-{number:02}", f"node-{number:02}", answering(huge))
    cluster.add_agent("agent-99", "node-99", answering(document()))
    async with agents_of(cluster, concurrency=1, timeout_seconds=60.0) as agents:
        _, updates = await one_round(agents)
    assert isinstance(updates["node-99"], NodeReport)


async def test_a_long_text_of_a_command_is_truncated() -> None:
    def prints(pod: str, command: list[str]) -> tuple[str, int]:
        text, code = smi(pod, command)
        return text.replace(VALUES["name"], LONG).replace("GPU-a", f"GPU-{LONG}").replace(
            "python", LONG
        ), code

    async with drivers_of(clusters_with(prints)) as driver:
        _, updates = await one_round(driver)
    report = updates["node-0"]
    assert isinstance(report, NodeReport), report
    assert len(report.snapshot.devices) == 2
    assert "x" * TEXT_LIMIT not in str(report.snapshot)


def test_the_number_of_stored_device_addresses_is_limited() -> None:
    rounds = 0

    def invents(pod: str, command: list[str]) -> tuple[str, int]:
        if command[1] == "pmon":
            return smi(pod, command)
        fields = command[1].removeprefix("--query-gpu=").split(",")
        rows = (
            row(0, fields).replace(":01:00.0", f":{n % 256:02X}:{n // 256:02X}.{rounds}") for n in range(900)
        )
        return "".join(f"{line}\n" for line in rows), 0

    async def go() -> None:
        nonlocal rounds
        async with drivers_of(clusters_with(invents)) as driver:
            for number in range(4):
                rounds = number
                await one_round(driver)
            assert 0 < len(driver._nodes["node-0"].ids_by_address) <= _MAX_ADDRESSES

    run(go())


async def test_a_long_text_of_an_annotation_is_truncated() -> None:
    entry = {"id": "amd:a", "vendor": "amd", "model": LONG}
    text = json.dumps({"timestamp": timestamp(1.8e9), "devices": [entry]})
    async with source_of(annotated(neutral=text)) as source:
        _, updates = await one_round(source)
    cut_in(updates["node-a"], "model")


async def test_a_long_label_of_a_store_is_truncated() -> None:
    store = StubStore([agent(node("n1", LONG)), agent(node(LONG, "b"), instance="other:9400")], NOW)
    async with reading(store.answer) as cluster:
        [report] = await cluster.reports()
    assert report.node == "n1"  # a node name of that length is ignored
    cut_in(report, "id")
