"""Changed settings while devices are allocated: an allocated device keeps its layout until it is free."""

import stat
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.files import put
from tests.waiting import wait_until

from accelscope.deviceplugin.app import Plugin
from accelscope.deviceplugin.kubelet import Timeouts
from accelscope.simulate import SimulatedNode
from accelscope.vendors.furiosa.simulated.driver import FuriosaDriver

MakeNode = Callable[..., SimulatedNode]
StartPlugin = Callable[..., Plugin]
Edit = Callable[[str], None]

NPU = "beta.furiosa.ai/npu"
WARBOYS = "node: w\nfuriosa:\n  devices: [{model: warboy, count: 2}]\n"
RNGDS = "node: r\nfuriosa:\n  devices: [{model: rngd, count: 2}]\n"


def uuids(node: SimulatedNode) -> list[str]:
    return [card.uuid for card in node.readings(FuriosaDriver)]


@pytest.fixture
def file(tmp_path: Path, plugin_folder: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(f"interval: 0.1\npluginDir: {plugin_folder}\n")
    return path


@pytest.fixture
def edit(file: Path, plugin_folder: Path) -> Edit:
    return lambda text: put(file, f"interval: 0.1\npluginDir: {plugin_folder}\n{text}")


def cores(uuid: str) -> set[str]:
    return {f"{uuid}_cores_{core}" for core in (0, 1)}


def test_a_card_that_is_allocated_whole_is_not_offered_by_the_core(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    file: Path,
    edit: Edit,
    logged: list[str],
) -> None:
    node = make_node(WARBOYS)
    first, second = uuids(node)
    start_plugin(node, file=file)
    kubelet.wait_for(NPU, lambda health: set(health) == {first, second}, "whole cards")
    kubelet.allocated = {NPU: [first]}
    edit("defaultPe: Single\n")
    kubelet.wait_for(NPU, lambda health: len(health) == 3, "another cut")
    assert set(kubelet.ids(NPU)) == {first, *cores(second)}
    wait_until(lambda: any("until it is free" in line and first in line for line in logged), "logged")
    with kubelet.client(NPU) as client, pytest.raises(grpc.RpcError, match="unknown device id"):
        client.allocate([f"{first}_cores_0"])
    kubelet.allocated = {}
    kubelet.wait_for(NPU, lambda health: set(health) == {*cores(first), *cores(second)}, "single cores")
    assert sum("until it is free" in line for line in logged) == 1


def test_a_card_with_an_allocated_core_is_not_offered_whole(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, file: Path, edit: Edit
) -> None:
    node = make_node(WARBOYS)
    first, second = uuids(node)
    edit("defaultPe: Single\n")
    start_plugin(node, file=file)
    kubelet.wait_for(NPU, lambda health: len(health) == 4, "single cores")
    kubelet.allocated = {NPU: [f"{second}_cores_1"]}
    edit("")
    kubelet.wait_for(NPU, lambda health: set(health) == {first, *cores(second)}, "one whole card")
    kubelet.allocated = {}
    kubelet.wait_for(NPU, lambda health: set(health) == {first, second}, "whole cards")


def test_a_starting_plugin_asks_the_kubelet_for_allocated_devices(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(WARBOYS)
    first, second = uuids(node)
    kubelet.allocated = {NPU: [first]}
    start_plugin(node, default_pe="Single")
    kubelet.wait_for(NPU, len, "something")
    assert set(kubelet.ids(NPU)) == {first, *cores(second)}


def test_a_starting_plugin_offers_nothing_until_the_allocated_devices_are_known(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str]
) -> None:
    node = make_node(WARBOYS)
    first, second = uuids(node)
    kubelet.allocated = None
    start_plugin(node, default_pe="Single")
    wait_until(lambda: any("nothing is offered" in line for line in logged), "logged")
    time.sleep(0.5)  # several looks at the devices
    assert NPU not in kubelet.lists
    kubelet.allocated = {NPU: [first]}
    kubelet.wait_for(NPU, len, "something")
    assert set(kubelet.ids(NPU)) == {first, *cores(second)}
    assert sum("nothing is offered" in line for line in logged) == 1


def test_a_starting_plugin_does_not_wait_forever_for_the_allocated_devices(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str]
) -> None:
    node = make_node(WARBOYS)
    kubelet.allocated = None
    quick = Timeouts(first_retry=0.1, longest_retry=0.3, stream=1.0, takeover=0.5, first_answer=0.5)
    start_plugin(node, default_pe="Single", timeouts=quick)
    kubelet.wait_for(NPU, lambda health: len(health) == 4, "single cores")
    assert sum("as if none were allocated" in line for line in logged) == 1


def test_a_plugin_without_a_pod_resources_socket_does_not_wait(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str]
) -> None:
    start_plugin(make_node(WARBOYS), default_pe="Single", pod_resources_socket="")
    kubelet.wait_for(NPU, lambda health: len(health) == 4, "single cores")
    assert not [line for line in logged if "nothing is offered" in line]


