"""The device plugin as the chart runs it, between the real kubelet and simulated Warboys: what nodes have to
give, what containers get, and what happens when either of the two changes or goes away."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.agent_process import AgentProcess
from tests.deploy.values import NO_AGENTS
from tests.deviceplugin.fake_kubelet import PluginClient
from tests.e2e.kubernetes import images
from tests.e2e.kubernetes.agent_image import agent_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import (
    NAMESPACE,
    PATIENCE_SECONDS,
    Deployed,
    Release,
    labelled,
    namespace,
)
from tests.e2e.kubernetes.errors import CommandFailed
from tests.e2e.kubernetes.footprint import peak_memory_bytes
from tests.e2e.kubernetes.npus import (
    edit,
    make_device_nodes,
    on_simulated_npus,
    plugin_process,
    plugin_settings,
)
from tests.repository import REPOSITORY
from tests.waiting import wait_until

from accelscope.deviceplugin.kubelet import KubeletError, served_ids
from accelscope.simulate import Fault, FaultKind, SimulatedNode, read_node
from accelscope.vendors.furiosa.simulated.driver import FuriosaDriver

NPU = "beta.furiosa.ai/npu"
WORKLOADS = "npu-workloads"
CONFIG_MAP = "configmap/npu-device-plugin"
EXAMPLE = REPOSITORY / "deploy" / "examples" / "npu-pod.yaml"
# A container's own /sys takes no mount point for a driver that this machine does not have.
CONTAINER_SYS = "/npu/sys"
SETTINGS = {"interval": 0.5, "defaultPe": "Fusion", "disabledDevices": []}


@pytest.fixture(scope="module")
def npus(folder: Path) -> SimulatedNode:
    node = SimulatedNode(
        read_node("node: warboys\nfuriosa:\n  devices: [{model: warboy, count: 2}]\n"), folder / "npus"
    )
    node.build(at=1000.0)
    make_device_nodes(node)
    return node


@pytest.fixture(scope="module")
def uuids(npus: SimulatedNode) -> list[str]:
    return [card.uuid for card in npus.readings(FuriosaDriver)]


@pytest.fixture(scope="module")
def plugin(cluster: Cluster, npus: SimulatedNode, folder: Path) -> Iterator[Deployed]:
    cluster.import_image(agent_image())
    cluster.import_image(images.base_image())
    values = {
        "agents": NO_AGENTS,
        "devicePlugin": {**on_simulated_npus(npus, container_sys_root=CONTAINER_SYS), "config": SETTINGS},
    }
    with ExitStack() as stack:
        stack.enter_context(namespace(cluster))
        stack.enter_context(namespace(cluster, WORKLOADS, "baseline"))
        stack.enter_context(labelled(cluster, "agents.accelscope.io/furiosa=true"))
        release = Release(cluster, folder)
        stack.callback(release.remove)
        release.put(values)
        deployed = Deployed(cluster, "device-plugin", port=9401)
        deployed.until_rolled_out()
        yield deployed


def said(plugin: Deployed) -> str:
    return plugin.cluster.logs(f"daemonset/{plugin.daemonset}", namespace=plugin.namespace)


def figure(plugin: Deployed, name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families("\n".join(plugin.page()) + "\n"):
        for sample in family.samples:
            if sample.name == f"accelscope_device_plugin_{name}" and labels.items() <= sample.labels.items():
                return float(sample.value)
    return None


def offered(cluster: Cluster) -> tuple[str | None, str | None]:
    """Capacity and allocatable, as the Node has them."""
    status = cluster.get(f"node/{cluster.node_name}")["status"]
    return status["capacity"].get(NPU), status["allocatable"].get(NPU)


def until_offered(plugin: Deployed, capacity: int, allocatable: int) -> float:
    """Seconds that it took."""
    wanted = (str(capacity), str(allocatable))
    started = time.monotonic()
    seen: list[tuple[str | None, str | None]] = []

    def fulfilled() -> bool:
        seen[:] = [offered(plugin.cluster)]
        return seen == [wanted]

    try:
        wait_until(fulfilled, f"{NPU} {wanted}", PATIENCE_SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}; the Node has {seen}\n{said(plugin)}") from None
    return time.monotonic() - started


def until_kubelet_has(cluster: Cluster, count: int) -> None:
    """By the kubelet's own word: after a restart the Node shows for a while what it was before, and a pod
    that comes to a kubelet without devices has failed for good."""

    def has() -> bool:
        try:
            return len(served_ids(cluster.pod_resources_socket, NPU, PATIENCE_SECONDS)) == count
        except KubeletError:
            return False  # it is just starting

    wait_until(has, f"the kubelet has {count} of {NPU}", PATIENCE_SECONDS)


def until_kubelet_knows(cluster: Cluster, pod: str) -> None:
    """A kubelet that has just started takes the devices of pods that ended before for given away, until it
    has seen which pods there are; one that comes to it in that moment is refused for good."""

    def knows() -> bool:
        reply = cluster.api.request("GET", f"/api/v1/nodes/{cluster.node_name}/proxy/pods")
        listed = reply.json()["items"] if reply.status == 200 else None  # which it says of no pods too
        return any(each["metadata"]["name"] == pod for each in listed or ())

    wait_until(knows, f"the kubelet knows of {pod}", PATIENCE_SECONDS)


def until_said(plugin: Deployed, *texts: str) -> None:
    def fulfilled() -> bool:
        lines = said(plugin).splitlines()
        return any(all(text in line for text in texts) for line in lines)

    try:
        wait_until(fulfilled, f"the plugin says {texts}", PATIENCE_SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{said(plugin)}") from None


def asking(name: str, count: int = 1) -> dict[str, Any]:
    """The example, under another name."""
    pod: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    [main] = pod["spec"]["containers"]
    main |= {"image": images.base_image().tag, "imagePullPolicy": "Never"}
    main["resources"]["limits"][NPU] = count
    pod["metadata"] = {"name": name, "namespace": WORKLOADS}
    return pod


@contextmanager
def running(cluster: Cluster, pod: dict[str, Any]) -> Iterator[Callable[[str], str]]:
    """Gives what a command of its shell prints."""
    name = pod["metadata"]["name"]
    cluster.apply(pod)
    try:
        cluster.wait_for(f"pod/{name}", "condition=Ready", namespace=WORKLOADS, seconds=PATIENCE_SECONDS)
        yield lambda command: cluster.exec(name, "sh", "-c", command, namespace=WORKLOADS).strip()
    finally:
        words = ("delete", f"pod/{name}", f"--namespace={WORKLOADS}", "--wait=true", "--ignore-not-found")
        cluster.kubectl(*words)


@pytest.fixture(scope="module")
def first(cluster: Cluster, plugin: Deployed) -> Iterator[Callable[[str], str]]:
    """A pod that holds a card through all that follows, until the cards are cut."""
    until_offered(plugin, 2, 2)
    with running(cluster, asking("npu-pod")) as shell:
        yield shell


def alive_since(cluster: Cluster, name: str) -> tuple[str, str, int]:
    status = cluster.get(f"pod/{name}", WORKLOADS)["status"]
    [container] = status["containerStatuses"]
    return status["phase"], container["containerID"], container["restartCount"]


# --- what a node has, and what a container gets --------------------------------------------------------


def test_capacity_appears(plugin: Deployed, uuids: list[str]) -> None:
    until_offered(plugin, 2, 2)
    assert figure(plugin, "registered") == 1
    assert figure(plugin, "kubelet_listening") == 1
    assert figure(plugin, "offers", state="healthy") == 2
    assert all(uuid in said(plugin) for uuid in uuids)


def test_it_may_do_little_and_write_where_it_must(plugin: Deployed, cluster: Cluster) -> None:
    lines = plugin.exec("cat", "/proc/self/status").splitlines()
    status = {name: text.split() for name, _, text in (line.partition(":") for line in lines)}
    assert {int(status[name][0], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert set(status["Uid"]) == {"0"}, "the kubelet's folder is root's"
    for path in ("/", "/tmp", "/host/dev", "/var/lib/kubelet/pod-resources", "/etc/accelscope/device-plugin"):
        with pytest.raises(CommandFailed, match="Read-only file system"):
            plugin.exec("touch", f"{path}/file")
    with pytest.raises(CommandFailed, match="Operation not permitted"):
        plugin.exec("sh", "-c", "echo > /host/dev/kmsg")
    assert (cluster.device_plugins_folder / "furiosa-npu.sock").is_socket()
    most = peak_memory_bytes(plugin.container_id())
    print(f"\nthe plugin's container had at most {most / 2**20:.0f} MiB")


def test_container_sees_its_nodes_mounts_and_environment(
    first: Callable[[str], str], plugin: Deployed, uuids: list[str]
) -> None:
    assert first("echo $NPU_DEVNAME") == "npu0pe0-1"
    assert first("echo $NPU_NPUNAME $NPU_PENAME") == "npu0 pe0-1"
    wait_until(lambda: plugin.cluster.logs("npu-pod", namespace=WORKLOADS), "it has said something")
    assert plugin.cluster.logs("npu-pod", namespace=WORKLOADS).splitlines()[0] == "npu0pe0-1"
    nodes = "npu0 npu0_mgmt npu0ch0 npu0ch1 npu0ch2 npu0ch3 npu0pe0 npu0pe0-1 npu0pe1"
    assert first("cd /dev && LC_ALL=C ls -d npu* | xargs") == nodes
    assert first("stat --format='%F %t:%T' /dev/npu0pe0-1") == "character special file 1:3"
    assert first("echo written > /dev/npu0pe0-1 && head -c 1 /dev/npu0pe0-1 | wc -c") == "0"
    assert first(f"cat {CONTAINER_SYS}/class/npu_mgmt/npu0_mgmt/device_uuid") == uuids[0]
    assert first(f"ls {CONTAINER_SYS}/devices/virtual/npu_mgmt") == "npu0_mgmt"
    with pytest.raises(CommandFailed, match="Read-only file system"):
        first(f"touch {CONTAINER_SYS}/devices/virtual/npu_mgmt/npu0_mgmt/file")
    assert figure(plugin, "allocations_total") == 1
    until_said(plugin, f"allocated {uuids[0]}", "NPU_DEVNAME=npu0pe0-1")


def test_who_asks_for_more_than_there_is_stays_pending(cluster: Cluster, first: object) -> None:
    cluster.apply(asking("greedy", 2))
    try:
        cluster.wait_for("pod/greedy", "condition=PodScheduled=False", namespace=WORKLOADS)
        status = cluster.get("pod/greedy", WORKLOADS)["status"]
        assert status["phase"] == "Pending"
        assert f"Insufficient {NPU}" in str(status["conditions"])
    finally:
        cluster.kubectl("delete", "pod/greedy", f"--namespace={WORKLOADS}")


def test_attribution_names_the_pod_that_holds_the_card(
    cluster: Cluster, npus: SimulatedNode, first: object, uuids: list[str], folder: Path
) -> None:
    settings = {**npus.agent_settings(), "pod_resources_socket": str(cluster.pod_resources_socket)}
    with AgentProcess(settings, folder / "agent") as agent:
        snapshot = agent.until(
            lambda snapshot: bool(snapshot.allocations) and len(snapshot.devices) == len(uuids),
            "the kubelet tells who holds what, and the tool which devices there are",
        )
    by_id = {device.id: device.uuid for device in snapshot.devices}
    held = {
        (each.namespace, each.pod, each.container, by_id.get(each.device or ""))
        for each in snapshot.allocations
    }
    assert held == {(WORKLOADS, "npu-pod", "main", uuids[0])}


# --- calls that the kubelet does not make, and plugins that should not be there ------------------------


def test_another_client_gets_the_answers_that_the_kubelet_would(
    cluster: Cluster, first: object, uuids: list[str]
) -> None:
    with PluginClient(cluster.device_plugins_folder / "furiosa-npu.sock") as client:
        options = client.options()
        assert (options.pre_start_required, options.get_preferred_allocation_available) == (False, True)
        assert client.preferred(uuids, [], 1) == uuids[:1]
        assert client.preferred(uuids, [uuids[1]], 1) == uuids[1:]
        client.pre_start(uuids)
        with pytest.raises(grpc.RpcError, match="unknown device id 'no-such-card'"):
            client.allocate(["no-such-card"])


@pytest.mark.parametrize(
    ("socket_name", "refusal"),
    [
        ("furiosa-npu", "another plugin listens on"),
        ("another-npu", f"another plugin serves {NPU} (2 devices, such as"),
    ],
)
def test_second_plugin_is_refused(
    cluster: Cluster,
    plugin: Deployed,
    npus: SimulatedNode,
    first: object,
    folder: Path,
    socket_name: str,
    refusal: str,
) -> None:
    settings = {**plugin_settings(npus), "socket_name": socket_name}
    with plugin_process(cluster, settings, folder / f"{socket_name}.log") as second:
        wait_until(lambda: refusal in second.get("/readyz").body.decode(), refusal, PATIENCE_SECONDS)
        assert second.get("/readyz").status == 503
        assert second.log().count(refusal) == 1
    assert offered(cluster) == ("2", "2")
    assert figure(plugin, "registrations_total") == 1
    assert figure(plugin, "kubelet_listening") == 1


# --- health ---------------------------------------------------------------------------------------------


def test_unhealthy_card_is_not_allocatable_until_it_is_well(
    plugin: Deployed, npus: SimulatedNode, first: object
) -> None:
    npus.set_faults([Fault(kind=FaultKind.RESET_REQUIRED, device=1)])
    fell = until_offered(plugin, 2, 1)
    npus.set_faults([])
    rose = until_offered(plugin, 2, 2)
    print(f"\nallocatable dropped after {fell:.1f} s and was back after {rose:.1f} s")


# --- restarts -------------------------------------------------------------------------------------------


def test_pods_keep_running_when_the_plugin_restarts(
    cluster: Cluster, plugin: Deployed, first: Callable[[str], str]
) -> None:
    before = alive_since(cluster, "npu-pod")
    plugin.restart_pod()
    until_kubelet_has(cluster, 2)
    took = until_offered(plugin, 2, 2)
    assert alive_since(cluster, "npu-pod") == before
    assert first("echo $NPU_DEVNAME") == "npu0pe0-1"
    with running(cluster, asking("second")) as shell:
        assert shell("echo $NPU_DEVNAME") == "npu1pe0-1", "the other is still taken"
    print(f"\nback on the Node {took:.1f} s after the new plugin was ready")


def test_registers_again_when_the_kubelet_restarts(cluster: Cluster, plugin: Deployed, first: object) -> None:
    before, registered = alive_since(cluster, "npu-pod"), figure(plugin, "registrations_total")
    assert registered is not None
    cluster.restart_kubelet()
    started = time.monotonic()
    wait_until(
        lambda: (figure(plugin, "registrations_total") or 0) > registered,
        "registered again",
        PATIENCE_SECONDS,
    )
    took = time.monotonic() - started
    until_kubelet_has(cluster, 2)
    until_kubelet_knows(cluster, "npu-pod")
    until_offered(plugin, 2, 2)
    assert alive_since(cluster, "npu-pod") == before
    with running(cluster, asking("second")) as shell:
        assert shell("echo $NPU_DEVNAME") == "npu1pe0-1"
    assert plugin.restarts() == 0
    print(f"\nregistered again {took:.1f} s after the kubelet served")


# --- the ConfigMap, edited ------------------------------------------------------------------------------


@pytest.fixture
def edited(cluster: Cluster, folder: Path) -> Callable[..., None]:
    def make(*expressions: str) -> None:
        edit(cluster, CONFIG_MAP, NAMESPACE, folder, *expressions)

    return make


def test_disabled_card_is_not_offered(
    cluster: Cluster, plugin: Deployed, first: object, edited: Callable[..., None]
) -> None:
    other = "{devName: npu0, nodeName: another-node}"
    edited(
        f"s/disabledDevices: .*/disabledDevices: [{other}, {{devName: npu1, nodeName: {cluster.node_name}}}]/"
    )
    took = until_offered(plugin, 1, 1)
    until_said(plugin, "the settings file was taken up", "disabledDevices")
    assert figure(plugin, "devices", state="disabled") == 1
    assert figure(plugin, "devices", state="unhealthy") == 0
    edited("s/disabledDevices: .*/disabledDevices: []/")
    until_offered(plugin, 2, 2)
    print(f"\nthe edit was in force on the Node after {took:.1f} s")


def test_bad_edits_are_said_and_change_nothing(
    plugin: Deployed, first: object, edited: Callable[..., None]
) -> None:
    edited("s/defaultPe: .*/defaultPe: Sngle/")
    until_said(plugin, "the new settings file is bad, the old settings stay", "Sngle")
    edited("s/defaultPe: .*/defaultPe: Fusion/", "s/vendor: furiosa/&\\n    resourceName: furiosa.ai\\/npu/")
    until_said(plugin, "settings that need a restart", "resourceName")
    assert offered(plugin.cluster) == ("2", "2")
    assert figure(plugin, "registered") == 1
    edited("/resourceName/d")


def test_cards_are_cut_into_cores(
    cluster: Cluster, plugin: Deployed, edited: Callable[..., None], uuids: list[str]
) -> None:
    """Fusion has been shown; Single follows on the same node, once nobody holds a card."""
    cluster.kubectl("delete", "pod", "--all", f"--namespace={WORKLOADS}", "--wait=true")
    edited("s/defaultPe: Fusion/defaultPe: Single/")
    until_offered(plugin, 4, 4)
    until_said(plugin, "the settings file was taken up", "defaultPe")
    with running(cluster, asking("core")) as core:
        assert core("echo $NPU_DEVNAME") == "npu0pe0"
        assert core("cd /dev && LC_ALL=C ls -d npu*pe* | xargs") == "npu0pe0"
        with running(cluster, asking("pair", 2)) as pair:
            assert pair("echo $NPU_DEVNAME") == "npu1pe0,npu1pe1", "two of one card"
        with PluginClient(cluster.device_plugins_folder / "furiosa-npu.sock") as client:
            ids = [f"{uuid}_cores_{number}" for uuid in uuids for number in (0, 1)]
            assert client.preferred(ids[1:], [], 2) == ids[2:]
