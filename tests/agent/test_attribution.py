"""Which pod uses what: the whole way from drivers, /proc, API server and kubelet to the page."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.costless import costless
from tests.patient_kubelet import patient_kubelet

from accelscope.agent.assembly import attribution_options
from accelscope.agent.collector import CollectionInterval, Collector
from accelscope.agent.runner import Deadlines, Runner
from accelscope.agent.settings import AgentSettings, ShareRatios
from accelscope.attribution.attributor import Attributor
from accelscope.config import ConfigError, make
from accelscope.metrics.exposition import Exposition
from accelscope.model import (
    AllocationSource,
    AttributionSourceState,
    OwnerKind,
    PodUsage,
    Process,
    Snapshot,
    UnattributedReason,
    Vendor,
)
from accelscope.serve import Request, Response, Route, Server
from accelscope.simulate import SimulatedNode
from accelscope.simulate.kubernetes import SimulatedCluster
from accelscope.vendors.common.contract import open_reader

GIB = 1 << 30


class Lab:
    """A node, its cluster, and the agent's collector, moved by hand."""

    def __init__(self, folder: Path, description: str, **settings: object) -> None:
        spec = costless(description)
        self._stack = ExitStack()
        self._stack.enter_context(patient_kubelet())
        self.folder = folder
        self.node = SimulatedNode(spec, folder / "node")
        self.node.build(100.0)
        self.cluster = self._stack.enter_context(SimulatedCluster(self.node, folder / "cluster"))
        pointed = {**self.node.agent_settings(), **self.cluster.agent_settings()}
        self.settings = replace(
            make(AgentSettings, pointed),
            gpu_allocation_file=str(folder / "gpu_allocation.txt"),
            **settings,  # type: ignore[arg-type]
        )
        self.now = 100.0
        changed = threading.Condition()
        self.attributor = Attributor(
            attribution_options(self.settings, spec.name, {}), monotonic=lambda: self.now
        )
        runners = [
            Runner(
                open_reader(Vendor(vendor), replace(self.settings.reader_options, tool_interval_seconds=0)),
                deadlines=Deadlines(30, 30, 60),
                changed=changed,
            )
            for vendor in spec.vendors
        ]
        self.collector = Collector(
            runners,
            self.attributor,
            node=spec.name,
            version="test",
            pace=CollectionInterval(60.0),
            changed=changed,
            publish=lambda _: None,
        )
        self._stack.callback(self.collector.stop)
        self.attributor.start()

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def at(self, seconds: float) -> Snapshot:
        self.now = seconds
        self.node.write(seconds)
        return self.collector.collect()

    def until(self, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
        """Collect at the same instant until what threads of the agent are at has come through."""
        end = time.monotonic() + 30
        while True:
            snapshot = self.at(self.now)
            if condition(snapshot):
                return snapshot
            assert time.monotonic() < end, f"waited in vain: {what}"
            time.sleep(0.02)

    def named(self) -> Snapshot:
        """Also waits for allocations, if the kubelet is used."""
        return self.until(lambda s: bool(s.pods) and kubelet_is_heard(s), "pods have names")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path, "nvidia-shared", pod_labels=("team",)) as lab:
        lab.named()
        yield lab


def source(snapshot: Snapshot, name: str) -> AttributionSourceState:
    return next(state for state in snapshot.attribution if state.source == name)


def kubelet_is_heard(snapshot: Snapshot) -> bool:
    return all(state.up for state in snapshot.attribution if state.source == "pod-resources")


def usage(snapshot: Snapshot, pod: str) -> PodUsage:
    [found] = [u for u in snapshot.pod_usages if u.pod.startswith(pod)]
    return found


def conserved(snapshot: Snapshot) -> None:
    for device in snapshot.devices:
        assert device.memory_used_bytes is not None
        of_pods = sum(u.memory_used_bytes or 0 for u in snapshot.pod_usages if u.device == device.id)
        of_others = sum(u.memory_used_bytes or 0 for u in snapshot.unattributed if u.device == device.id)
        [balance] = [b for b in snapshot.balances if b.device == device.id]
        assert of_pods + of_others - (balance.surplus_memory_bytes or 0) == device.memory_used_bytes


