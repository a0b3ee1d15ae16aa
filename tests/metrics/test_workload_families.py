"""Native families about whose the devices are: the exact lines, and what holds for any page."""

import gc
import shutil
import subprocess
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client import parser as text_parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.exposition import Exposition
from accelscope.metrics.family import Scope
from accelscope.model import (
    AgentState,
    Allocation,
    AllocationSource,
    AttributionSourceState,
    Device,
    DeviceBalance,
    Owner,
    OwnerKind,
    Partition,
    Pod,
    PodUsage,
    Process,
    ReasonCount,
    Snapshot,
    Unattributed,
    UnattributedReason,
    Vendor,
)

Parse = Callable[[str], Iterable[Metric]]
parse_text: Parse = text_parser.text_string_to_metric_families
parse_openmetrics: Parse = openmetrics_parser.text_string_to_metric_families

GPU = Device(
    vendor=Vendor("nvidia"),
    id="nvidia:GPU-1",
    index=0,
    partitions=(Partition(id="MIG-1", profile="1g.10gb"),),
)
EMPTY = Snapshot(node="n1", taken_at=100.0, agent=AgentState(version="1", started_at=1.0), devices=(GPU,))
TRAIN = Pod(
    uid="u1",
    namespace="research",
    name="train-0",
    owner_kind="StatefulSet",
    owner_name="train",
    labels=(("app.kubernetes.io/name", 'a "b"\\\n'), ("team", "x")),
)
USAGE = PodUsage(device=GPU.id, namespace="research", pod="train-0", container="main", pod_uid="u1")
ON_GPU = 'vendor="nvidia",device="nvidia:GPU-1",index="0"'
MAIN = f'{ON_GPU},namespace="research",pod="train-0",container="main"'


def lines(snapshot: Snapshot, *names: str, exposition: Exposition | None = None) -> list[str]:
    page = (exposition or Exposition()).render(snapshot).text.decode()
    shown = [line for line in page.splitlines() if not line.startswith("#")]
    return [line for line in shown if line.startswith(tuple(f"{name}{{" for name in names))]


def of_pods(*usages: PodUsage, pods: tuple[Pod, ...] = ()) -> list[str]:
    page = Exposition().render(replace(EMPTY, pod_usages=usages, pods=pods)).text.decode()
    return [line for line in page.splitlines() if line.startswith("accelerator_pod_")]


USAGES: list[tuple[str, PodUsage, list[str]]] = [
    ("idle and not told", USAGE, [f"accelerator_pod_processes{{{MAIN}}} 0"]),
    (
        "measured",
        replace(
            USAGE,
            processes=2,
            memory_used_bytes=1024,
            utilization_ratio=0.5,
            memory_utilization_ratio=0.25,
            encoder_utilization_ratio=0.0,
            decoder_utilization_ratio=0.125,
        ),
        [
            f"accelerator_pod_processes{{{MAIN}}} 2",
            f"accelerator_pod_memory_used_bytes{{{MAIN}}} 1024",
            f"accelerator_pod_utilization_ratio{{{MAIN}}} 0.5",
            f"accelerator_pod_memory_busy_ratio{{{MAIN}}} 0.25",
            f'accelerator_pod_engine_utilization_ratio{{{MAIN},engine="encoder"}} 0',
            f'accelerator_pod_engine_utilization_ratio{{{MAIN},engine="decoder"}} 0.125',
        ],
    ),
    (
        "allocated",
        replace(USAGE, allocated=3, resources=("nvidia.com/gpu", "nvidia.com/gpu.shared"), idle_seconds=7.5),
        [
            f"accelerator_pod_processes{{{MAIN}}} 0",
            f'accelerator_pod_allocated{{{MAIN},resource="nvidia.com/gpu,nvidia.com/gpu.shared"}} 3',
            f"accelerator_pod_idle_seconds{{{MAIN}}} 7.5",
        ],
    ),
    (
        "apportioned",
        replace(
            USAGE,
            memory_share_bytes=512,
            compute_share_ratio=0.4,
            device_share_ratio=0.25,
            energy_joules=12.5,
        ),
        [
            f"accelerator_pod_processes{{{MAIN}}} 0",
            f"accelerator_pod_memory_share_bytes{{{MAIN}}} 512",
            f"accelerator_pod_compute_share_ratio{{{MAIN}}} 0.4",
            f"accelerator_pod_device_share_ratio{{{MAIN}}} 0.25",
            f"accelerator_pod_energy_joules_total{{{MAIN}}} 12.5",
        ],
    ),
    (
        "in a partition",
        replace(USAGE, partition="MIG-1", processes=1),
        [f'accelerator_pod_processes{{{MAIN},partition="MIG-1"}} 1'],
    ),
    (
        "of a device that is not listed",
        replace(USAGE, device="nvidia:gone"),
        [
            'accelerator_pod_processes{vendor="",device="nvidia:gone",index="",namespace="research",'
            'pod="train-0",container="main"} 0'
        ],
    ),
]


