"""device_state of three RNGDs, 0, 1 and 2: everything that follows from it has the vendor's meaning."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.deviceplugin.running_plugin import settings_of
from tests.files import put
from tests.metrics.dialect_nodes import node as node_snapshot

from accelscope.deviceplugin.app import Plugin
from accelscope.deviceplugin.settings import load_settings
from accelscope.metrics import dialects
from accelscope.metrics.exposition import Exposition
from accelscope.model import Device, HealthState
from accelscope.simulate import SimulatedNode
from accelscope.sinks.documents import feature_labels
from accelscope.vendors.furiosa.reader import FuriosaReader
from accelscope.vendors.furiosa.simulated.driver import FuriosaDriver

MakeNode = Callable[..., SimulatedNode]
StartPlugin = Callable[..., Plugin]

NPU = "beta.furiosa.ai/npu"


@pytest.fixture
def node(make_node: MakeNode) -> SimulatedNode:
    made = make_node("node: r\nfuriosa: {devices: [{model: rngd, count: 3}]}\n")
    for card in range(3):
        put(state_file(made, card), f"{card}\n")
    return made


def state_file(node: SimulatedNode, card: int) -> Path:
    return node.folder / f"sys/class/rngd_mgmt/rngd!npu{card}mgmt/device_state"


def read(node: SimulatedNode) -> list[Device]:
    reader = FuriosaReader(load_settings(settings_of(node), {}).settings.reader_options)
    return [reader.read(key).device for key in reader.survey().keys]


def test_health_is_ok_for_0_and_critical_for_the_others(node: SimulatedNode) -> None:
    states = [device.health.state for device in read(node)]
    assert states == [HealthState.OK, HealthState.CRITICAL, HealthState.CRITICAL]


def test_the_kubelet_gets_the_card_with_0_only(
    node: SimulatedNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    first, second, third = (card.uuid for card in node.readings(FuriosaDriver))
    start_plugin(node)
    expected = {first: "Healthy", second: "Unhealthy", third: "Unhealthy"}
    kubelet.wait_for(NPU, lambda health: health == expected, "one healthy card")
    put(state_file(node, 1), "0\n")
    kubelet.wait_for(NPU, lambda health: health == expected | {second: "Healthy"}, "the second card alive")


@pytest.mark.parametrize("dialect", ["furiosa", "furiosa-2025"])
def test_furiosas_own_metric_is_1_for_0_only(node: SimulatedNode, dialect: str) -> None:
    snapshot = node_snapshot(*read(node))
    text = Exposition(dialects=dialects.load((dialect,))).render(snapshot).text.decode()
    alive = re.findall(r'^furiosa_npu_alive\{.*device="(npu\d)".*\} (\d)$', text, re.MULTILINE)
    assert alive == [("npu0", "1"), ("npu1", "0"), ("npu2", "0")]
    states = re.findall(r'^accelerator_health\{.*index="(\d)".*state="(\w+)".*\} 1$', text, re.MULTILINE)
    assert states == [("0", "ok"), ("1", "critical"), ("2", "critical")]


def test_the_node_label_counts_cards_that_are_not_alive_as_the_vendors_library_lists_them(
    node: SimulatedNode,
) -> None:
    labels = feature_labels(read(node))
    assert (labels["furiosa.ai/npu.count"], labels["accelscope.io/furiosa.count"]) == ("3", "3")
