"""Nodes read by commands in the GPU operator's driver pods."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.fleet.api_server.served import session_at, status
from tests.fleet.sources.stub_cluster import StubCluster, access_to, driver_pod, one_round
from tests.waiting import PATIENCE_SECONDS

from accelscope.fleet.api_server.objects import decode_driver_pod, pod_key
from accelscope.fleet.clusters import ExecEntry
from accelscope.fleet.rows import NodeFailure, NodeReport, NodeUnchanged, SourceOutcome
from accelscope.fleet.sources.exec import ExecSource
from accelscope.fleet.sources.round import LoopThrottle
from accelscope.kube.endpoint import KubeError, Reason
from accelscope.kube.listwatch import pods_in
from accelscope.model import HealthState, ProcessType
from accelscope.vendors.nvidia.driver_pods import QUERY_FIELDS

VALUES = {
    "serial": "[N/A]",
    "driver_version": "550.54.15",
    "vbios_version": "96.00.89.00.01",
    "temperature.gpu": "41",
    "utilization.gpu": "37",
    "utilization.memory": "12",
    "memory.total": "81559",
    "memory.used": "1024",
    "memory.free": "80535",
    "power.draw": "118.50",
    "power.limit": "700.00",
    "pcie.link.gen.current": "5",
    "pcie.link.width.current": "16",
    "fan.speed": "[N/A]",
    "pstate": "P0",
    "clocks.sm": "1980",
    "clocks.mem": "2619",
    "mig.mode.current": "Disabled",
    "ecc.errors.uncorrected.volatile.total": "0",
    "name": "NVIDIA H100 80GB HBM3",
}
PMON = """\
# gpu         pid   type     sm    mem    enc    dec    fb    command
# Idx           #    C/G      %      %      %      %    MB    name
    0       4711     C     36     11      -      -   900    python
    1          -     -      -      -      -      -     -    -
"""
PMON_WITHOUT_MEMORY = """\
# gpu        pid  type    sm   mem   enc   dec   command
# Idx          #   C/G     %     %     %     %   name
    0       4711     C    36    11     -     -   python