@pytest.mark.parametrize(("_case", "usage", "expected"), USAGES, ids=[case[0] for case in USAGES])
def test_what_a_container_has_of_a_device(_case: str, usage: PodUsage, expected: list[str]) -> None:
    assert of_pods(usage) == expected


LABELS = r'label_app_kubernetes_io_name="a \"b\"\\\n",label_team="x"'


def test_a_pod_s_labels_stand_on_its_series() -> None:
    usage = replace(USAGE, partition="MIG-1", encoder_utilization_ratio=0.5)
    assert of_pods(usage, pods=(TRAIN,)) == [
        f'accelerator_pod_processes{{{MAIN},partition="MIG-1",{LABELS}}} 0',
        f'accelerator_pod_engine_utilization_ratio{{{MAIN},partition="MIG-1",{LABELS},engine="encoder"}} 0.5',
        f'accelerator_pod_info{{namespace="research",pod="train-0",uid="u1",owner_kind="StatefulSet",'
        f'owner_name="train",{LABELS}}} 1',
    ]


@pytest.mark.parametrize(
    ("uid", "name", "found"),
    [
        ("u1", "train-0", True),
        ("u1", "renamed", True),
        (None, "train-0", True),
        (None, "other", False),
        ("u9", "other", False),
    ],
)
def test_a_pod_is_found_by_uid_or_by_name(uid: str | None, name: str, found: bool) -> None:
    shown = of_pods(replace(USAGE, pod_uid=uid, pod=name), pods=(TRAIN,))[0]
    assert ('label_team="x"' in shown) is found


def test_a_pod_without_an_owner_has_empty_labels_for_it() -> None:
    alone = Pod(uid="u2", namespace="a", name="b")
    assert of_pods(pods=(alone,)) == [
        'accelerator_pod_info{namespace="a",pod="b",uid="u2",owner_kind="",owner_name=""} 1'
    ]


def test_labels_that_become_one_name_are_written_once() -> None:
    pod = replace(TRAIN, labels=(("a.b", "1"), ("a-b", "2"), ("a_b", "3"), ("Größe", "4")))
    [shown, *_] = of_pods(USAGE, pods=(pod,))
    assert shown == f'accelerator_pod_processes{{{MAIN},label_a_b="1",label_Gr__e="4"}} 0'


def test_labels_of_a_pod_that_change_are_seen_at_the_next_page() -> None:
    exposition = Exposition()
    before = replace(EMPTY, pod_usages=(USAGE,), pods=(replace(TRAIN, labels=(("team", "x"),)),))
    after = replace(before, pods=(replace(TRAIN, labels=(("team", "y"),)),))
    for snapshot, team in ((before, "x"), (after, "y"), (before, "x")):
        assert lines(snapshot, "accelerator_pod_processes", exposition=exposition) == [
            f'accelerator_pod_processes{{{MAIN},label_team="{team}"}} 0'
        ]
    assert lines(replace(after, pod_usages=()), "accelerator_pod_processes", exposition=exposition) == []