def test_pods_that_share_a_card_each_have_their_own(shared: Lab) -> None:
    snapshot = shared.at(110)
    chat, labelling = usage(snapshot, "chat"), usage(snapshot, "labelling")
    assert chat.device == labelling.device
    assert (chat.namespace, chat.container, chat.allocated) == ("inference", "vllm", 2)
    assert (labelling.container, labelling.processes, labelling.allocated) == ("worker", 2, 1)
    assert labelling.memory_used_bytes == pytest.approx(6 * GIB, rel=0.1)
    assert chat.utilization_ratio is not None
    notebook = usage(snapshot, "notebook-mara-0")
    assert (notebook.processes, notebook.allocated) == (0, 1)
    assert (notebook.memory_used_bytes, notebook.utilization_ratio) == (0, 0)
    dcgm = usage(snapshot, "dcgm")
    assert (dcgm.processes, dcgm.allocated, dcgm.resources) == (1, 0, ())
    conserved(snapshot)


def test_a_share_granted_by_hami_is_reported(shared: Lab) -> None:
    snapshot = shared.at(110)
    ranking, finetune = usage(snapshot, "ranking"), usage(snapshot, "finetune")
    assert (ranking.memory_share_bytes, ranking.compute_share_ratio) == (10 * GIB, 0.3)
    assert (finetune.memory_share_bytes, finetune.compute_share_ratio) == (12 * GIB, 0.5)
    by_annotation = [a for a in snapshot.allocations if a.source is AllocationSource.ANNOTATION]
    assert {a.pod for a in by_annotation} == {ranking.pod, finetune.pod}
    assert all(a.device == ranking.device for a in by_annotation)


def test_processes_outside_pods_have_an_owner(shared: Lab) -> None:
    owners = {(u.kind, u.name) for u in shared.at(110).unattributed if u.kind is not OwnerKind.CONTAINER}
    assert (OwnerKind.SLURM_JOB, "40977") in owners
    assert (OwnerKind.SYSTEMD_UNIT, "camera-archive.service") in owners


def test_pods_have_owners_and_chosen_labels(shared: Lab) -> None:
    snapshot = shared.at(110)
    pods = {(p.namespace, p.owner_kind, p.owner_name): p.labels for p in snapshot.pods}
    assert pods["inference", "Deployment", "chat"] == (("team", "serving"),)
    assert pods["research", "Job", "finetune"] == (("team", "language"),)
    page = Exposition().render(snapshot).text.decode()
    assert 'container="vllm",label_team="serving"}' in page


def test_energy_and_idle_seconds_over_time(shared: Lab) -> None:
    before = shared.at(110)
    after = shared.at(120)
    for one, other in zip(before.devices, after.devices, strict=True):
        assert one.energy_joules is not None
        assert other.energy_joules is not None
        added = other.energy_joules - one.energy_joules
        assert added > 0
        assert energy(after, one.id) - energy(before, one.id) == pytest.approx(added)
    assert usage(after, "notebook-mara-0").idle_seconds == pytest.approx(20)
    assert usage(after, "ranking").idle_seconds == 0


def energy(snapshot: Snapshot, device: str) -> float:
    of_pods = sum(u.energy_joules or 0.0 for u in snapshot.pod_usages if u.device == device)
    return of_pods + sum(b.idle_energy_joules or 0.0 for b in snapshot.balances if b.device == device)


TWO_PODS = """\
node: two-pods
nvidia: {devices: [{model: a100-40gb}]}
processes:
  - {name: first, device: 0, pid: 4242, until: 200, cgroup: {kind: pod, namespace: one, pod: old}}
  - {name: second, device: 0, pid: 4242, from: 200, cgroup: {kind: pod, namespace: two, pod: new}}
  - {name: third, device: 0, until: 300, cgroup: {kind: pod, namespace: three, pod: short}}
"""


