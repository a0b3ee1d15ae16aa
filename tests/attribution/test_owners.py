"""The owner of a process from its location."""

import pytest

from accelscope.attribution.cgroup import ProcessLocation
from accelscope.attribution.processes import GONE, NO_PODS, HostProcess, OwnerCache, PodTable, owner_of
from accelscope.kube.objects import KubePod, PodContainer
from accelscope.model import Owner, OwnerKind, UnattributedReason

ONE = KubePod(
    uid="uid-1",
    namespace="ns",
    name="one",
    containers=(PodContainer("main", "c1"), PodContainer("side", "c2")),
)
STATIC = KubePod(
    uid="uid-2",
    namespace="kube-system",
    name="etcd",
    config_hash="hash",
    containers=(PodContainer("etcd", None),),
)
PODS = PodTable.of({"uid-1": ONE, "uid-2": STATIC}, up=True)
OUTSIDE = UnattributedReason.NOT_IN_A_POD


def at(
    place: ProcessLocation, *, problem: UnattributedReason | None = None, user: str = "alice"
) -> HostProcess:
    return HostProcess(start_ticks=1, name="x", user=user, location=place, problem=problem)


def in_pod(pod: KubePod, container: str | None, container_id: str | None = None) -> Owner:
    return Owner(
        kind=OwnerKind.POD,
        namespace=pod.namespace,
        pod=pod.name,
        container=container,
        pod_uid=pod.uid,
        container_id=container_id,
    )


@pytest.mark.parametrize(
    ("place", "owner"),
    [
        (ProcessLocation(pod_uid="uid-1", container_id="c1"), in_pod(ONE, "main", "c1")),
        (ProcessLocation(pod_uid="uid-1", container_id="c2"), in_pod(ONE, "side", "c2")),
        (ProcessLocation(container_id="c2"), in_pod(ONE, "side", "c2")),
        # By the name in the mounts; a known id takes precedence.
        (ProcessLocation(pod_uid="uid-1", container_name="side"), in_pod(ONE, "side")),
        (
            ProcessLocation(pod_uid="uid-1", container_id="c1", container_name="side"),
            in_pod(ONE, "main", "c1"),
        ),
        (ProcessLocation(pod_uid="uid-1", container_id="new"), in_pod(ONE, None, "new")),
        # A container in a container of the pod.
        (ProcessLocation(pod_uid="uid-1", container_id="new", outer_ids=("c2",)), in_pod(ONE, "side", "new")),
        (ProcessLocation(pod_uid="uid-1", outer_ids=("c9", "c2")), in_pod(ONE, "side")),
        (ProcessLocation(pod_uid="uid-1"), in_pod(ONE, None)),
        # The kubelet has not published the id yet; there is only one container.
        (ProcessLocation(pod_uid="uid-2", container_id="new"), in_pod(STATIC, "etcd", "new")),
        (ProcessLocation(pod_uid="hash"), in_pod(STATIC, "etcd")),
        # What runs inside of a container is the container's.
        (ProcessLocation(pod_uid="uid-2", unit="x.service", slurm_job="7"), in_pod(STATIC, "etcd")),
        (
            ProcessLocation(pod_uid="other", container_id="c9", container_name="main"),
            Owner(
                kind=OwnerKind.POD,
                name="other",
                container="main",
                pod_uid="other",
                container_id="c9",
                reason=UnattributedReason.POD_UNKNOWN,
            ),
        ),
        (
            ProcessLocation(container_id="c9"),
            Owner(kind=OwnerKind.CONTAINER, name="c9", container_id="c9", reason=OUTSIDE),
        ),
        (
            ProcessLocation(container_id="c9", slurm_job="7", unit="x.service"),
            Owner(kind=OwnerKind.SLURM_JOB, name="7", container_id="c9", reason=OUTSIDE),
        ),
        (
            ProcessLocation(unit="x.service"),
            Owner(kind=OwnerKind.SYSTEMD_UNIT, name="x.service", reason=OUTSIDE),
        ),
        (ProcessLocation(), Owner(kind=OwnerKind.USER, name="alice", reason=OUTSIDE)),
    ],
)
def test_the_owner_follows_from_the_location(place: ProcessLocation, owner: Owner) -> None:
    assert owner_of(at(place), PODS) == owner


def test_a_pod_that_is_not_in_the_table() -> None:
    owner = owner_of(at(ProcessLocation(pod_uid="uid-1", container_id="c1")), NO_PODS)
    assert (owner.kind, owner.name, owner.reason) == (
        OwnerKind.POD,
        "uid-1",
        UnattributedReason.NO_POD_SOURCE,
    )


def test_ended_and_unreadable_processes_have_no_owner() -> None:
    assert owner_of(None, PODS) == GONE
    hidden = at(ProcessLocation(pod_uid="uid-1"), problem=UnattributedReason.CGROUP_HIDDEN)
    assert owner_of(hidden, PODS) == Owner(kind=OwnerKind.UNKNOWN, reason=UnattributedReason.CGROUP_HIDDEN)


def test_a_table_finds_pods_by_every_name() -> None:
    pods = PodTable.of({"uid-1": ONE, "uid-2": STATIC}, up=True)
    assert (pods.has_source, pods.up) == (True, True)
    assert PodTable.of({}, up=False) == PodTable(has_source=True, up=False)
    assert pods.by_uid == {"uid-1": ONE, "uid-2": STATIC, "hash": STATIC}
    assert pods.by_container == {"c1": ONE, "c2": ONE}
    assert pods.by_name == {("ns", "one"): ONE, ("kube-system", "etcd"): STATIC}


def test_owners_are_kept_until_processes_or_pods_change() -> None:
    book = OwnerCache()
    assert book.owners({}, NO_PODS) == {}
    place = ProcessLocation(pod_uid="uid-1", container_id="c1")
    hosts = {7: at(place), 8: at(place), 9: at(ProcessLocation()), 10: at(ProcessLocation(), user="bob")}
    owners = book.owners(hosts, PODS)
    assert [owners[pid].pod or owners[pid].name for pid in hosts] == ["one", "one", "alice", "bob"]
    assert owners[7] is owners[8]
    assert book.owners(hosts, PODS) is owners
    assert book.owners(hosts, NO_PODS)[7].reason is UnattributedReason.NO_POD_SOURCE
    assert set(book.owners({9: hosts[9]}, NO_PODS)) == {9}
