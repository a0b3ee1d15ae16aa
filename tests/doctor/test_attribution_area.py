"""The state of each attribution source, and processes and allocations that could not be resolved."""

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.repository import REPOSITORY

from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attribution
from accelscope.attribution.options import AttributionOptions, PodSource
from accelscope.config import load
from accelscope.config.settings import flag_name, settings_of
from accelscope.doctor import Report, Subject, areas_for, examine, text
from accelscope.doctor.attribution import (
    SOURCES,
    UNATTRIBUTED_ADVICE,
    AttributionResult,
    attribute,
    attribution_area,
    check_allocations,
    check_processes,
    check_sources,
    source_advice,
)
from accelscope.doctor.check import Finding, warning
from accelscope.kube.endpoint import Reason
from accelscope.kube.unary import UnaryReason
from accelscope.metrics.catalogue import workloads
from accelscope.model import (
    Allocation,
    AllocationSource,
    AttributionSourceState,
    Device,
    DeviceBalance,
    Owner,
    OwnerKind,
    Process,
    ReaderState,
    Unattributed,
    UnattributedReason,
    Vendor,
)
from accelscope.simulate import SimulatedNode, load_node
from accelscope.simulate.kubernetes import SimulatedCluster

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

DEVICES = tuple(
    Device(vendor=Vendor("nvidia"), id=f"nvidia:GPU-{i}", index=i, memory_total_bytes=80 << 30)
    for i in (0, 1)
)


# On a simulated node and cluster


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory, native_cache: Path) -> SimulatedNode:
    folder = tmp_path_factory.mktemp("node") / "shared"
    node = SimulatedNode(load_node("nvidia-shared"), folder, cache=native_cache)
    node.build(at=60)
    return node


@pytest.fixture
def cluster(shared_node: SimulatedNode, tmp_path: Path) -> Iterator[SimulatedCluster]:
    with SimulatedCluster(shared_node, tmp_path / "cluster") as made:
        yield made


Examine = Callable[..., dict[str, Finding]]


@pytest.fixture
def examined(shared_node: SimulatedNode, cluster: SimulatedCluster, tmp_path: Path) -> Examine:
    def by_name(**settings: str) -> dict[str, Finding]:
        report = _report(
            {**shared_node.agent_settings(), **cluster.agent_settings(), "readers": "nvidia", **settings},
            tmp_path,
        )
        return {finding.name: finding for area, finding in report.findings if area == "attribution"}

    return by_name


def _report(settings: Mapping[str, str], root: Path) -> Report:
    loaded = load(AgentSettings, {"exporter_port": "0", **settings}, {})
    return examine(Subject(loaded=loaded, environ={}, root=root), areas_for(loaded.settings))


def test_a_node_in_a_cluster_is_ok_and_processes_outside_pods_are_noted(examined: Examine) -> None:
    found = examined(node_labels="kubernetes.io/arch")
    assert {f.severity for f in found.values()} == {"ok", "note"}
    assert found.keys() == {*SOURCES, "attributed", "not_in_a_pod", "allocations"}
    assert found["pods"].found == "the API server responds; 6 pods have or use a device"
    assert found["pod-resources"].found == "the kubelet responds, API version v1"
    assert found["annotations"].found == "2 shares by HAMi"
    assert found["node"].details["labels"].keys() == {"kubernetes.io/arch"}
    assert found["attributed"].found == "6 of 9 processes attributed to 5 pods"
    assert found["allocations"].found == "6 device ids are allocated to 5 containers"
    beside = found["not_in_a_pod"]
    assert beside.severity == "note"
    assert re.search(r"gromacs \(pid \d+ on nvidia 1, slurm job 40977\)", beside.found)
    assert {p["owner_kind"] for p in beside.details["processes"]} == {
        "container",
        "slurm_job",
        "systemd_unit",
    }