def test_a_pod_that_ends_disappears_and_its_reused_pid_is_not_attributed_to_it(tmp_path: Path) -> None:
    with Lab(tmp_path, TWO_PODS) as lab:
        lab.named()
        first = lab.at(199)
        assert owners(first) == {"first": "old", "third": "short"}
        after = lab.at(201)
        assert owners(after)["second"] in ("new", None)  # None: the watch has not brought the new pod yet
        assert "old" not in {u.pod for u in after.pod_usages}
        page = Exposition().render(after).text.decode()
        assert 'pod="old"' not in page
        lab.until(lambda s: owners(s) == {"second": "new", "third": "short"}, "the new pod is known")
        assert {u.pod for u in lab.at(301).pod_usages} == {"new"}


def owners(snapshot: Snapshot) -> dict[str | None, str | None]:
    return {p.name: p.owner.pod if p.owner else None for p in snapshot.processes}


def test_without_a_source_of_pods_only_uids_are_shown(tmp_path: Path) -> None:
    with Lab(tmp_path, "nvidia-shared", pod_source="off", kube_api_url="", pod_resources_socket="") as lab:
        snapshot = lab.at(110)
        assert snapshot.pod_usages == ()
        assert {s.source for s in snapshot.attribution} == {"processes"}
        in_pods = [u for u in snapshot.unattributed if u.kind is OwnerKind.POD]
        assert in_pods
        assert {u.reason for u in in_pods} == {UnattributedReason.NO_POD_SOURCE}
        conserved(snapshot)


def test_allocations_come_from_the_kubelet_alone(tmp_path: Path) -> None:
    with Lab(tmp_path, "nvidia-h100x8", pod_source="off") as lab:
        snapshot = lab.at(110)
        held = [u for u in snapshot.pod_usages if u.allocated]
        assert held
        assert all(u.pod_uid is None and u.processes == 0 for u in held)


def test_known_pods_stay_while_the_api_server_is_unreachable(shared: Lab) -> None:
    before = shared.at(110)
    shared.cluster.api_down()
    after = shared.until(lambda s: not source(s, "pods").up, "the source is down")
    assert {u.pod for u in after.pod_usages} == {u.pod for u in before.pod_usages}
    state = source(after, "pods")
    assert state.reason == "unreachable"
    assert state.error
    page = Exposition().render(after).text.decode()
    assert 'accelscope_attribution_source_up{source="pods"} 0' in page
    assert 'accelscope_attribution_source_last_error_info{source="pods",reason="unreachable"' in page
    shared.cluster.api_up()
    shared.until(lambda s: source(s, "pods").up, "the source is back")


def test_a_restarted_kubelet_is_called_again(shared: Lab) -> None:
    shared.cluster.kubelet_down()
    down = shared.at(110)
    assert (source(down, "pod-resources").up, source(down, "pod-resources").reason) == (False, "no_socket")
    assert usage(down, "chat").allocated == 2  # the last response is used for a while
    assert usage(shared.at(300), "chat").allocated == 0
    assert usage(shared.at(301), "chat").processes == 1
    shared.cluster.kubelet_up()
    back = shared.at(310)
    assert source(back, "pod-resources").up
    assert usage(back, "chat").allocated == 2


def test_hidden_processes_are_reported(tmp_path: Path) -> None:
    """As in a pod without hostPID: the driver's pids are not in /proc."""
    (tmp_path / "proc").mkdir()
    with Lab(tmp_path, "mixed", proc_root=str(tmp_path / "proc")) as lab:
        snapshot = lab.named()
        state = source(snapshot, "processes")
        assert (state.up, state.reason) == (False, "hidden")
        assert state.error is not None
        assert "hostPID" in state.error
        assert {p.owner.reason for p in snapshot.processes if p.owner} == {UnattributedReason.PROCESS_GONE}
        later = lab.at(120)
        # The only container with a device is its user.
        [alone, _] = [u for u in later.pod_usages if u.pod.startswith("llm-pretrain")]
        assert (alone.processes, alone.idle_seconds) == (0, 0)
        assert (alone.energy_joules or 0) > 0