def test_what_is_no_pod_s_is_there_by_owner() -> None:
    found = replace(
        EMPTY,
        unattributed=(
            Unattributed(
                device=GPU.id,
                kind=OwnerKind.SLURM_JOB,
                name="77",
                reason=UnattributedReason.NOT_IN_A_POD,
                processes=2,
                memory_used_bytes=10,
            ),
            Unattributed(
                device=GPU.id,
                kind=OwnerKind.NONE,
                name=None,
                reason=UnattributedReason.NO_PROCESS,
                memory_used_bytes=5,
            ),
            Unattributed(
                device=GPU.id, kind=OwnerKind.USER, name='x"', reason=UnattributedReason.NOT_IN_A_POD
            ),
        ),
    )
    slurm = f'{ON_GPU},owner_kind="slurm_job",owner="77",reason="not_in_a_pod"'
    nobody = f'{ON_GPU},owner_kind="none",owner="",reason="no_process"'
    user = f'{ON_GPU},owner_kind="user",owner="x\\"",reason="not_in_a_pod"'
    assert lines(
        found, "accelerator_unattributed_memory_used_bytes", "accelerator_unattributed_processes"
    ) == [
        f"accelerator_unattributed_memory_used_bytes{{{slurm}}} 10",
        f"accelerator_unattributed_memory_used_bytes{{{nobody}}} 5",
        f"accelerator_unattributed_processes{{{slurm}}} 2",
        f"accelerator_unattributed_processes{{{nobody}}} 0",
        f"accelerator_unattributed_processes{{{user}}} 0",
    ]


def test_what_makes_the_parts_add_up() -> None:
    names = (
        "accelerator_surplus_memory_bytes",
        "accelerator_idle_energy_joules_total",
        "accelerator_share_ratio",
        "accelerator_job_info",
    )
    told = DeviceBalance(
        device=GPU.id,
        surplus_memory_bytes=0,
        idle_energy_joules=3.25,
        share_ratio=2.5,
        jobs=("77", "78", "77"),
    )
    assert lines(replace(EMPTY, balances=(told,)), *names) == [
        f"accelerator_surplus_memory_bytes{{{ON_GPU}}} 0",
        f"accelerator_idle_energy_joules_total{{{ON_GPU}}} 3.25",
        f"accelerator_share_ratio{{{ON_GPU}}} 2.5",
        f'accelerator_job_info{{{ON_GPU},job_id="77"}} 1',
        f'accelerator_job_info{{{ON_GPU},job_id="78"}} 1',
    ]
    assert lines(replace(EMPTY, balances=(DeviceBalance(device=GPU.id),)), *names) == []


def test_an_allocation_of_an_unknown_device_is_shown_once_and_others_are_not() -> None:
    unknown = Allocation(
        namespace="research",
        pod="train-0",
        container="main",
        source=AllocationSource.KUBELET,
        device_id="GPU-9",
        resource="nvidia.com/gpu",
    )
    claimed = replace(
        unknown,
        source=AllocationSource.CLAIM,
        device_id="gpu.example.com/pool/gpu-0",
        resource=None,
        claim="research/c1",
    )
    allocations = (
        unknown,
        replace(unknown, source=AllocationSource.ANNOTATION),
        replace(unknown, device=GPU.id, device_id="GPU-1"),
        claimed,
    )
    holder = 'namespace="research",pod="train-0",container="main"'
    assert lines(replace(EMPTY, allocations=allocations), "accelerator_unknown_allocation_info") == [
        f"accelerator_unknown_allocation_info{{{holder},"
        'resource="nvidia.com/gpu",device_id="GPU-9",claim=""} 1',
        f"accelerator_unknown_allocation_info{{{holder},"
        'resource="",device_id="gpu.example.com/pool/gpu-0",claim="research/c1"} 1',
    ]


OWNERS: list[tuple[Owner | None, str]] = [
    (None, 'namespace="",pod="",container="",owner_kind="",owner="",reason=""'),
    (
        Owner(kind=OwnerKind.POD, namespace="research", pod="train-0", container="main", pod_uid="u1"),
        'namespace="research",pod="train-0",container="main",owner_kind="pod",owner="",reason=""',
    ),
    (
        Owner(kind=OwnerKind.POD, name="u1", pod_uid="u1", reason=UnattributedReason.POD_UNKNOWN),
        'namespace="",pod="",container="",owner_kind="pod",owner="u1",reason="pod_unknown"',
    ),
    (
        Owner(kind=OwnerKind.SYSTEMD_UNIT, name="a\\b.service", reason=UnattributedReason.NOT_IN_A_POD),
        'namespace="",pod="",container="",owner_kind="systemd_unit",owner="a\\\\b.service",'
        'reason="not_in_a_pod"',
    ),
]


