"""Nodes read from annotations of Node objects."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.api_server.served import session_at
from tests.fleet.sources.stub_cluster import StubCluster, access_to, node, one_round

from accelscope.fleet.api_server.objects import decode_node
from accelscope.fleet.rows import NodeFailure, NodeReport, NodeUnchanged, SourceOutcome
from accelscope.fleet.sources.annotations import AnnotationsSource, BadAnnotation, read_annotation
from accelscope.fleet.sources.round import LoopThrottle
from accelscope.kube.listwatch import all_nodes
from accelscope.model import HealthState, Snapshot, Vendor
from accelscope.model.snapshot import AgentState
from accelscope.sinks.documents import devices_document, fit, timestamp, vendor_document
from accelscope.vendors.ascend import VENDOR as ASCEND

NPU, NEUTRAL = "k8s-monitor.io/npu-metrics", "accelscope.io/devices"
npu_metrics, neutral_devices = partial(read_annotation, NPU), partial(read_annotation, NEUTRAL)
CHIP = {
    "npu": 2,
    "chip": 0,
    "phy_id": 4,
    "bus_id": "0000:C1:00.0",
    "health": "Alarm",
    "power": 92.4,
    "temp": 51,
    "aicore": 73,
    "hbm_used": 2048,
    "hbm_total": 65536,
}


def npu(*chips: dict[str, Any], at: float | None = None) -> str:
    return json.dumps({"timestamp": timestamp(time.time() if at is None else at), "chips": list(chips)})


@asynccontextmanager
async def source_of(cluster: StubCluster) -> AsyncIterator[AnnotationsSource]:
    async with cluster.running() as server, session_at(access_to(server)) as session:
        nodes = session.informer(all_nodes(), decode=decode_node, key=lambda each: each.name)
        try:
            yield AnnotationsSource(nodes, loop_throttle=LoopThrottle())
        finally:
            await nodes.close()


def annotated(**annotations: str) -> StubCluster:
    cluster = StubCluster()
    keys = {"npu": NPU, "neutral": NEUTRAL}
    cluster.nodes["node-a"] = node(
        "node-a", annotations={keys[key]: text for key, text in annotations.items()}
    )
    cluster.nodes["node-b"] = node("node-b")
    return cluster


async def test_devices_of_a_node_are_read_from_its_annotation() -> None:
    written = time.time() - 30
    async with source_of(annotated(npu=npu(CHIP, at=written))) as source:
        outcome, updates = await one_round(source)
        assert outcome == SourceOutcome(up=True, expected=1, answered=1)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert abs(report.taken_at - written) <= 1
        [device] = report.snapshot.devices
        assert device.vendor is Vendor("ascend")
        assert device.id == "ascend:0000:c1:00.0-npu-2-0"
        assert (device.board_id, device.chip_id, device.physical_id) == (2, 0, 4)
        assert device.health.state is HealthState.CRITICAL
        assert device.health.vendor_word == "Alarm"
        assert device.power_watts == 92.4
        assert device.utilization_ratio == 0.73
        assert device.memory_total_bytes == 64 << 30
        assert source.sees_accelerators()
        _, updates = await one_round(source)
        assert isinstance(updates["node-a"], NodeUnchanged)


async def test_a_clock_that_is_ahead_does_not_make_a_reading_newer_than_now() -> None:
    async with source_of(annotated(npu=npu(CHIP, at=time.time() + 86400))) as source:
        _, updates = await one_round(source)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert report.taken_at <= time.time()


async def test_our_annotation_takes_precedence_for_the_same_vendor() -> None:
    ours = json.dumps(
        {
            "timestamp": timestamp(time.time()),
            "devices": [
                {"id": "ascend:SERIAL-0", "vendor": "ascend", "health": "ok", "power_watts": 90.0},
                {"id": "nvidia:GPU-1", "vendor": "nvidia", "health": "warning", "index": 0},
            ],
        }
    )
    async with source_of(annotated(npu=npu(CHIP, at=1000.0), neutral=ours)) as source:
        _, updates = await one_round(source)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert [device.id for device in report.snapshot.devices] == ["ascend:SERIAL-0", "nvidia:GPU-1"]
        assert report.taken_at > 1000.0


async def test_agents_of_several_vendors_write_an_annotation_each() -> None:
    def ours(vendor: str) -> str:
        devices = [{"id": f"{vendor}:1", "vendor": vendor, "health": "ok"}]
        return json.dumps({"timestamp": timestamp(time.time()), "devices": devices})

    cluster = StubCluster()
    keys = {f"{NEUTRAL}.{vendor}": ours(vendor) for vendor in ("nvidia", "furiosa")}
    cluster.nodes["node-a"] = node("node-a", annotations=keys)
    async with source_of(cluster) as source:
        _, updates = await one_round(source)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert sorted(device.id for device in report.snapshot.devices) == ["furiosa:1", "nvidia:1"]


async def test_an_unreadable_annotation_among_several_is_named() -> None:
    async with source_of(annotated(npu=npu(CHIP), neutral="{not json")) as source:
        _, updates = await one_round(source)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert [device.id for device in report.snapshot.devices] == ["ascend:0000:c1:00.0-npu-2-0"]
        assert report.remark is not None
        assert report.remark.startswith(f"{NEUTRAL}: ")


async def test_garbage_is_a_failure_of_its_node_only() -> None:
    cluster = annotated(npu="{not json")
    cluster.nodes["node-c"] = node("node-c", annotations={NPU: npu(CHIP)})
    async with source_of(cluster) as source:
        outcome, updates = await one_round(source)
        failure = updates["node-a"]
        assert isinstance(failure, NodeFailure)
        assert failure.reason == "bad_answer"
        assert NPU in failure.text
        assert isinstance(updates["node-c"], NodeReport)
        assert (outcome.up, outcome.answered) == (True, 1)

        cluster.put("nodes", node("node-a", annotations={NPU: npu(CHIP)}))
        for _ in range(200):
            _, updates = await one_round(source)
            if not isinstance(updates["node-a"], NodeFailure):
                break
        assert isinstance(updates["node-a"], NodeReport)


def test_documents_of_our_own_sink_are_read() -> None:
    chips = npu_metrics(npu(CHIP)).devices
    snapshot = Snapshot(
        node="n", taken_at=1_700_000_000.0, agent=AgentState(version="1", started_at=0.0), devices=chips
    )
    read_back = npu_metrics(fit(vendor_document(ASCEND, snapshot)).text)
    assert read_back.written_at == snapshot.taken_at
    assert read_back.devices == chips
    [neutral] = neutral_devices(fit(devices_document(snapshot)).text).devices
    assert (neutral.id, neutral.utilization_ratio) == (chips[0].id, 0.73)
    assert neutral.memory_total_bytes == chips[0].memory_total_bytes


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("2026-01-02T03:04:05Z", 1767323045.0),
        ("2026-01-02T03:04:05.123456789Z", 1767323045.123456),
        ("2026-01-02T05:04:05+02:00", 1767323045.0),
    ],
)
def test_times_in_the_format_of_go_are_read(stamp: str, seconds: float) -> None:
    assert npu_metrics(json.dumps({"timestamp": stamp, "chips": []})).written_at == pytest.approx(seconds)


@pytest.mark.parametrize(
    "chip",
    [
        {},
        {"npu": "0"},
        {"npu": None},
        {"npu": -1},
        {"npu": 1e300},
        {"chip": 0, "health": "OK"},
    ],
)
def test_entries_without_an_id_are_omitted(chip: dict[str, Any]) -> None:
    assert len(npu_metrics(npu(chip, CHIP)).devices) == 1
    with pytest.raises(BadAnnotation):
        npu_metrics(npu(chip))


def test_invalid_values_are_absent() -> None:
    [device] = npu_metrics(
        npu({"npu": 0, "chip": 0, "temp": "hot", "power": True, "aicore": 1e300, "hbm_used": None})
    ).devices
    assert device.temperature_celsius is None
    assert device.power_watts is None
    assert device.utilization_ratio is None
    assert device.memory_used_bytes is None
    assert device.health.state is HealthState.UNKNOWN


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*CHIP, "id", "vendor"]), inner)
    ),
    max_leaves=20,
)


@given(st.sampled_from([npu_metrics, neutral_devices]), _JSON | st.just("2026-01-02T03:04:05Z"), _JSON)
def test_any_text_is_read_as_devices_or_rejected(read: Any, stamp: Any, entries: Any) -> None:
    text = json.dumps({"timestamp": stamp, "chips": entries, "devices": entries})
    with suppress(BadAnnotation):
        assert read(text).written_at