def test_a_new_allocation_counts_before_the_kubelet_lists_it(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, file: Path, edit: Edit
) -> None:
    node = make_node(WARBOYS)
    first, second = uuids(node)
    start_plugin(node, file=file)
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "whole cards")
    with kubelet.client(NPU) as client:
        client.allocate([second])
    edit("defaultPe: Single\n")
    kubelet.wait_for(NPU, lambda health: set(health) == {*cores(first), second}, "one card in cores")


@pytest.mark.parametrize(
    ("before", "held", "after", "offered"),
    [
        ("", ["{0}"], "shares: 2\n", {"{0}", "{1}::0", "{1}::1"}),
        ("shares: 3\n", ["{0}::2"], "", {"{0}::0", "{0}::1", "{0}::2", "{1}"}),
        ("shares: 2\n", ["{0}::0"], "shares: 3\n", {f"{{{n}}}::{k}" for n in (0, 1) for k in range(3)}),
    ],
)
def test_an_allocated_card_keeps_its_shares(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    file: Path,
    edit: Edit,
    before: str,
    held: list[str],
    after: str,
    offered: set[str],
) -> None:
    node = make_node(WARBOYS)
    edit(before)
    start_plugin(node, file=file)
    kubelet.wait_for(NPU, len, "cards")
    kubelet.allocated = {NPU: [each.format(*uuids(node)) for each in held]}
    edit(after)
    kubelet.wait_for(NPU, lambda h: set(h) == {each.format(*uuids(node)) for each in offered}, "shares")


def test_another_layout_waits_until_the_allocated_devices_are_known(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    file: Path,
    edit: Edit,
    logged: list[str],
) -> None:
    node = make_node(WARBOYS)
    start_plugin(node, file=file)
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "whole cards")
    kubelet.allocated = None
    edit("defaultPe: Single\n")
    wait_until(lambda: any("allocated devices are unknown" in line for line in logged), "logged")
    assert set(kubelet.ids(NPU)) == set(uuids(node))
    kubelet.allocated = {NPU: [uuids(node)[0]]}
    kubelet.wait_for(NPU, lambda health: len(health) == 3, "the free card in cores")


def test_a_card_allocated_under_another_of_our_resources_is_withheld(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str]
) -> None:
    node = make_node(RNGDS)
    first, second = uuids(node)
    kubelet.allocated = {NPU: [first]}
    start_plugin(node, partition="quad-core")
    parts = "furiosa.ai/rngd-4core.24gb"
    kubelet.wait_for(parts, len, "partitions")
    assert set(kubelet.ids(parts)) == {f"{second}_cores_0-3", f"{second}_cores_4-7"}
    assert any("not offered" in line and first in line and NPU in line for line in logged)
    kubelet.allocated = {}
    kubelet.wait_for(parts, lambda health: len(health) == 4, "all partitions")


def test_the_socket_is_for_its_owner_only(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, plugin_folder: Path
) -> None:
    start_plugin(make_node(WARBOYS))
    kubelet.wait_for(NPU, len, "cards")
    mode = (plugin_folder / "furiosa-npu.sock").stat().st_mode
    assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)


def test_a_card_with_a_masked_uuid_is_offered_by_its_address_also_while_it_is_alone(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(RNGDS.replace("count: 2", "count: 1"))
    masked = "00000000-0000-0000-0000-000000000000\n"
    put(node.folder / "sys/class/rngd_mgmt/rngd!npu0mgmt/device_uuid", masked)
    start_plugin(node)
    kubelet.wait_for(NPU, len, "a card")
    assert kubelet.ids(NPU) == [node.readings(FuriosaDriver)[0].address]


@pytest.mark.parametrize(
    ("written", "flags"),
    [
        ("socketName: furiosa-npu\n", {}),
        ("socketName: furiosa-npu.sock\n", {}),
        ("resourceName: beta.furiosa.ai/npu\n", {}),
        ("vendor: furiosa\n", {}),
        ("hostSysRoot: {sys}\n", {}),
        ("hostDevRoot: {dev}\n", {}),
    ],
)
def test_a_key_with_the_default_value_can_be_removed_and_added_without_a_restart(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    file: Path,
    edit: Edit,
    logged: list[str],
    written: str,
    flags: dict[str, object],
) -> None:
    node = make_node(WARBOYS)
    text = written.format(sys=node.folder / "sys", dev=node.folder / "dev")
    edit(text)
    start_plugin(node, file=file, **flags)
    kubelet.wait_for(NPU, len, "cards")
    for number, new in enumerate(("shares: 2\n", f"{text}shares: 3\n"), 2):
        edit(new)
        kubelet.wait_for(NPU, lambda health, n=number: len(health) == 2 * n, "shares")  # type: ignore[misc]
    wait_until(lambda: sum("was taken up" in line for line in logged) == 2, "logged")
    assert not [line for line in logged if "restart" in line]