"""


def row(index: int, fields: list[str]) -> str:
    own = {"index": str(index), "uuid": f"GPU-a{index:07d}", "pci.bus_id": f"00000000:{index + 1:02X}:00.0"}
    return ", ".join({**VALUES, **own}[field] for field in fields)


def smi(pod: str, command: list[str]) -> tuple[str, int]:
    """Two healthy GPUs, one of them in use."""
    assert command[0] == "nvidia-smi"
    if command[1] == "pmon":
        assert command[1:] == ["pmon", "-s", "um", "-c", "1"]
        return PMON, 0
    [query, form] = command[1:]
    assert form == "--format=csv,noheader,nounits"
    fields = query.removeprefix("--query-gpu=").split(",")
    return "".join(f"{row(index, fields)}\n" for index in range(2)), 0


@asynccontextmanager
async def drivers_of(
    cluster: StubCluster,
    *,
    entry: ExecEntry | None = None,
    covered: Callable[[str], bool] = lambda node: False,
) -> AsyncIterator[ExecSource]:
    entry = entry or ExecEntry(ttl_seconds=0, timeout_seconds=5, per_second=10_000)
    async with cluster.running() as server, session_at(access_to(server)) as session:
        pods = [
            session.informer(pods_in(namespace), decode=decode_driver_pod, key=pod_key)
            for namespace in entry.namespaces
        ]
        source = ExecSource(session, pods, entry, is_covered=covered, loop_throttle=LoopThrottle())
        try:
            yield source
        finally:
            await source.close()


def clusters_with(command: Callable[[str, list[str]], tuple[str, int]] = smi, nodes: int = 1) -> StubCluster:
    cluster = StubCluster()
    cluster.command = command
    for number in range(nodes):
        cluster.pods[f"driver-{number}"] = driver_pod(f"driver-{number}", f"node-{number}")
    return cluster


async def test_gpus_and_processes_of_a_node_without_an_agent() -> None:
    async with drivers_of(clusters_with()) as driver:
        outcome, updates = await one_round(driver)
        assert outcome == SourceOutcome(up=True, expected=1, answered=1)
        report = updates["node-0"]
        assert isinstance(report, NodeReport)
        first, second = report.snapshot.devices
        assert first.id == "nvidia:GPU-a0000000"
        assert first.utilization_ratio == 0.37
        assert first.memory_total_bytes == 81559 << 20
        assert first.power_watts == 118.5
        assert first.fans == ()
        assert first.driver_version == "550.54.15"
        assert first.health.state is HealthState.OK
        assert second.pci_address == "0000:02:00.0"
        [process] = report.snapshot.processes
        assert (process.pid, process.device, process.name) == (4711, first.id, "python")
        assert process.type is ProcessType.COMPUTE
        assert process.memory_bytes == 900 << 20
        assert process.owner is None
        assert driver.sees_accelerators()


async def test_a_field_that_the_driver_does_not_support_is_queried_once() -> None:
    commands: list[list[str]] = []

    def old(pod: str, command: list[str]) -> tuple[str, int]:
        commands.append(command)
        if "mig.mode.current" in command[1]:
            return 'Field "mig.mode.current" is not a valid field to query.\n', 2
        return smi(pod, command)

    async with drivers_of(clusters_with(old)) as driver:
        for _ in range(2):
            _, updates = await one_round(driver)
            report = updates["node-0"]
            assert isinstance(report, NodeReport)
            assert len(report.snapshot.devices) == 2
    assert sum("mig.mode.current" in command[1] for command in commands) == 1
    assert driver.commands == len(commands) == 5


async def test_a_new_driver_pod_is_queried_for_all_fields_again() -> None:
    commands: list[list[str]] = []

    def upgraded(pod: str, command: list[str]) -> tuple[str, int]:
        commands.append(command)
        if pod == "driver-0" and "mig.mode.current" in command[1]:
            return 'Field "mig.mode.current" is not a valid field to query.\n', 2
        if pod == "driver-0" and command[1] == "pmon" and command[3] == "um":
            return "ERROR: Option um is not recognized. Please run 'nvidia-smi pmon -h'.\n", 2
        if command[1] == "pmon" and command[3] == "u":
            return PMON_WITHOUT_MEMORY, 0
        return smi(pod, command)

    cluster = clusters_with(upgraded)
    async with drivers_of(cluster) as driver:
        await one_round(driver)
        cluster.put("pods", cluster.pods["driver-0"], "DELETED")
        cluster.put("pods", driver_pod("driver-1", "node-0"), "ADDED")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any("gpu-operator/driver-1" in pods.items for pods in driver._pods):
                await asyncio.sleep(0.02)
        commands.clear()
        _, updates = await one_round(driver)
        report = updates["node-0"]
        assert isinstance(report, NodeReport)
        assert [process.memory_bytes for process in report.snapshot.processes] == [900 << 20]
        query, pmon = commands
        assert "mig.mode.current" in query[1]
        assert pmon[3] == "um"


async def test_an_older_pmon_lists_processes_without_memory() -> None:
    def old(pod: str, command: list[str]) -> tuple[str, int]:
        if command[1] != "pmon":
            return smi(pod, command)
        if command[3] == "um":
            return "ERROR: Option um is not recognized. Please run 'nvidia-smi pmon -h'.\n", 2
        return PMON_WITHOUT_MEMORY, 0

    async with drivers_of(clusters_with(old)) as driver:
        _, updates = await one_round(driver)
        report = updates["node-0"]
        assert isinstance(report, NodeReport)
        [process] = report.snapshot.processes
        assert process.pid == 4711
        assert process.memory_bytes is None


async def test_gpus_are_listed_when_processes_cannot_be_read() -> None:
    def half(pod: str, command: list[str]) -> tuple[str, int]:
        return smi(pod, command) if command[1] != "pmon" else ("Not supported on the device(s)\n", 3)

    async with drivers_of(clusters_with(half)) as driver:
        _, updates = await one_round(driver)
        report = updates["node-0"]
        assert isinstance(report, NodeReport)
        assert report.snapshot.processes == ()
        for device in report.snapshot.devices:
            assert "processes.compute" in [absence.field for absence in device.absent]


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
            "the latest NVIDIA driver is installed and running.\n",
            9,
            "driver_not_loaded",
        ),
        ("Failed to initialize NVML: Driver/library version mismatch\n", 18, "version_mismatch"),
        ("Failed to initialize NVML: Unknown Error\n", 255, "driver_error"),
        ("", 1, "tool_failed"),
        ("\x1b[31mgarbage\x1b[0m \x00 ][\n" * 100, 0, "unrecognized"),
    ],
    ids=["not-loaded", "mismatch", "unknown", "silent", "garbage"],
)
async def test_an_error_message_of_the_tool_is_the_reason_of_the_node(
    text: str, code: int, reason: str
) -> None:
    async with drivers_of(clusters_with(lambda pod, command: (text, code))) as driver:
        outcome, updates = await one_round(driver)
        failure = updates["node-0"]
        assert isinstance(failure, NodeFailure)
        assert failure.reason == reason
        assert failure.text.isprintable()
        assert not outcome.up


async def test_a_driver_without_a_gpu_is_a_node_without_devices() -> None:
    async with drivers_of(clusters_with(lambda pod, command: ("No devices were found\n", 6))) as driver:
        outcome, updates = await one_round(driver)
        report = updates["node-0"]
        assert isinstance(report, NodeReport)
        assert report.snapshot.devices == ()
        assert outcome.up
        assert not driver.sees_accelerators()


async def test_a_gpu_that_fell_off_the_bus_keeps_its_id() -> None:
    lost = "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system\n"
    state = {"lost": False}

    def flaky(pod: str, command: list[str]) -> tuple[str, int]:
        if not state["lost"] or command[1] == "pmon":
            return smi(pod, command)
        fields = command[1].removeprefix("--query-gpu=").split(",")
        return f"{row(0, fields)}\n{lost}", 15

    async with drivers_of(clusters_with(flaky)) as driver:
        await one_round(driver)
        state["lost"] = True
        _, updates = await one_round(driver)
        report = updates["node-0"]
        assert isinstance(report, NodeReport)
        assert {device.id: device.health.state for device in report.snapshot.devices} == {
            "nvidia:GPU-a0000000": HealthState.OK,
            "nvidia:GPU-a0000001": HealthState.LOST,
        }


async def test_nodes_with_an_agent_are_not_read_and_results_are_cached() -> None:
    entry = ExecEntry(ttl_seconds=60, timeout_seconds=5, per_second=10_000)
    cluster = clusters_with(nodes=3)
    async with drivers_of(cluster, entry=entry, covered=lambda node: node == "node-1") as driver:
        outcome, updates = await one_round(driver)
        assert set(updates) == {"node-0", "node-2"}
        assert outcome.expected == 2
        commands = driver.commands
        _, updates = await one_round(driver)
        assert all(isinstance(update, NodeUnchanged) for update in updates.values())
        assert driver.commands == commands


async def test_a_cluster_without_the_gpu_operator_is_not_an_error() -> None:
    async with drivers_of(StubCluster()) as driver:
        outcome, updates = await one_round(driver)
        assert outcome == SourceOutcome(up=True)
        assert not updates


async def test_one_accessible_namespace_is_enough() -> None:
    cluster = clusters_with()
    cluster.refusal = lambda request: (
        status(403, "forbidden") if "/namespaces/nvidia-gpu-operator/" in request.path else None
    )
    async with drivers_of(cluster) as driver:
        outcome, _ = await one_round(driver)
        assert outcome.answered == 1

    cluster.refusal = lambda request: status(403, "forbidden") if "/pods" in request.path else None
    async with drivers_of(cluster) as driver:
        outcome, _ = await one_round(driver)
        assert (outcome.up, outcome.reason) == (False, "forbidden")


async def round_with(driver: ExecSource, reason: str) -> SourceOutcome:
    """The first that ends with this reason."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            outcome, _ = await one_round(driver)
            if outcome.reason == reason:
                return outcome
            await asyncio.sleep(0.02)