def test_the_text_of_the_area_fits_80_columns(
    shared_node: SimulatedNode, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    cluster.api_down()
    report = _report({**shared_node.agent_settings(), **cluster.agent_settings()}, tmp_path)
    assert report.exit_code == 1
    _, _, area = text(report).partition("\nattribution\n")
    assert max(len(line) for line in area.splitlines() if "/" not in line) <= 80


def test_sources_that_do_not_respond_are_warnings_with_advice(
    examined: Examine, cluster: SimulatedCluster
) -> None:
    cluster.api_down()
    cluster.kubelet_down()
    found = examined(node_labels="zone")
    for source, reason, advice in (
        ("pods", "unreachable", "--kube-api-url"),
        ("node", "unreachable", "--kube-api-url"),
        ("pod-resources", "no_socket", "/var/lib/kubelet/pod-resources"),
    ):
        finding = found[source]
        assert (finding.severity, finding.details["reason"]) == ("warning", reason)
        assert advice in (finding.advice or "")
    assert found["pod_unknown"].severity == "warning"
    assert "Fix pods above" in (found["pod_unknown"].advice or "")


def test_a_rejected_token_is_a_warning(examined: Examine, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("of-another-cluster")
    finding = examined(kube_token_file=str(tmp_path / "other"))["pods"]
    assert (finding.severity, finding.details["reason"]) == ("warning", "unauthorized")
    assert "--kube-token-file" in (finding.advice or "")
    assert "of-another-cluster" not in finding.found


def test_advice_names_node_name_when_no_pod_is_known(examined: Examine) -> None:
    found = examined(node_name="another")
    assert found["pods"].severity == "ok"
    assert found["pod_unknown"].severity == "warning"
    assert "NODE_NAME" in (found["pod_unknown"].advice or "")


def test_another_pid_namespace_is_a_warning(examined: Examine, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    found = examined(proc_root=str(tmp_path / "proc"))
    assert (found["processes"].severity, found["processes"].details["reason"]) == ("warning", "hidden")
    assert "hostPID: true" in (found["processes"].advice or "")
    assert found["process_gone"].severity == "warning"


@pytest.mark.parametrize(("pod_source", "severity"), [("auto", "warning"), ("off", "note")])
def test_pods_without_a_source_of_names(examined: Examine, pod_source: str, severity: str) -> None:
    found = examined(pod_source=pod_source, kube_api_url="", pod_resources_socket="")
    assert found["pods"].severity == found["pod-resources"].severity == "ok"
    assert found["no_pod_source"].severity == severity
    assert found["not_in_a_pod"].severity == "ok"


def test_shares_and_jobs_are_reported(examined: Examine, tmp_path: Path) -> None:
    (tmp_path / "ratio").write_text("2.5\n")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "1").write_text("40977\n")
    found = examined(gpu_allocation_file=str(tmp_path / "ratio"), job_mapping_folder=str(tmp_path / "jobs"))
    assert found["shares"].found == "of 2 devices 2 divided into 2.5"
    assert found["job-mapping"].found.endswith("names jobs for 1 of 2 devices")


def test_unreadable_shares_and_jobs_are_warnings(examined: Examine, tmp_path: Path) -> None:
    (tmp_path / "ratio").write_text("half\n")
    missing = str(tmp_path / "none")
    found = examined(gpu_allocation_file=str(tmp_path / "ratio"), job_mapping_folder=missing)
    assert (found["shares"].severity, found["shares"].details["reason"]) == ("warning", "bad_ratio")
    assert (found["job-mapping"].severity, found["job-mapping"].details["reason"]) == (
        "warning",
        "unreadable",
    )
    assert "does not exist" in examined(gpu_allocation_file=missing)["shares"].found


def test_ratios_that_match_no_device_are_a_warning(examined: Examine, tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("shares: {models: {'NVIDIA B200*': 2}}\n")
    finding = examined(config_file=str(tmp_path / "agent.yaml"))["shares"]
    assert (finding.severity, finding.found) == ("warning", "no device matches the configured ratios")


# On an empty node


def test_settings_that_prevent_the_agent_from_starting_are_an_error(node: "NodeFolder") -> None:
    report = examine(node.subject({"pod_source": "api-server"}), [attribution_area({})])
    [(_, finding)] = report.findings
    assert (finding.severity, report.exit_code) == ("error", 2)
    assert "--kube-api-url" in finding.found


def test_a_machine_without_kubernetes_is_ok(node: "NodeFolder") -> None:
    subject = node.subject({"pod_resources_socket": str(node.folder / "none.sock")})
    report = examine(subject, [attribution_area({})])
    assert {finding.severity for _, finding in report.findings} == {"ok"}
    assert [f.name for _, f in report.findings] == [*SOURCES, "attributed", "allocations"]


def test_node_labels_without_an_api_server_are_a_warning(node: "NodeFolder") -> None:
    subject = node.subject({"node_labels": "zone", "pod_resources_socket": ""})
    [finding] = [f for f in check_sources(attribute(subject, ()), subject) if f.name == "node"]
    assert finding.severity == "warning"


def test_a_silent_server_does_not_delay_the_doctor(node: "NodeFolder") -> None:
    (node.folder / "token").write_text("t")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        subject = node.subject(
            {
                "kube_api_url": f"http://127.0.0.1:{silent.getsockname()[1]}",
                "kube_token_file": str(node.folder / "token"),
                "pod_resources_socket": "",
            }
        )
        result = attribute(subject, (), seconds=0.3)
    [finding] = [f for f in check_sources(result, subject) if f.name == "pods"]
    assert (finding.severity, finding.found) == ("warning", "no response yet (starting)")


# Single findings


def _result(
    *,
    processes: tuple[Process, ...] = (),
    allocations: tuple[Allocation, ...] = (),
    unattributed: tuple[Unattributed, ...] = (),
    states: tuple[AttributionSourceState, ...] = (),
    balances: tuple[DeviceBalance, ...] = (),
    devices: tuple[Device, ...] = DEVICES,
) -> AttributionResult:
    attributed = Attribution(
        processes=processes,
        allocations=allocations,
        unattributed=unattributed,
        attribution=states,
        balances=balances,
    )
    return AttributionResult(AttributionOptions(node="n", pods=PodSource.API_SERVER), devices, attributed)


def _process(pid: int, reason: UnattributedReason | None, device: int = 0) -> Process:
    owner = Owner(kind=OwnerKind.POD, namespace="ns", pod="p", reason=reason)
    return Process(pid=pid, name="train", device=f"nvidia:GPU-{device}", owner=owner, memory_bytes=1)


@pytest.mark.parametrize(
    ("reason", "severity"),
    [
        (UnattributedReason.NOT_IN_A_POD, "note"),
        (UnattributedReason.PROCESS_GONE, "note"),
        (UnattributedReason.NO_PERMISSION, "warning"),
        (UnattributedReason.CGROUP_HIDDEN, "warning"),
        (UnattributedReason.POD_UNKNOWN, "note"),
        (UnattributedReason.NO_POD_SOURCE, "warning"),
    ],
)
def test_the_severity_depends_on_the_reason(
    node: "NodeFolder", reason: UnattributedReason, severity: str
) -> None:
    up = tuple(AttributionSourceState(source=name, up=True) for name in ("processes", "pods"))
    result = _result(processes=(_process(1, None), _process(2, reason)), states=up)
    attributed, finding = check_processes(result, node.subject())
    assert attributed.found == "1 of 2 processes attributed to 1 pod"
    assert (finding.name, finding.severity, finding.advice) == (
        reason.value,
        severity,
        UNATTRIBUTED_ADVICE[reason],
    )
    assert finding.found == "1 process: train (pid 2 on nvidia 0)"


def test_a_process_on_several_devices_is_listed_once_and_a_long_list_is_shortened(node: "NodeFolder") -> None:
    reason = UnattributedReason.NO_PERMISSION
    processes = [_process(pid, reason, device) for pid in range(8) for device in (0, 1)]
    _, finding = check_processes(_result(processes=tuple(processes)), node.subject())
    assert finding.found.startswith("8 processes: train (pid 0 on nvidia 0, nvidia 1), train (pid 1 ")
    assert finding.found.endswith(" and 3 more")
    assert len(finding.details["processes"]) == 8


def test_devices_with_the_same_index_are_named_by_their_ids() -> None:
    devices = (DEVICES[0], replace(DEVICES[1], index=0))
    result = _result(devices=devices)
    assert result.device_name("nvidia:GPU-0") == "nvidia:GPU-0"
    assert _result().device_name("nvidia:GPU-1") == "nvidia 1"
    assert _result().device_name(None) == "an unknown device"


@pytest.mark.parametrize(
    ("gib", "memory", "reported"),
    [(60, 1, True), (2, 1, False), (60, None, False)],
    ids=["most of the device", "the driver's own", "the driver reports no memory per process"],
)
def test_memory_in_use_without_a_process_is_noted(
    node: "NodeFolder", gib: int, memory: int | None, reported: bool
) -> None:
    rest = Unattributed(
        device="nvidia:GPU-1",
        kind=OwnerKind.NONE,
        name=None,
        reason=UnattributedReason.NO_PROCESS,
        memory_used_bytes=gib << 30,
    )
    process = replace(_process(1, None, device=1), memory_bytes=memory)
    _, *findings = check_processes(_result(processes=(process,), unattributed=(rest,)), node.subject())
    assert [f.severity for f in findings] == (["note"] if reported else [])
    if reported:
        assert "60.0 GiB of nvidia 1" in findings[0].found


def _allocation(
    device_id: str,
    source: AllocationSource = AllocationSource.KUBELET,
    *,
    resource: str | None = None,
    claim: str | None = None,
) -> Allocation:
    return Allocation(
        namespace="ns",
        pod="p",
        container="c",
        source=source,
        device_id=device_id,
        resource=resource,
        claim=claim,
    )


@pytest.mark.parametrize(
    ("allocation", "name"),
    [
        (_allocation("GPU-strange", resource="nvidia.com/gpu"), "unknown ids"),
        (_allocation("GPU-strange", AllocationSource.ANNOTATION), "unknown ids"),
        (_allocation("gpu.nvidia.com/n/gpu-0", AllocationSource.CLAIM, claim="ns/c"), "unknown claims"),
        (_allocation("", AllocationSource.CLAIM, claim="ns/c"), "unknown claims"),
        (_allocation("mlx5_0", resource="rdma/hca"), None),
        (_allocation("dra.net/n/eth1", AllocationSource.CLAIM, claim="ns/c"), None),
    ],
)
def test_unknown_ids_of_accelerators_are_a_warning(allocation: Allocation, name: str | None) -> None:
    first, *unknown = check_allocations(_result(allocations=(allocation,)))
    assert first.severity == "ok"
    assert [(f.name, f.severity) for f in unknown] == ([(name, "warning")] if name else [])
    if name is None:
        assert first.found.endswith(f"not accelerators: {allocation.resource or 'dra.net'}")
    else:
        assert allocation.device_id in unknown[0].found


# Advice and documentation are complete

REASONS = [
    *[(source, reason) for source in ("pods", "node", "resource-slices") for reason in Reason],
    *[("pod-resources", reason) for reason in UnaryReason],
    ("processes", "hidden"),
    ("annotations", "bad_annotation"),
    *[("shares", reason) for reason in ("missing", "unreadable", "bad_ratio")],
    ("job-mapping", "unreadable"),
]


@pytest.mark.parametrize("pod_source", ["api-server", "kubelet"])
@pytest.mark.parametrize(("source", "reason"), REASONS)
def test_every_reason_of_a_source_has_advice_that_fits_80_columns(
    node: "NodeFolder", source: str, reason: str, pod_source: str
) -> None:
    subject = node.subject({"pod_source": pod_source})
    advice = source_advice(source, reason, subject)
    transient = reason in (Reason.CONFLICT, Reason.GONE)
    assert (advice == source_advice(source, "unknown", subject)) == transient
    page = text(Report(version="1", node="n", findings=(("attribution", warning("a", "b", advice)),)))
    assert max(len(line) for line in page.splitlines()) <= 80


def test_every_reason_of_a_process_has_advice() -> None:
    assert UNATTRIBUTED_ADVICE.keys() == set(UnattributedReason)


def test_the_documentation_names_every_reason_source_and_kind_of_owner() -> None:
    page = (REPOSITORY / "docs/attribution.md").read_text()
    rows = set(re.findall(r"^\| `([a-z_-]+)`", page, re.MULTILINE))
    assert rows >= {reason.value for reason in UnattributedReason}
    assert rows >= set(SOURCES)
    assert rows >= {kind.value for kind in OwnerKind}


def test_the_documentation_names_every_family_and_only_existing_settings() -> None:
    page = (REPOSITORY / "docs/attribution.md").read_text()
    families = (*workloads.PODS, *workloads.POD_INFO, *workloads.UNATTRIBUTED, *workloads.BALANCES)
    for family in (*families, *workloads.UNKNOWN_ALLOCATIONS):
        assert f"`{family.name}`" in page
    flags = {flag_name(declared.name) for declared in settings_of(AgentSettings)}
    assert set(re.findall(r"`(--[a-z][a-z-]+)", page)) <= flags | {"--no-resource-slices"}


def test_results_of_the_vendors_checks_are_used(node: "NodeFolder") -> None:
    state = ReaderState(vendor=Vendor("nvidia"), found=True, up=True)
    results = {Vendor("nvidia"): Result(state, DEVICES, (_process(7, None),))}
    report = examine(node.subject({"pod_resources_socket": ""}), [attribution_area(results)])
    found = {finding.name: finding for _, finding in report.findings}
    assert found["processes"].details["reason"] == "hidden"
    assert found["process_gone"].found == "1 process: train (pid 7 on nvidia 0)"
