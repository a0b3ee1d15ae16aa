"""A plugin on a simulated node with a fake kubelet: offers, allocations, health, restarts and reloads."""

import http.client
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.files import put
from tests.programs import script
from tests.waiting import wait_until

from accelscope.attribution.device_ids import DeviceIndex, ResolvedDevice, resolve
from accelscope.deviceplugin.app import Plugin
from accelscope.deviceplugin.kubelet import Timeouts
from accelscope.simulate import Fault, FaultKind, SimulatedNode
from accelscope.vendors.furiosa.simulated.driver import FuriosaDriver

MakeNode = Callable[..., SimulatedNode]
StartPlugin = Callable[..., Plugin]

read_openmetrics: Callable[[str], Iterable[Any]] = openmetrics_parser.text_string_to_metric_families

NPU = "beta.furiosa.ai/npu"
WARBOYS = "node: w\nfuriosa:\n  devices: [{model: warboy, count: 2}]\n"
RNGD = "node: r\nfuriosa:\n  devices: [{model: rngd}]\n"
BOTH = "node: b\nfuriosa:\n  devices: [{model: warboy}, {model: rngd}]\n"


def uuids(node: SimulatedNode) -> list[str]:
    return [card.uuid for card in node.readings(FuriosaDriver)]


def get(plugin: Plugin, path: str, accept: str = "text/plain") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", plugin.server.address[1], timeout=30)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def metric(plugin: Plugin, name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(get(plugin, "/metrics")[1]):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    return None


def nodes_of(response: Any, folder: str) -> list[str]:
    """Device nodes by their name in the container; all must be read and write, and the same on the host."""
    for node in response.devices:
        assert node.permissions == "rw"
        assert node.host_path.removeprefix(folder) == node.container_path.removeprefix("/dev")
    return sorted(node.container_path.removeprefix("/dev/") for node in response.devices)


def test_whole_cards(make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin) -> None:
    node = make_node(WARBOYS)
    plugin = start_plugin(node)
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")
    registered = kubelet.registrations[0]
    assert (registered.version, registered.endpoint, registered.resource_name) == (
        "v1beta1",
        "furiosa-npu.sock",
        NPU,
    )
    assert registered.options.get_preferred_allocation_available
    assert kubelet.health(NPU) == dict.fromkeys(uuids(node), "Healthy")
    assert [n.id for d in kubelet.lists[NPU].values() for n in d.topology.nodes] == [
        card.numa_node for card in node.readings(FuriosaDriver)
    ]
    with kubelet.client(NPU) as client:
        assert not client.options().pre_start_required
        first, second = client.allocate([uuids(node)[0]], uuids(node))
        client.pre_start(uuids(node))
    assert dict(first.envs) == {"NPU_DEVNAME": "npu0pe0-1", "NPU_NPUNAME": "npu0", "NPU_PENAME": "pe0-1"}
    assert dict(first.annotations) == {"alpha.furiosa.ai/npu.devname": "npu0pe0-1"}
    assert nodes_of(first, f"{node.folder}/dev") == sorted(
        ["npu0", "npu0_mgmt", "npu0pe0", "npu0pe1", "npu0pe0-1", *(f"npu0ch{n}" for n in range(4))]
    )
    assert [(m.container_path, m.host_path, m.read_only) for m in first.mounts] == [
        (f"/sys/{path}", f"{node.folder}/sys/{path}", True)
        for path in ("class/npu_mgmt", "devices/virtual/npu_mgmt/npu0_mgmt")
    ]
    assert second.envs["NPU_DEVNAME"] == "npu0pe0-1,npu1pe0-1"
    assert metric(plugin, "accelscope_device_plugin_allocations_total") == 1
    wait_until(lambda: metric(plugin, "accelscope_device_plugin_registered") == 1)
    assert metric(plugin, "accelscope_device_plugin_devices", state="healthy") == 2
    assert metric(plugin, "accelscope_device_plugin_since_listened_seconds") == 0
    assert metric(plugin, "accelscope_reader_up", vendor="furiosa") == 1
    wait_until(lambda: get(plugin, "/readyz") == (200, "ok\n"))
    assert list(read_openmetrics(get(plugin, "/metrics", "application/openmetrics-text")[1]))


def test_single_cores(make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin) -> None:
    node = make_node(WARBOYS)
    start_plugin(node, default_pe="single", container_sys_root="/npu/sys", container_dev_root="/npu/dev")
    kubelet.wait_for(NPU, lambda health: len(health) == 4, "four cores")
    assert kubelet.ids(NPU) == [f"{uuid}_cores_{core}" for uuid in uuids(node) for core in (0, 1)]
    with kubelet.client(NPU) as client:
        [answer] = client.allocate([f"{uuids(node)[1]}_cores_1"])
        assert answer.envs["NPU_DEVNAME"] == "npu1pe1"
        names = {device.container_path for device in answer.devices}
        assert "/npu/dev/npu1pe1" in names
        assert names.isdisjoint({"/npu/dev/npu1pe0", "/npu/dev/npu1pe0-1", "/npu/dev/npu1"})
        assert all(mount.container_path.startswith("/npu/sys/") for mount in answer.mounts)