async def test_a_forbidden_namespace_is_reported_if_no_driver_is_found() -> None:
    cluster = clusters_with()
    cluster.refusal = lambda request: (
        status(403, "pods is forbidden") if "/namespaces/gpu-operator/" in request.path else None
    )
    async with drivers_of(cluster) as driver:
        outcome = await round_with(driver, "forbidden")
        assert not outcome.up
        assert "pods is forbidden" in (outcome.text or "")


async def test_a_revoked_permission_is_reported_while_drivers_still_respond() -> None:
    cluster = clusters_with()
    async with drivers_of(cluster) as driver:
        outcome, _ = await one_round(driver)
        assert (outcome.answered, outcome.reason) == (1, None)
        cluster.refusal = lambda request: (
            status(403, "pods is forbidden") if request.path.endswith("/pods") else None
        )
        cluster.end_watches()
        outcome = await round_with(driver, "forbidden")
        assert (outcome.up, outcome.expected, outcome.answered) == (True, 1, 1)
        assert "pods is forbidden" in (outcome.text or "")


async def test_a_pod_that_is_not_ready_and_a_rejected_command_are_failures_of_their_nodes() -> None:
    cluster = clusters_with(nodes=2)
    cluster.pods["driver-0"] = driver_pod("driver-0", "node-0", ready=False)
    cluster.refusal = lambda request: (
        status(403, "pods/exec is forbidden") if request.path.endswith("/exec") else None
    )
    async with drivers_of(cluster) as driver:
        outcome, updates = await one_round(driver)
        reasons = {node: update.reason for node, update in updates.items() if isinstance(update, NodeFailure)}
        assert reasons == {"node-0": "not_ready", "node-1": "forbidden"}
        assert not outcome.up