@pytest.mark.parametrize(("owner", "expected"), OWNERS)
def test_process_info_says_whose_it_is(owner: Owner | None, expected: str) -> None:
    process = Process(pid=5, device=GPU.id, name="train", user="ada", owner=owner)
    assert lines(replace(EMPTY, processes=(process,)), "accelerator_process_info") == [
        f'accelerator_process_info{{{ON_GPU},pid="5",name="train",user="ada",type="",mps="",{expected}}} 1'
    ]


def of_sources(*states: AttributionSourceState) -> list[str]:
    page = Exposition().render(replace(EMPTY, attribution=states)).text.decode()
    return [line for line in page.splitlines() if line.startswith("accelscope_attribution_")]


def test_sources_of_attribution() -> None:
    well = AttributionSourceState(source="processes", up=True, last_success=99.0)
    ill = AttributionSourceState(
        source="pods",
        up=False,
        detail="api-server",
        reason="forbidden",
        error='not allowed:\n"pods"' + "x" * 300,
        errors=(ReasonCount("forbidden", 3), ReasonCount("timeout", 1)),
    )
    recovered = replace(well, source="shares", error="no number: abc")
    prefix = "accelscope_attribution_source_"
    cut = 'not allowed:\\n\\"pods\\"' + "x" * 181
    assert of_sources(well, ill, recovered) == [
        f'{prefix}up{{source="processes"}} 1',
        f'{prefix}up{{source="pods"}} 0',
        f'{prefix}up{{source="shares"}} 1',
        f'{prefix}last_success_timestamp_seconds{{source="processes"}} 99',
        f'{prefix}last_success_timestamp_seconds{{source="shares"}} 99',
        f'{prefix}errors_total{{source="pods",reason="forbidden"}} 3',
        f'{prefix}errors_total{{source="pods",reason="timeout"}} 1',
        f'{prefix}last_error_info{{source="pods",reason="forbidden",error="{cut}"}} 1',
        f'{prefix}last_error_info{{source="shares",reason="",error="no number: abc"}} 1',
    ]


def test_labels_of_the_node_stand_behind_static_labels_and_no_name_twice() -> None:
    snapshot = replace(
        EMPTY,
        labels=(("rack", "7"), ("label_zone", "mine"), ("model", "not this")),
        node_labels=(("zone", "theirs"), ("topology.kubernetes.io/region", "r1"), ("a/b", "1"), ("a.b", "2")),
    )
    [info] = lines(snapshot, "accelerator_info")
    assert info.endswith(
        'node="n1",rack="7",label_zone="mine",label_topology_kubernetes_io_region="r1",label_a_b="1"} 1'
    )
    assert info.count("model=") == 1


