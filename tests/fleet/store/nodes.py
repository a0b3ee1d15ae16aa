"""Short constructors of nodes, for tests of the store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from accelscope.fleet.rows import ClusterView, NodeReport, SourceKind, SourceView
from accelscope.fleet.store.fleet_store import FORGET_AFTER_SECONDS, FleetStore
from accelscope.model import (
    AgentState,
    Device,
    Health,
    HealthState,
    Owner,
    OwnerKind,
    Pod,
    PodUsage,
    Process,
    Snapshot,
    Vendor,
)

GIB = 1 << 30


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> float:
        self.now += seconds
        return self.now


@dataclass(frozen=True)
class KubernetesNode:
    accelerators: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


def device(
    id_: str = "a", *, vendor: Vendor = Vendor("nvidia"), health: str = "ok", **fields: object
) -> Device:
    return Device(
        vendor=vendor,
        id=f"{vendor}:{id_}",
        health=Health(HealthState(health)),
        **fields,  # type: ignore[arg-type]
    )


def usage(pod: str, device_: Device, *, container: str = "main", **fields: object) -> PodUsage:
    """`pod` is namespace/name."""
    namespace, name = pod.split("/")
    return PodUsage(
        device=device_.id,
        namespace=namespace,
        pod=name,
        container=container,
        **fields,  # type: ignore[arg-type]
    )


def process(pid: int, device_: Device, *, pod: str | None = None, **fields: object) -> Process:
    owner = None
    if pod is not None:
        namespace, name = pod.split("/")
        owner = Owner(kind=OwnerKind.POD, namespace=namespace, pod=name, container="main")
    return Process(pid=pid, device=device_.id, owner=owner, **fields)  # type: ignore[arg-type]


def snapshot(
    devices: Iterable[Device] = (),
    *,
    usages: Sequence[PodUsage] = (),
    processes: Sequence[Process] = (),
    pods: Sequence[Pod] = (),
    interval_seconds: float | None = 10.0,
    taken_at: float = 0.0,
    version: str = "1.0",
) -> Snapshot:
    return Snapshot(
        node="as the agent calls it",
        taken_at=taken_at,
        agent=AgentState(version=version, started_at=0.0),
        interval_seconds=interval_seconds,
        devices=tuple(devices),
        processes=tuple(processes),
        pods=tuple(pods),
        pod_usages=tuple(usages),
    )


def report(
    node: str,
    shown: Snapshot | Sequence[Device],
    taken_at: float,
    source: SourceKind = SourceKind.AGENTS,
) -> NodeReport:
    shown = shown if isinstance(shown, Snapshot) else snapshot(shown)
    return NodeReport(node=node, source=source, taken_at=taken_at, snapshot=shown)


def reached(cluster: str) -> ClusterView:
    return ClusterView(id=cluster, reachable=True, sources=[SourceView(kind="agents", up=True)])


def store_of(*clusters: str, clock: Clock, forget_after_seconds: float = FORGET_AFTER_SECONDS) -> FleetStore:
    store = FleetStore(clock=clock, forget_after_seconds=forget_after_seconds)
    store.declare([reached(cluster) for cluster in clusters])
    return store
