"""Attributes devices and processes to pods and other owners, once per collection.

Any source may be missing, slow or broken. Its state reports that, and the results of the others are used.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accelscope.attribution.allocations import allocations, annotation_allocations
from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, identities
from accelscope.attribution.ledger import Ledger, StoredIdleTime
from accelscope.attribution.options import AttributionOptions, SourceStatus
from accelscope.attribution.pod_resources import (
    ClaimDevice,
    PodResources,
    PodResourcesClient,
    PodResourcesPoller,
)
from accelscope.attribution.processes import GONE, NO_PODS, OwnerCache, PodTable, ProcessTable
from accelscope.attribution.shares import JobMapping, Part, Shares
from accelscope.attribution.usage import DeviceUse, UsageKey, UsageSum, uses
from accelscope.kube.unary import UnaryReason
from accelscope.model import (
    Allocation,
    AttributionSourceState,
    Device,
    DeviceBalance,
    Owner,
    OwnerKind,
    Pod,
    PodUsage,
    Process,
    Unattributed,
    device_shares,
)

if TYPE_CHECKING:
    from accelscope.attribution.watches import ClaimWatch, NodeWatch, PodWatch

_KUBELET_SECONDS = 2.0  # timeout of one call
_KUBELET_WAIT_SECONDS = 1.0  # longest time that a collection waits for it
# Owners that are replaced by the device's batch job.
_REPLACED_BY_JOB = frozenset({OwnerKind.USER, OwnerKind.SYSTEMD_UNIT, OwnerKind.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The part of a Snapshot that attribution adds."""

    processes: tuple[Process, ...]
    node_labels: tuple[tuple[str, str], ...] = ()
    attribution: tuple[AttributionSourceState, ...] = ()
    pods: tuple[Pod, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    pod_usages: tuple[PodUsage, ...] = ()
    unattributed: tuple[Unattributed, ...] = ()
    balances: tuple[DeviceBalance, ...] = ()


class Attributor:
    def __init__(
        self,
        options: AttributionOptions,
        *,
        stored_idle: Mapping[UsageKey, StoredIdleTime] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._processes = ProcessTable(options.proc, options.passwd, monotonic, clock)
        self._proc = options.proc
        self._process_status = SourceStatus("processes", clock)
        self._annotation_status = SourceStatus("annotations", clock)
        self._owners = OwnerCache()
        self._pods: PodWatch | None = None
        self._node: NodeWatch | None = None
        self._claims: ClaimWatch | None = None
        if options.api_server is not None or options.kubelet is not None:
            from accelscope.attribution import watches  # noqa: PLC0415 - with the client of an API server

            self._pods = watches.pod_source(options)
            self._node = watches.node_source(options)
            self._claims = watches.ClaimWatch(options)
        self._pod_resources: PodResourcesPoller | None = None
        if options.pod_resources_socket:
            client = PodResourcesClient(options.pod_resources_socket, _KUBELET_SECONDS)
            self._pod_resources = PodResourcesPoller(
                client, clock, monotonic, in_cluster=self._pods is not None
            )
        self._shares = Shares(options.ratio_file, options.device_ratios, options.model_ratios, clock)
        self._jobs = JobMapping(options.job_mapping_folder, clock)
        self._ledger = Ledger(stored_idle)
        self._index = DeviceIndex(())
        self._allocations: tuple[Allocation, ...] = ()
        self._allocated_from: tuple[tuple[PodResources, ...], PodTable, DeviceIndex] | None = None

    def set_ratios(self, devices: Mapping[str, float], models: Mapping[str, float]) -> None:
        self._shares.devices, self._shares.models = devices, models

    def start(self) -> None:
        for source in (self._pods, self._node):
            if source is not None:
                source.start()

    def stop(self) -> None:
        for source in (self._pods, self._node, self._claims):
            if source is not None:
                source.stop()

    def wait_for_first_lists(self, seconds: float) -> bool:
        """Until pods and Node were listed once, for commands that read the node only once."""
        end = self._monotonic() + seconds
        watched = [source for source in (self._pods, self._node) if source is not None]
        return all(source.wait_for_first_list(max(0.0, end - self._monotonic())) for source in watched)

    def begin(self) -> None:
        """Start calls that run while the readers work."""
        if self._pod_resources is not None:
            self._pod_resources.begin()

    def attribute(self, devices: Sequence[Device], processes: Iterable[Process]) -> Attribution:
        now = self._monotonic()
        self._shares.poll()
        # Before the pods: if a source is up here, the pods read below are complete.
        watched = self._watched_states()
        pods = self._pods.table() if self._pods is not None else NO_PODS
        index = self._index_of(devices)
        resources = (
            self._pod_resources.latest(_KUBELET_WAIT_SECONDS) if self._pod_resources is not None else ()
        )
        allocated = self._allocate(resources, pods, index)
        jobs = self._jobs.by_part(devices)
        described = self._describe(tuple(processes), pods, jobs)
        used = uses(devices, described, allocated)
        self._ledger.enter(used, pods.by_name.keys(), now)
        usages = [usage for use in used.values() for usage in self._usages(use, now)]
        return Attribution(
            processes=described,
            node_labels=self._node.labels() if self._node is not None else (),
            attribution=self._states(watched),
            pods=_pods_of(usages, allocated, pods),
            allocations=allocated,
            pod_usages=tuple(usages),
            unattributed=tuple(other for use in used.values() for other in use.unattributed()),
            balances=tuple(self._balance(use, jobs) for use in used.values()),
        )

    def _allocate(
        self, resources: tuple[PodResources, ...], pods: PodTable, index: DeviceIndex
    ) -> tuple[Allocation, ...]:
        """Recomputed only if something changed, or always with claims: their slices may arrive later."""
        known = self._allocated_from
        if (
            known is None
            or known[0] != resources
            or known[1] is not pods
            or known[2] is not index
            or (self._claims is not None and self._claims.is_needed)
        ):
            annotated = self._annotation_allocations(pods, index)
            self._allocations = allocations(
                resources, annotated, pods, index, lambda device: self._resolve(device, index)
            )
            self._allocated_from = resources, pods, index
        return self._allocations

    def _resolve(self, device: ClaimDevice, index: DeviceIndex) -> ResolvedDevice:
        return UNRESOLVED if self._claims is None else self._claims.resolve(device, index)

    def _annotation_allocations(self, pods: PodTable, index: DeviceIndex) -> list[Allocation]:
        found, problems = annotation_allocations(pods, index)
        if problems:
            self._annotation_status.failed("bad_annotation", problems[0])
        elif found or self._annotation_status.was_used:
            self._annotation_status.succeeded()
        return found

    def _index_of(self, devices: Sequence[Device]) -> DeviceIndex:
        if identities(devices) != self._index.identities:
            self._index = DeviceIndex(devices)
        return self._index

    def _describe(
        self, processes: tuple[Process, ...], pods: PodTable, jobs: Mapping[Part, tuple[str, ...]]
    ) -> tuple[Process, ...]:
        hosts = self._processes.look_up([process.pid for process in processes])
        uses = self._processes.uses
        self._update_process_status(processes, len(hosts))
        owners = self._owners.owners(hosts, pods)
        described = []
        for process in processes:
            host = hosts.get(process.pid)
            owner = GONE if host is None else owners[process.pid]
            if jobs:
                owner = _with_job(owner, jobs.get((process.device or "", process.partition), ()))
            if host is None:
                described.append(process.described(process.name, process.user, owner))
            else:
                described.append(
                    process.described(host.name or process.name, host.user, owner, uses[process.pid])
                )
        return tuple(described)

    def _update_process_status(self, processes: tuple[Process, ...], found: int) -> None:
        obstacle = self._processes.obstacle
        if obstacle is not None:
            self._process_status.failed("unreadable", f"{self._proc}: {obstacle}")
        elif processes and not found:
            self._process_status.failed(
                "hidden",
                f"none of the {len(processes)} processes on devices is in {self._proc}: the agent runs in "
                "another pid namespace (in Kubernetes, set hostPID: true)",
            )
        else:
            self._process_status.succeeded()

    def _usages(self, use: DeviceUse, now: float) -> Iterable[PodUsage]:
        ratio = self._shares.ratio(use.device)
        counted_pods: set[tuple[str, str]] = set()
        device_share_ratios = device_shares(use.device, use.allocations, ratio)
        nothing = UsageSum(memory_bytes=0, utilization=0.0) if use.lists_all_processes else None
        for key in use.keys:
            own = use.allocations.get(key, [])
            measured = use.pods.get(key) or (None if use.measured(key) else nothing)
            first_of_pod = (key.namespace, key.pod) not in counted_pods
            counted_pods.add((key.namespace, key.pod))
            yield PodUsage(
                device=key.device,
                partition=key.partition or None,
                namespace=key.namespace,
                pod=key.pod,
                container=key.container,
                pod_uid=use.uids.get(key),
                processes=0 if measured is None else measured.processes,
                memory_used_bytes=None if measured is None else measured.memory_bytes,
                utilization_ratio=None if measured is None else measured.utilization,
                memory_utilization_ratio=None if measured is None else measured.memory_utilization,
                encoder_utilization_ratio=None if measured is None else measured.encoder,
                decoder_utilization_ratio=None if measured is None else measured.decoder,
                allocated=len(own),
                resources=tuple(sorted({a.resource for a in own if a.resource is not None})),
                idle_seconds=self._ledger.idle_seconds(use, key, now) if own else None,
                memory_share_bytes=_memory_share(use, key, ratio, counts=bool(own) or first_of_pod),
                compute_share_ratio=_sum([a.compute_ratio for a in own]),
                device_share_ratio=device_share_ratios.get(key),
                energy_joules=self._ledger.energy_joules(key),
            )

    def _balance(self, use: DeviceUse, jobs: Mapping[Part, tuple[str, ...]]) -> DeviceBalance:
        return DeviceBalance(
            device=use.device.id,
            surplus_memory_bytes=use.surplus_memory_bytes,
            idle_energy_joules=self._ledger.idle_energy_joules(use.device.id),
            share_ratio=self._shares.ratio(use.device),
            jobs=tuple(job for (device, _), ids in jobs.items() if device == use.device.id for job in ids),
        )

    def _watched_states(self) -> tuple[AttributionSourceState | None, ...]:
        watched = (self._pods, self._node, self._claims)
        return tuple(None if source is None else source.state() for source in watched)

    def _states(
        self, watched: tuple[AttributionSourceState | None, ...]
    ) -> tuple[AttributionSourceState, ...]:
        states = (
            self._process_status.state(),
            *watched,
            self._pod_resources_state(),
            self._annotation_status.state() if self._annotation_status.was_used else None,
            self._shares.state(),
            self._jobs.state(),
        )
        return tuple(state for state in states if state is not None)

    def _pod_resources_state(self) -> AttributionSourceState | None:
        """None on a machine without Kubernetes, which has no such socket."""
        if self._pod_resources is None:
            return None
        state = self._pod_resources.state()
        never_there = state.reason == UnaryReason.NO_SOCKET and not state.last_success
        return None if never_there and self._pods is None else state


def _with_job(owner: Owner, jobs: tuple[str, ...]) -> Owner:
    """A process without a more specific owner belongs to the device's batch job, if there is only one."""
    if len(jobs) != 1 or owner.kind not in _REPLACED_BY_JOB:
        return owner
    return replace(owner, kind=OwnerKind.SLURM_JOB, name=jobs[0])


def _memory_share(use: DeviceUse, key: UsageKey, ratio: float | None, *, counts: bool) -> int | None:
    """The memory that the scheduler granted. Without that, the device's memory divided by the ratio, once per
    allocated share, or once per pod that uses the device without an allocation."""
    own = use.allocations.get(key, [])
    granted = _sum([allocation.memory_bytes for allocation in own])
    if granted is not None:
        return int(granted)
    total = use.device.memory_total_bytes
    if key.partition:
        total = next((p.memory_total_bytes for p in use.device.partitions if p.id == key.partition), None)
    if ratio is None or total is None or not counts:
        return None
    return int(total / ratio * max(1, len(own)))


def _sum(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def _pods_of(usages: Iterable[PodUsage], allocated: Iterable[Allocation], pods: PodTable) -> tuple[Pod, ...]:
    named = {(usage.namespace, usage.pod) for usage in usages} | {(a.namespace, a.pod) for a in allocated}
    found = [pods.by_name[name] for name in sorted(named) if name in pods.by_name]
    return tuple(
        Pod(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            owner_kind=pod.owner_kind,
            owner_name=pod.owner_name,
            labels=pod.labels,
        )
        for pod in found
    )