FULL = replace(
    EMPTY,
    labels=(("rack", "7"),),
    node_labels=(("topology.kubernetes.io/zone", "z1"),),
    pods=(TRAIN,),
    pod_usages=(
        replace(
            USAGE,
            processes=2,
            memory_used_bytes=10,
            utilization_ratio=0.5,
            memory_utilization_ratio=0.5,
            encoder_utilization_ratio=0.5,
            decoder_utilization_ratio=0.5,
            allocated=1,
            resources=("nvidia.com/gpu",),
            idle_seconds=1.5,
            memory_share_bytes=5,
            compute_share_ratio=0.5,
            device_share_ratio=0.5,
            energy_joules=1.25,
        ),
        replace(USAGE, partition="MIG-1", processes=1, memory_used_bytes=4),
    ),
    processes=(
        Process(pid=5, device=GPU.id, name="p", memory_bytes=1, owner=OWNERS[1][0]),
        Process(pid=6, device=GPU.id, name="p", memory_bytes=1, owner=OWNERS[3][0]),
    ),
    unattributed=(
        Unattributed(
            device=GPU.id,
            kind=OwnerKind.USER,
            name="ada",
            reason=UnattributedReason.NOT_IN_A_POD,
            processes=1,
            memory_used_bytes=1,
            utilization_ratio=0.5,
        ),
    ),
    balances=(
        DeviceBalance(
            device=GPU.id, surplus_memory_bytes=0, idle_energy_joules=1.5, share_ratio=2, jobs=("77",)
        ),
    ),
    allocations=(
        Allocation(namespace="a", pod="b", container="c", source=AllocationSource.KUBELET, device_id="GPU-9"),
    ),
    attribution=(
        AttributionSourceState(
            source="pods",
            up=False,
            reason="timeout",
            error="late",
            last_success=5.0,
            errors=(ReasonCount("timeout", 1),),
        ),
    ),
)
WORKLOAD_SCOPES = {
    Scope.POD,
    Scope.POD_INFO,
    Scope.UNATTRIBUTED,
    Scope.BALANCE,
    Scope.UNKNOWN_ALLOCATION,
    Scope.SOURCE,
}


def test_every_family_about_workloads_has_a_series_where_everything_is_told() -> None:
    declared = {family.name for family in CATALOGUE if family.scope in WORKLOAD_SCOPES}
    page = Exposition().render(FULL).text.decode()
    assert declared <= {line.split("{")[0] for line in page.splitlines()}


def test_promtool_and_both_parsers_take_the_page() -> None:
    page = Exposition().render(FULL)
    in_text = {(s.name, *sorted(s.labels.items())) for f in parse_text(page.text.decode()) for s in f.samples}
    in_openmetrics = {
        (s.name, *sorted(s.labels.items()))
        for f in parse_openmetrics(page.openmetrics.decode())
        for s in f.samples
    }
    assert in_text == in_openmetrics
    assert len(in_text) == page.series
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page.text, capture_output=True, timeout=30, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


words = st.text(st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=["Cs"]), max_size=12)


@given(words, words, words, st.lists(st.tuples(words, words), max_size=4))
def test_whatever_a_cluster_calls_things_is_read_back(
    namespace: str, name: str, container: str, labels: list[tuple[str, str]]
) -> None:
    pod = Pod(uid="u", namespace=namespace, name=name, labels=tuple(labels))
    usage = PodUsage(device=GPU.id, namespace=namespace, pod=name, container=container, pod_uid="u")
    snapshot = replace(EMPTY, pods=(pod,), pod_usages=(usage,), node_labels=tuple(labels))
    page = Exposition(allow=("accelerator_pod_*", "accelerator_info")).render(snapshot)
    for parse, text in ((parse_text, page.text), (parse_openmetrics, page.openmetrics)):
        samples = {s.name: s.labels for family in parse(text.decode()) for s in family.samples}
        shown = samples["accelerator_pod_processes"]
        assert (shown["namespace"], shown["pod"], shown["container"]) == (namespace, name, container)
        own = {key: value for key, value in shown.items() if key.startswith("label_")}
        assert own.items() <= samples["accelerator_pod_info"].items()
        assert own.items() <= samples["accelerator_info"].items()
        assert set(own.values()) <= {value for _, value in labels}
        assert bool(own) == bool(labels)


def test_what_is_kept_of_pods_does_not_grow_with_those_that_went() -> None:
    exposition = Exposition()

    def pods_come_and_go(first: int, last: int) -> None:
        for number in range(first, last):
            name = f"job-{number}"
            owner = Owner(kind=OwnerKind.POD, namespace="a", pod=name, container="c")
            process = Process(pid=5, device=GPU.id, owner=owner)
            exposition.render(replace(EMPTY, pod_usages=(replace(USAGE, pod=name),), processes=(process,)))

    def held() -> int:
        gc.collect()  # also empties the interpreter's own store of freed tuples, which fills up meanwhile
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        pods_come_and_go(0, 100)
        before = held()
        pods_come_and_go(100, 500)
        after = held()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000  # 400 pods' labels are about 250,000