def shares(snapshot: Snapshot) -> list[float | None]:
    return [balance.share_ratio for balance in snapshot.balances]


def test_the_ratio_file_is_re_read_and_an_invalid_one_changes_nothing(shared: Lab) -> None:
    file = shared.folder / "gpu_allocation.txt"
    snapshot = shared.at(110)
    assert shares(snapshot) == [None, None]
    assert usage(snapshot, "chat").memory_share_bytes is None
    assert not [s for s in snapshot.attribution if s.source == "shares"]
    file.write_text("2\n")
    snapshot = shared.at(111)
    total = snapshot.devices[0].memory_total_bytes
    assert total is not None
    assert shares(snapshot) == [2, 2]
    assert usage(snapshot, "labelling").memory_share_bytes == total // 2
    assert usage(snapshot, "chat").memory_share_bytes == total  # it holds two of the shares
    assert usage(snapshot, "ranking").memory_share_bytes == 10 * GIB  # HAMi's word wins
    replacement = shared.folder / "new.txt"
    replacement.write_text("2.5")
    replacement.replace(file)
    snapshot = shared.at(112)
    assert shares(snapshot) == [2.5, 2.5]
    assert usage(snapshot, "labelling").memory_share_bytes == int(total / 2.5)
    for wrong in ("0", "-1", "two", "", "1 2"):
        file.write_text(wrong)
        snapshot = shared.at(113)
        assert shares(snapshot) == [2.5, 2.5]
        state = source(snapshot, "shares")
        assert (state.up, state.reason) == (False, "bad_ratio")
        assert state.error is not None
        assert "2.5 stays in use" in state.error
    file.unlink()
    snapshot = shared.at(114)
    assert (shares(snapshot), source(snapshot, "shares").reason) == ([2.5, 2.5], "missing")
    file.write_text("4")
    snapshot = shared.at(115)
    assert (shares(snapshot), source(snapshot, "shares").up) == ([4, 4], True)


def test_ratios_by_device_and_model(tmp_path: Path) -> None:
    ratios = ShareRatios(devices={"1": 3.0}, models={"NVIDIA A100*": 2.0})
    with Lab(tmp_path, "nvidia-shared", shares=ratios) as lab:
        (tmp_path / "gpu_allocation.txt").write_text("7")
        assert shares(lab.at(110)) == [2, 3]
        lab.attributor.set_ratios({}, {})
        assert shares(lab.at(111)) == [7, 7]


def test_the_vgpu_dialect_shows_shares(shared: Lab) -> None:
    from accelscope.metrics import dialects  # noqa: PLC0415

    (shared.folder / "gpu_allocation.txt").write_text("4")
    page = Exposition(dialects=dialects.load(("vgpu",))).render(shared.at(110)).text.decode()
    pod = usage(shared.at(110), "labelling").pod
    assert f'pod_total_gpu_memory{{gpu_id="0",namespace="vision",pod="{pod}"}} 10240\n' in page


IDLE_PODS = """\
node: idle-pods
nvidia: {devices: [{model: a100-40gb}, {model: a100-40gb, mig: [3g.20gb]}]}
processes:
  - {name: server, device: 0, load: {shape: idle}, cgroup: {kind: pod, namespace: ns, pod: waiting}}
  - {name: server, device: 1, instance: 0, load: {shape: idle}, cgroup: {kind: pod, namespace: ns, pod: cut}}
"""


def test_an_idle_pod_is_reported_with_0_and_without_utilization_on_a_mig_instance(tmp_path: Path) -> None:
    from accelscope.metrics import dialects  # noqa: PLC0415

    with Lab(tmp_path, IDLE_PODS) as lab:
        snapshot = lab.named()
    page = Exposition(dialects=dialects.load(("vgpu",))).render(snapshot).text.decode()
    of_pods = [line for line in page.splitlines() if line.startswith("accelerator_pod_utilization_ratio{")]
    assert [line.rpartition(" ")[2] for line in of_pods] == ["0"]
    assert 'pod="waiting"' in of_pods[0]
    assert 'pod_gpu_sm_util{gpu_id="0",namespace="ns",pod="waiting"} 0\n' in page
    assert 'pod_gpu_sm_util{gpu_id="1"' not in page