def test_devices_keep_their_order_whatever_the_order_of_the_request(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    """A kubelet sends ids in random order."""
    node = make_node(WARBOYS)
    start_plugin(node, default_pe="single")
    kubelet.wait_for(NPU, lambda health: len(health) == 4, "four cores")
    ids = [f"{uuid}_cores_{core}" for uuid in uuids(node) for core in (0, 1)]
    with kubelet.client(NPU) as client:
        for order in ([3, 0, 2, 1], [0, 1, 2, 3], [2, 3, 1, 0]):
            [answer] = client.allocate([ids[each] for each in order])
            assert answer.envs["NPU_DEVNAME"] == "npu0pe0,npu0pe1,npu1pe0,npu1pe1"


@pytest.mark.parametrize(
    ("partition", "resource", "spans", "files"),
    [
        ("single-core", "furiosa.ai/rngd-1core.6gb", [f"{n}" for n in range(8)], ["npu0pe0"]),
        (
            "dual-core",
            "furiosa.ai/rngd-2core.12gb",
            ["0-1", "2-3", "4-5", "6-7"],
            ["npu0pe0", "npu0pe0-1", "npu0pe1"],
        ),
        ("quad-core", "furiosa.ai/rngd-4core.24gb", ["0-3", "4-7"], None),
    ],
)
def test_partitions_of_rngd(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    partition: str,
    resource: str,
    spans: list[str],
    files: list[str] | None,
) -> None:
    node = make_node(BOTH)
    [_, rngd] = node.readings(FuriosaDriver)
    start_plugin(node, partition=partition)
    kubelet.wait_for(resource, lambda health: len(health) == len(spans), "partitions of the RNGD alone")
    assert kubelet.ids(resource) == [f"{rngd.uuid}_cores_{span}" for span in spans]
    with kubelet.client(resource) as client:
        [answer] = client.allocate([f"{rngd.uuid}_cores_{spans[0]}"])
    assert answer.envs["NPU_DEVNAME"] == f"npu0pe{spans[0]}"
    cores = [n for n in nodes_of(answer, f"{node.folder}/dev") if "pe" in n]
    assert files is None or cores == [f"rngd/{name}" for name in files]
    support = {n for n in nodes_of(answer, f"{node.folder}/dev") if "pe" not in n}
    assert {"rngd/npu0mgmt", "rngd/npu0ch7r", "rngd/npu0dmar", "rngd/npu0bar4"} <= support
    assert "devices/virtual/rngd_mgmt/rngd!npu0mgmt" in answer.mounts[1].container_path


def test_only_rngd_is_partitioned_under_a_custom_resource(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(BOTH)
    [_, rngd] = uuids(node)
    start_plugin(node, partition="single-core", resource_name="example.com/core")
    kubelet.wait_for("example.com/core", len, "cores")
    assert kubelet.ids("example.com/core") == [f"{rngd}_cores_{core}" for core in range(8)]


def test_a_whole_rngd_is_named_by_its_largest_fusions(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(BOTH)
    start_plugin(node, resource_name="furiosa.ai/rngd")
    [_, rngd] = uuids(node)
    kubelet.wait_for("furiosa.ai/rngd", lambda health: set(health) == {rngd}, "the RNGD alone")
    with kubelet.client("furiosa.ai/rngd") as client:
        assert client.allocate([rngd])[0].envs["NPU_DEVNAME"] == "npu0pe0-3,npu0pe4-7"


def test_the_deprecated_annotation_names_warboys_only(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(BOTH)
    start_plugin(node)
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")
    with kubelet.client(NPU) as client:
        [answer] = client.allocate(uuids(node))
        [rngd] = client.allocate(uuids(node)[1:])
    assert sorted(answer.envs["NPU_DEVNAME"].split(",")) == ["npu0pe0-1", "npu0pe0-3", "npu0pe4-7"]
    assert dict(answer.annotations) == {"alpha.furiosa.ai/npu.devname": "npu0pe0-1"}
    assert dict(rngd.annotations) == {}


def test_cdi_names_on_request(make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin) -> None:
    node = make_node(RNGD)
    start_plugin(node, cdi="true")
    kubelet.wait_for(NPU, len, "a card")
    with kubelet.client(NPU) as client:
        [answer] = client.allocate(uuids(node))
    assert [device.name for device in answer.cdi_devices] == ["furiosa.ai/npu=npu0"]
    assert [*answer.devices, *answer.mounts, *answer.envs] == []


def test_shares(make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin) -> None:
    node = make_node(WARBOYS)
    start_plugin(node, shares="3")
    kubelet.wait_for(NPU, lambda health: len(health) == 6, "two cards three times")
    assert kubelet.ids(NPU) == [f"{uuid}::{share}" for uuid in uuids(node) for share in range(3)]
    with kubelet.client(NPU) as client:
        [answer] = client.allocate([f"{uuids(node)[0]}::1", f"{uuids(node)[0]}::2"])
        assert answer.envs["NPU_DEVNAME"] == "npu0pe0-1"
        chosen = client.preferred(kubelet.ids(NPU), [f"{uuids(node)[1]}::0"], 2)
        assert {each.partition("::")[0] for each in chosen} == {uuids(node)[1]}


OTHERS = [
    ("amd-radeon", "amd", "amd.com/gpu"),
    ("amd-mi300-cpx", "amd", "amd.com/gpu"),
    ("ascend-910b-x8", "ascend", "huawei.com/Ascend910"),
    ("ascend-310p", "ascend", "huawei.com/Ascend310P"),
    ("nvidia-mig", "nvidia", "nvidia.com/gpu"),
    ("furiosa-both", "furiosa", NPU),
]


@pytest.mark.parametrize(("name", "vendor", "resource"), OTHERS)
def test_attribution_resolves_every_id(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    name: str,
    vendor: str,
    resource: str,
) -> None:
    node = make_node(name)
    plugin = start_plugin(node, vendor=vendor, shares="2")
    kubelet.wait_for(resource, len, "devices")
    offers = plugin._inventory.by_id
    index = DeviceIndex({offer.device.id: offer.device for offer in offers.values()}.values())
    assert offers
    for each in kubelet.ids(resource):
        for one in (each, each.removesuffix("::0").removesuffix("::1")):  # with shares and without
            assert resolve(one, resource, index) == ResolvedDevice(offers[each].device.id)  # all of it
        assert len(each) <= 63


def test_amd_containers(make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin) -> None:
    node = make_node("amd-mi300-cpx")
    start_plugin(node, vendor="amd")
    kubelet.wait_for("amd.com/gpu", lambda health: len(health) == 2, "two GPUs")
    assert kubelet.registrations[-1].endpoint == "accelscope-amd.sock"
    first, second = sorted(kubelet.ids("amd.com/gpu"))
    with kubelet.client("amd.com/gpu") as client:
        [answer] = client.allocate([second])
        names = nodes_of(answer, f"{node.folder}/dev")
        [both] = client.allocate([first, second])
    assert "kfd" in names
    assert sum(name.startswith("dri/render") for name in names) == 8  # its partitions'
    assert sum(name.startswith("dri/card") for name in names) == 1
    assert set(names) < set(nodes_of(both, f"{node.folder}/dev"))


@pytest.mark.parametrize(
    ("name", "vendor", "missing"),
    [("amd-radeon", "amd", "kfd"), ("ascend-310p", "ascend", "hisi_hdc"), (WARBOYS, "furiosa", "npu0pe0*")],
)
def test_a_device_without_its_files_is_not_allocated(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    name: str,
    vendor: str,
    missing: str,
) -> None:
    node = make_node(name)
    start_plugin(node, vendor=vendor, interval="3600")
    wait_until(lambda: any(kubelet.lists.values()), "devices")
    [resource] = kubelet.lists
    for path in [
        *(node.folder / "dev").glob(missing),
        *(node.folder / "dev").glob("npu0pe1"),
        node.folder / "dev/npu0",
    ]:
        path.unlink(missing_ok=True)
    with kubelet.client(resource) as client, pytest.raises(grpc.RpcError) as caught:
        client.allocate([kubelet.ids(resource)[0]])
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert f"{node.folder}/dev" in caught.value.details()


def test_ascend_containers(make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin) -> None:
    node = make_node("ascend-910b-x8")
    start_plugin(node, vendor="ascend")
    kubelet.wait_for("huawei.com/Ascend910", lambda health: len(health) == 8, "eight chips")
    with kubelet.client("huawei.com/Ascend910") as client:
        [answer] = client.allocate(["Ascend910-5", "Ascend910-2"])
    assert nodes_of(answer, f"{node.folder}/dev") == [
        "davinci2",
        "davinci5",
        "davinci_manager",
        "devmm_svm",
        "hisi_hdc",
    ]
    assert answer.envs["ASCEND_VISIBLE_DEVICES"] == "2,5"
    driver = f"{node.folder}/opt/Ascend/driver"
    assert (driver, True) in [(mount.host_path, mount.read_only) for mount in answer.mounts]


@pytest.mark.parametrize("cdi", ["false", "true"])
def test_nvidia_containers(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, cdi: str
) -> None:
    node = make_node("nvidia-mixed")
    start_plugin(node, vendor="nvidia", cdi=cdi)
    kubelet.wait_for("nvidia.com/gpu", len, "GPUs")
    ids = kubelet.ids("nvidia.com/gpu")[:2]
    with kubelet.client("nvidia.com/gpu") as client:
        [answer] = client.allocate(ids)
    assert all(each.startswith("GPU-") for each in ids)
    named = [device.name for device in answer.cdi_devices]
    assert (named, dict(answer.envs)) == (
        ([f"nvidia.com/gpu={each}" for each in ids], {})
        if cdi == "true"
        else ([], {"NVIDIA_VISIBLE_DEVICES": ",".join(ids)})
    )


def test_an_unknown_id_is_rejected(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    plugin = start_plugin(make_node(WARBOYS))
    kubelet.wait_for(NPU, len, "cards")
    with kubelet.client(NPU) as client:
        for containers in (["nobody"], [kubelet.ids(NPU)[0], "x" * 5000], []):
            with pytest.raises(grpc.RpcError) as caught:
                client.allocate(containers)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "2 ids are offered" in caught.value.details()
        assert client.allocate([kubelet.ids(NPU)[0]])
    assert metric(plugin, "accelscope_device_plugin_allocation_errors_total", reason="unknown_id") == 3


def test_a_malformed_request_affects_only_its_caller(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, plugin_folder: Path
) -> None:
    start_plugin(make_node(WARBOYS))
    kubelet.wait_for(NPU, len, "cards")
    with kubelet.client(NPU) as client:
        with pytest.raises(grpc.RpcError):
            client.raw("Allocate", b"\xff\xff\xff")
        with pytest.raises(grpc.RpcError) as caught:
            client.raw("Nothing", b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(plugin_folder / "furiosa-npu.sock"))
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.preferred([], [], 3) == []
        assert client.preferred(["who"], ["knows"], -1) == ["knows"]
        assert client.allocate([kubelet.ids(NPU)[0]])


def test_device_names_are_looked_up_at_allocation(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(WARBOYS)
    start_plugin(node, interval="3600")  # only the first check runs
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")
    first, second = uuids(node)
    node.set_faults([Fault(kind=FaultKind.VANISHED, device=0)])  # npu1 moves up
    with kubelet.client(NPU) as client:
        assert client.allocate([second])[0].envs["NPU_DEVNAME"] == "npu0pe0-1"
        with pytest.raises(grpc.RpcError) as caught:
            client.allocate([first])
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert first in caught.value.details()


def test_a_device_becomes_unhealthy_and_healthy_again(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(WARBOYS)
    plugin = start_plugin(node)
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")
    first, second = uuids(node)
    node.set_faults([Fault(kind=FaultKind.RESET_REQUIRED, device=1)])
    kubelet.wait_for(NPU, lambda h: h == {first: "Healthy", second: "Unhealthy"}, "the second card unhealthy")
    assert metric(plugin, "accelscope_device_plugin_devices", state="unhealthy") == 1
    node.set_faults([])
    kubelet.wait_for(NPU, lambda h: h == dict.fromkeys((first, second), "Healthy"), "both healthy again")
    node.set_faults([Fault(kind=FaultKind.VANISHED, device=0)])
    kubelet.wait_for(NPU, lambda h: h == {second: "Healthy"}, "the first card gone")
    node.set_faults([])
    kubelet.wait_for(NPU, lambda h: len(h) == 2, "the first card back")


def test_a_card_that_hangs_is_unhealthy_and_does_not_delay_the_others(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(WARBOYS)
    start_plugin(node, device_timeout="0.3", reader_timeout="2")
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")
    first, second = uuids(node)
    node.set_faults([Fault(kind=FaultKind.HANG, device=0)])
    kubelet.wait_for(NPU, lambda h: h == {first: "Unhealthy", second: "Healthy"}, "the hung card unhealthy")
    node.set_faults([])
    kubelet.wait_for(NPU, lambda h: set(h.values()) == {"Healthy"}, "both healthy")


def test_a_disabled_device_is_not_unhealthy(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(WARBOYS)
    plugin = start_plugin(node, disabled_devices="npu0")
    kubelet.wait_for(NPU, len, "a card")
    assert kubelet.health(NPU) == {uuids(node)[1]: "Healthy"}
    assert metric(plugin, "accelscope_device_plugin_devices", state="disabled") == 1


def attribute(node: SimulatedNode, card: int, name: str) -> Path:
    """A file of the driver's, of a Warboy."""
    return node.folder / f"sys/class/npu_mgmt/npu{card}_mgmt" / name


@pytest.mark.parametrize("text", ["", "\n", "\x01\x02 garbage", "garbage"])
def test_a_card_with_an_unreadable_uuid_is_not_listed_twice(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str], text: str
) -> None:
    node = make_node(WARBOYS)
    first, second = uuids(node)
    start_plugin(node, disabled_devices=second)
    kubelet.wait_for(NPU, lambda health: health == {first: "Healthy"}, "the card that is not disabled")
    files = [attribute(node, card, "device_uuid") for card in (0, 1)]
    for file in files:
        put(file, text)
    kubelet.wait_for(NPU, lambda health: health != {first: "Healthy"}, "an effect, after three checks")
    assert kubelet.health(NPU) == {first: "Unhealthy"}
    assert any("unhealthy" in line and "uuid cannot be read" in line for line in logged)
    for file, uuid in zip(files, (first, second), strict=True):
        put(file, f"{uuid}\n")
    kubelet.wait_for(NPU, lambda health: health == {first: "Healthy"}, "as before")
    assert sum("offered" in line for line in logged) == 1  # at the start, and nothing since


def test_a_card_is_allocated_by_its_pci_address_only_while_no_other_card_is_there(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(WARBOYS)
    start_plugin(node, interval="3600")
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")
    with kubelet.client(NPU) as client:
        put(attribute(node, 0, "device_uuid"), "")
        assert client.allocate([uuids(node)[0]])[0].envs["NPU_DEVNAME"] == "npu0pe0-1"
        put(attribute(node, 0, "device_uuid"), "another\n")
        with pytest.raises(grpc.RpcError) as caught:
            client.allocate([uuids(node)[0]])
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_missing_device_files_make_a_card_unhealthy_until_they_are_back(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str]
) -> None:
    node = make_node(WARBOYS)
    first, second = uuids(node)
    plugin = start_plugin(node)
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")
    away = node.folder / "away"
    away.mkdir()
    for file in (node.folder / "dev").glob("npu1*"):
        file.rename(away / file.name)
    kubelet.wait_for(NPU, lambda h: h == {first: "Healthy", second: "Unhealthy"}, "the second card unhealthy")
    assert any("unhealthy" in line and "device files are missing" in line for line in logged)
    assert metric(plugin, "accelscope_device_plugin_devices", state="withheld") == 0
    for file in away.iterdir():
        file.rename(node.folder / "dev" / file.name)
    kubelet.wait_for(NPU, lambda h: h == dict.fromkeys((first, second), "Healthy"), "both healthy again")
    assert not any("no longer offered" in line or "not offered" in line for line in logged)


@pytest.mark.parametrize(
    ("name", "vendor", "file"),
    [
        ("amd-radeon", "amd", "dri/renderD*"),
        ("amd-radeon", "amd", "kfd"),
        ("ascend-310p", "ascend", "davinci0"),
        ("ascend-310p", "ascend", "hisi_hdc"),
    ],
)
def test_missing_device_files_are_noticed_before_an_allocation(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    logged: list[str],
    name: str,
    vendor: str,
    file: str,
) -> None:
    node = make_node(name)
    start_plugin(node, vendor=vendor)
    wait_until(lambda: any(kubelet.lists.values()), "devices")
    [resource] = kubelet.lists
    gone = sorted((node.folder / "dev").glob(file))[0]
    gone.unlink()
    kubelet.wait_for(resource, lambda health: "Unhealthy" in health.values(), "one that is unhealthy")
    assert any("unhealthy" in line and "device files are missing" in line for line in logged)
    gone.touch()
    kubelet.wait_for(resource, lambda health: set(health.values()) == {"Healthy"}, "all healthy again")


def test_cards_that_share_a_cdi_name_are_withheld(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str]
) -> None:
    node = make_node(
        "node: b\nfuriosa:\n  devices: [{model: warboy}, {model: rngd}, {model: rngd}]\n"
    )  # npu0, npu0 and npu1
    plugin = start_plugin(node, cdi="true")
    kubelet.wait_for(NPU, lambda health: list(health) == [uuids(node)[2]], "the card whose name is its own")
    assert metric(plugin, "accelscope_device_plugin_devices", state="withheld") == 2
    lines = [line for line in logged if "furiosa.ai/npu=npu0" in line]
    assert len(lines) == 2  # one for each of them
    assert all("remove --cdi" in line for line in lines)


def test_the_plugin_is_not_ready_while_the_driver_cannot_be_read(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, tmp_path: Path
) -> None:
    node = make_node("ascend-310p")
    tool = script(tmp_path / "npu-smi", "exit 7")
    plugin = start_plugin(node, vendor="ascend", npu_smi_path=str(tool))
    wait_until(lambda: "npu-smi" in get(plugin, "/readyz")[1], "readiness with the reason")
    status, text = get(plugin, "/readyz")
    assert (status, text.startswith("ascend: ")) == (503, True)
    assert get(plugin, "/healthz")[0] == 200
    assert kubelet.registrations == []
    tool.unlink()
    tool.symlink_to(node.folder / "bin/npu-smi")
    kubelet.wait_for("huawei.com/Ascend310P", len, "chips, once the driver answers")
    wait_until(lambda: get(plugin, "/readyz")[0] == 200, "ready")


def test_unmatched_disabled_names_are_logged_once_for_each_file(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    plugin_folder: Path,
    tmp_path: Path,
    logged: list[str],
) -> None:
    node = make_node(WARBOYS)
    file = tmp_path / "config.yaml"
    rest = f"interval: 0.1\npluginDir: {plugin_folder}\n"
    file.write_text(
        rest + "disabledDevices: [npu1pe0, npu0, npu7pe1, {devName: NPU9, nodeName: node-7}, "
        "{devName: npu8, nodeName: node-8}]\n"
    )
    plugin = start_plugin(node, file=file)

    def lines() -> list[str]:
        return [line for line in logged if line.startswith("disabledDevices")]

    wait_until(lines, "logged")
    put(file, rest + "shares: 2\ndisabledDevices: [npu0, nobody]\n")
    kubelet.wait_for(NPU, lambda health: f"{uuids(node)[1]}::1" in health, "shares")
    wait_until(lambda: len(lines()) == 2, "logged again")
    put(file, rest + "shares: 3\ndisabledDevices: [npu0]\n")
    kubelet.wait_for(NPU, lambda health: f"{uuids(node)[1]}::2" in health, "three shares")
    assert lines() == [
        "disabledDevices: nothing on this node matches npu7pe1, NPU9",
        "disabledDevices: nothing on this node matches nobody",
    ]
    assert metric(plugin, "accelscope_device_plugin_devices", state="disabled") == 1


def test_the_plugin_registers_again_when_the_kubelet_restarts(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    plugin = start_plugin(make_node(WARBOYS))
    for _ in range(3):
        kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")
        kubelet.restart()
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards after the last restart")
    wait_until(lambda: (metric(plugin, "accelscope_device_plugin_registrations_total") or 0) >= 4)
    with kubelet.client(NPU) as client:
        assert client.allocate([kubelet.ids(NPU)[0]])


def test_the_plugin_registers_again_when_its_socket_was_removed(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    """By hand: the kubelet keeps running, and its own socket stays."""
    start_plugin(make_node(WARBOYS))
    kubelet.wait_for(NPU, len, "cards")
    (kubelet.folder / "furiosa-npu.sock").unlink()
    wait_until(lambda: len(kubelet.registrations) >= 2, "a second registration")
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")


def test_the_plugin_registers_again_when_the_kubelet_closes_its_stream(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    start_plugin(make_node(WARBOYS))
    kubelet.wait_for(NPU, len, "cards")
    kubelet.drop_streams()
    wait_until(lambda: len(kubelet.registrations) >= 2, "a second registration")
    kubelet.wait_for(NPU, len, "cards")


def test_a_plugin_registers_with_a_kubelet_that_starts_later(
    make_node: MakeNode, plugin_folder: Path, start_plugin: StartPlugin, logged: list[str]
) -> None:
    plugin = start_plugin(make_node(WARBOYS), timeouts=Timeouts(first_answer=0.1))
    wait_until(lambda: "waiting for the kubelet" in get(plugin, "/readyz")[1], "readiness with the reason")
    assert get(plugin, "/readyz")[0] == 503
    assert get(plugin, "/healthz")[0] == 200
    kubelet = FakeKubelet(plugin_folder)
    kubelet.start()
    try:
        kubelet.wait_for(NPU, len, "cards")
    finally:
        kubelet.stop()
    assert sum("waiting for the kubelet" in line for line in logged) <= 2  # before and after


def test_a_restarted_plugin_registers_again(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node(WARBOYS)
    start_plugin(node).stop()
    start_plugin(node)
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "two cards")
    assert (kubelet.folder / "furiosa-npu.sock").is_socket()


def test_a_stale_socket_is_replaced(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(kubelet.folder / "furiosa-npu.sock"))
    start_plugin(make_node(WARBOYS))
    kubelet.wait_for(NPU, len, "cards")


def test_a_second_plugin_on_the_same_socket_does_not_start(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str]
) -> None:
    node = make_node(WARBOYS)
    first = start_plugin(node)
    kubelet.wait_for(NPU, len, "cards")
    second = start_plugin(node, resource_name="example.com/other")
    wait_until(lambda: "another plugin listens" in get(second, "/readyz")[1], "the second plugin refused")
    assert metric(second, "accelscope_device_plugin_registered") == 0
    assert {each.resource_name for each in kubelet.registrations} == {NPU}
    assert get(first, "/readyz")[0] == 200
    first.stop()
    kubelet.wait_for("example.com/other", len, "the second plugin, once the first has gone")
    assert sum("another plugin listens" in line for line in logged) == 1


def test_a_socket_of_another_plugin_is_not_removed(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    plugin = start_plugin(make_node(WARBOYS))
    kubelet.wait_for(NPU, len, "cards")
    path = kubelet.folder / "furiosa-npu.sock"
    with socket.socket(socket.AF_UNIX) as other:
        aside = kubelet.folder / "other.sock"
        other.bind(str(aside))
        other.listen()
        inode = aside.stat().st_ino
        aside.replace(path)
        wait_until(lambda: "another plugin listens" in get(plugin, "/readyz")[1], "a refusal")
        assert path.stat().st_ino == inode
    kubelet.wait_for(NPU, len, "cards, once the other has gone")
    assert sorted(each.name for each in kubelet.folder.iterdir()) == ["furiosa-npu.sock", "kubelet.sock"]


def test_a_file_at_the_path_of_the_socket_is_not_removed(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    mine = kubelet.folder / "furiosa-npu.sock"
    mine.write_text("mine")
    plugin = start_plugin(make_node(WARBOYS))
    wait_until(lambda: "is not a socket" in get(plugin, "/readyz")[1], "a refusal")
    assert mine.read_text() == "mine"


def test_a_resource_of_another_plugin_is_not_registered(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str]
) -> None:
    kubelet.foreign[NPU] = ["theirs"]
    plugin = start_plugin(make_node(WARBOYS))
    wait_until(lambda: "another plugin serves" in get(plugin, "/readyz")[1], "a refusal")
    assert "theirs" in get(plugin, "/readyz")[1]
    assert kubelet.registrations == []
    kubelet.foreign.clear()
    kubelet.wait_for(NPU, len, "cards, once the other has gone")
    assert sum("another plugin serves" in line for line in logged) == 1


def test_a_kubelet_of_another_version_is_reported(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, logged: list[str]
) -> None:
    kubelet.refusal = 'requested API version "v1beta1" is not supported by kubelet. Supported versions: [v2]'
    plugin = start_plugin(make_node(WARBOYS))
    wait_until(lambda: "does not support device plugins of v1beta1" in get(plugin, "/readyz")[1], "why")
    assert metric(plugin, "accelscope_device_plugin_registration_errors_total", reason="version") == 1
    kubelet.refusal = None
    kubelet.wait_for(NPU, len, "cards, once the kubelet takes it")
    assert sum("device plugins of v1beta1" in line for line in logged) == 1


def test_a_plugin_works_without_the_pod_resources_socket(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, tmp_path: Path
) -> None:
    start_plugin(
        make_node(WARBOYS), pod_resources_socket=str(tmp_path / "none"), timeouts=Timeouts(first_answer=0.1)
    )
    kubelet.wait_for(NPU, len, "cards")


def test_a_node_without_devices_registers_nothing_and_is_ready(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    node = make_node("node: n\nnvidia:\n  devices: [{model: h100-80gb}]\n")
    plugin = start_plugin(node)
    wait_until(lambda: get(plugin, "/readyz") == (200, "ok\n"), "ready")
    assert kubelet.registrations == []
    assert metric(plugin, "accelscope_reader_found", vendor="furiosa") == 0


def test_too_many_streams_do_not_block_other_calls(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    start_plugin(make_node(WARBOYS), timeouts=Timeouts(stream=30.0))
    kubelet.wait_for(NPU, len, "cards")
    with kubelet.client(NPU) as client:
        streams = [client.listen() for _ in range(20)]
        codes = []
        for stream in streams:
            try:
                codes.append("answered" if next(stream).devices else "empty")
            except grpc.RpcError as error:
                codes.append(error.code().name)
        assert set(codes) == {"answered", "RESOURCE_EXHAUSTED"}
        assert client.allocate([kubelet.ids(NPU)[0]])
        for stream in streams:
            stream.cancel()


FILE = """\
interval: 0.1
defaultPe: Fusion
disabledDevices: [{{devName: npu1, nodeName: node-7}}, {{devName: npu0, nodeName: node-8}}]
pluginDir: {folder}
"""


def test_a_changed_file_takes_effect(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    plugin_folder: Path,
    tmp_path: Path,
    logged: list[str],
) -> None:
    node = make_node(WARBOYS)
    first, second = uuids(node)
    # As a ConfigMap is mounted: a link to a folder that is swapped.
    (tmp_path / "1").mkdir()
    (tmp_path / "1/config.yaml").write_text(FILE.format(folder=plugin_folder))
    (tmp_path / "..data").symlink_to("1")
    file = tmp_path / "config.yaml"
    file.symlink_to("..data/config.yaml")

    def edit(number: int, text: str) -> None:
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/config.yaml").write_text(text)
        (tmp_path / "..tmp").symlink_to(f"{number}")
        (tmp_path / "..tmp").replace(tmp_path / "..data")

    plugin = start_plugin(node, file=file)
    kubelet.wait_for(NPU, lambda health: set(health) == {first}, "the card that is not disabled here")
    edit(2, f"interval: 0.2\ndefaultPe: Single\npluginDir: {plugin_folder}\n")
    kubelet.wait_for(NPU, lambda health: len(health) == 4, "four cores")
    edit(3, "interval: soon\n")
    wait_until(lambda: any("old settings stay" in line for line in logged), "a refusal")
    assert len(kubelet.health(NPU)) == 4
    edit(4, f"pluginDir: {plugin_folder}\nsocketName: other\nresourceName: example.com/npu\nshares: 2\n")
    kubelet.wait_for(NPU, lambda health: len(health) == 4 and f"{first}::0" in health, "shares")
    wait_until(lambda: any("need a restart: socketName, resourceName" in m for m in logged), "logged")
    assert {r.resource_name for r in kubelet.registrations} == {NPU}
    assert any("was taken up" in line for line in logged)
    assert metric(plugin, "accelscope_device_plugin_config_reloads_total", result="rejected") == 1
    assert f"{second}::1" in kubelet.health(NPU)


def test_a_partition_with_another_resource_waits_for_a_restart(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    plugin_folder: Path,
    tmp_path: Path,
    logged: list[str],
) -> None:
    node = make_node(RNGD)
    file = tmp_path / "config.yaml"
    file.write_text(f"interval: 0.1\npluginDir: {plugin_folder}\n")
    start_plugin(node, file=file)
    kubelet.wait_for(NPU, lambda health: len(health) == 1, "a card")
    put(file, f"interval: 0.1\npluginDir: {plugin_folder}\npartition: dual-core\nshares: 2\n")
    kubelet.wait_for(NPU, lambda health: len(health) == 2, "shares of the whole card")
    wait_until(lambda: any("need a restart: partition" in line for line in logged), "logged")


def test_a_new_interval_takes_effect_at_once(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin, plugin_folder: Path, tmp_path: Path
) -> None:
    node = make_node(WARBOYS)
    file = tmp_path / "config.yaml"
    file.write_text(f"interval: 3600\npluginDir: {plugin_folder}\n")
    start_plugin(node, file=file)
    kubelet.wait_for(NPU, lambda health: set(health.values()) == {"Healthy"}, "cards")
    node.set_faults([Fault(kind=FaultKind.RESET_REQUIRED, device=1)])
    put(file, f"interval: 0.1\npluginDir: {plugin_folder}\n")
    kubelet.wait_for(NPU, lambda health: "Unhealthy" in health.values(), "the second card unhealthy")


def test_settings_that_need_a_restart_are_logged_once(
    make_node: MakeNode,
    kubelet: FakeKubelet,
    start_plugin: StartPlugin,
    plugin_folder: Path,
    tmp_path: Path,
    logged: list[str],
) -> None:
    file = tmp_path / "config.yaml"
    before = f"interval: 0.1\npluginDir: {plugin_folder}\n"
    file.write_text(before)
    plugin = start_plugin(make_node(RNGD), file=file)
    kubelet.wait_for(NPU, len, "a card")

    def edit(text: str) -> list[str]:
        """What is logged about restarts, and about other resources."""
        done = metric(plugin, "accelscope_device_plugin_config_reloads_total", result="applied") or 0
        start = len(logged)
        put(file, before + text)
        wait_until(
            lambda: (
                metric(plugin, "accelscope_device_plugin_config_reloads_total", result="applied") == done + 1
            ),
            "the file taken up",
        )
        return [line for line in logged[start:] if "restart" in line or "would be" in line]

    other = "with the new settings the resource would be furiosa.ai/rngd-2core.12gb, not beta.furiosa.ai/npu"
    assert edit("socketName: x\npartition: dual-core\n") == [
        other,
        "settings that need a restart: socketName, partition",
    ]
    assert edit("socketName: x\npartition: dual-core\nshares: 2\n") == []
    assert edit("partition: dual-core\n") == ["settings that no longer need a restart: socketName"]
    assert edit("shares: 3\n") == ["settings that no longer need a restart: partition"]
    kubelet.wait_for(NPU, lambda health: len(health) == 3, "three shares of the card")
    assert edit("partition: dual-core\n") == [other, "settings that need a restart: partition"]
    assert edit("defaultPe: Single\n") == ["settings that no longer need a restart: partition"]
    kubelet.wait_for(NPU, lambda health: len(health) == 8, "single cores")


def test_a_stopped_plugin_leaves_no_socket(
    make_node: MakeNode, kubelet: FakeKubelet, start_plugin: StartPlugin
) -> None:
    plugin = start_plugin(make_node(WARBOYS))
    kubelet.wait_for(NPU, len, "cards")
    plugin.stop()
    assert not (kubelet.folder / "furiosa-npu.sock").exists()
    assert kubelet.socket.exists()