async def test_a_forbidden_command_is_not_hidden_by_pods_that_are_not_ready() -> None:
    cluster = clusters_with(nodes=4)
    for number in range(3):
        cluster.pods[f"driver-{number}"] = driver_pod(f"driver-{number}", f"node-{number}", ready=False)
    cluster.refusal = lambda request: (
        status(403, "pods/exec is forbidden") if request.path.endswith("/exec") else None
    )
    async with drivers_of(cluster) as driver:
        outcome, _ = await one_round(driver)
        assert outcome.reason == "forbidden"
        assert outcome.text is not None
        assert outcome.text.startswith("4 of 4 nodes failed (forbidden 1: ")
        assert "pods/exec is forbidden" in outcome.text
        assert "not_ready 3: the driver's pod" in outcome.text


async def test_a_forbidden_command_is_not_hidden_by_another_namespace_that_cannot_be_watched() -> None:
    entry = ExecEntry(
        ttl_seconds=0, timeout_seconds=5, per_second=10_000, namespaces=("gpu-operator", "other")
    )
    cluster = clusters_with(nodes=1)
    async with drivers_of(cluster, entry=entry) as driver:
        await one_round(driver)
        driver._pods[1]._machine.failure = KubeError(Reason.TIMEOUT, "the watch of other timed out")
        cluster.refusal = lambda request: (
            status(403, "pods/exec is forbidden") if request.path.endswith("/exec") else None
        )
        outcome, _ = await one_round(driver)
        assert outcome.reason == "forbidden"
        assert "pods/exec is forbidden" in (outcome.text or "")
        assert "the watch of other timed out" in (outcome.text or "")


def test_the_query_begins_with_the_identity_and_ends_with_the_name() -> None:
    assert QUERY_FIELDS[:2] == ("index", "uuid")
    assert QUERY_FIELDS[-1] == "name"