def test_a_batch_scheduler_names_the_jobs_of_devices(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "1").write_text("778\n")
    with Lab(tmp_path, "nvidia-shared", job_mapping_folder=str(tmp_path / "jobs")) as lab:
        snapshot = lab.named()
        assert [b.jobs for b in snapshot.balances] == [(), ("778",)]
        owned = {(u.kind, u.name) for u in snapshot.unattributed}
        assert (OwnerKind.SLURM_JOB, "778") in owned  # the unit without a job
        assert (OwnerKind.SLURM_JOB, "40977") in owned  # its cgroup names its own
        (tmp_path / "jobs" / "1").unlink()
        (tmp_path / "jobs").rmdir()
        assert source(lab.at(111), "job-mapping").reason == "unreadable"


def test_pods_from_the_kubelet(tmp_path: Path) -> None:
    pod = {
        "metadata": {"name": "held", "namespace": "ns", "uid": "0a0a0a0a-0000-4000-8000-000000000001"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "main", "containerID": f"containerd://{'c' * 64}"}],
        },
    }
    body = json.dumps({"kind": "PodList", "metadata": {}, "items": [pod]}).encode()

    def answer(_: Request) -> Response:
        return Response({"identity": body}, content_type="application/json")

    server = Server({"/pods": Route(answer)}, host="127.0.0.1", port=0)
    server.start()
    description = TWO_PODS.replace(
        "pod: old}",
        f"pod_uid: {pod['metadata']['uid']}, container_id: {'c' * 64}}}",  # type: ignore[index]
    )
    url = f"http://127.0.0.1:{server.address[1]}"
    try:
        with Lab(tmp_path, description, pod_source="kubelet", kubelet_url=url) as lab:
            snapshot = lab.named()
            assert source(snapshot, "pods").detail == "kubelet"
            [first] = [p for p in snapshot.processes if p.name == "first"]
            assert in_pod(first) == ("ns", "held", "main")
    finally:
        server.stop()


def in_pod(process: Process) -> tuple[str | None, str | None, str | None]:
    assert process.owner is not None
    return process.owner.namespace, process.owner.pod, process.owner.container


def test_an_unavailable_source_of_pods_is_an_error_at_start() -> None:
    with pytest.raises(ConfigError, match="--kube-api-url"):
        attribution_options(AgentSettings(pod_source="api-server"), "n", {})


def test_outside_a_cluster_there_is_no_source_of_pods() -> None:
    options = attribution_options(AgentSettings(), "n", {})
    assert options.api_server is None
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        attribution_options(AgentSettings(), "n", {"KUBERNETES_SERVICE_HOST": "no host"})
    inside = attribution_options(AgentSettings(), "n", {"KUBERNETES_SERVICE_HOST": "10.96.0.1"})
    assert inside.api_server is not None
    assert inside.api_server.url == "https://10.96.0.1:443"


@pytest.mark.parametrize(
    ("settings", "url", "name"),
    [
        ({}, "https://127.0.0.1:10250", "n"),
        ({"node_ip": "192.0.2.7"}, "https://192.0.2.7:10250", None),
        ({"node_ip": "fd00::1"}, "https://[fd00::1]:10250", None),
        ({"node_ip": "192.0.2.7", "kubelet_url": "https://kubelet:1"}, "https://kubelet:1", None),
    ],
)
def test_the_address_of_the_kubelet(settings: dict[str, str], url: str, name: str | None) -> None:
    chosen = AgentSettings(pod_source="kubelet", **settings)  # type: ignore[arg-type]
    kubelet = attribution_options(chosen, "n", {}).kubelet
    assert kubelet is not None
    assert (kubelet.url, kubelet.server_name) == (url, name)


def test_an_invalid_address_is_an_error() -> None:
    with pytest.raises(ConfigError, match="--node-ip"):
        AgentSettings(node_ip="no address")
