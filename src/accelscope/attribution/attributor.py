"""Whose every device and process is, once per collection, from all sources that there are.

Each source may be missing, late or broken: then it says so, and what the others tell still stands.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from accelscope.attribution.allocations import allocations, annotated
from accelscope.attribution.device_ids import DeviceIndex, identities
from accelscope.attribution.jobs import JobMapping, Part
from accelscope.attribution.ledger import KeptIdle, Ledger
from accelscope.attribution.options import AttributionOptions, SourceLog
from accelscope.attribution.owners import GONE, NO_PODS, OwnerBook, PodTable
from accelscope.attribution.pod_resources import HeldPod, Holdings, PodResourcesClient
from accelscope.attribution.processes import ProcessTable
from accelscope.attribution.shares import Shares
from accelscope.attribution.usage import DeviceUse, Measured, UsageKey, uses
from accelscope.attribution.watches import Claims, NodeLabels, Pods, node_source, pod_source
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

_KUBELET_SECONDS = 2.0  # that one call may take
_KUBELET_WAIT_SECONDS = 1.0  # that a collection waits for it
# Owners that a batch job may stand behind when the cgroup does not say so.
_NO_JOB_OF_THEIR_OWN = frozenset({OwnerKind.USER, OwnerKind.SYSTEMD_UNIT, OwnerKind.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributed:
    """What a collection adds to the snapshot; fields as there."""

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
        kept_idle: Mapping[UsageKey, KeptIdle] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._processes = ProcessTable(options.proc, options.passwd, monotonic, clock)
        self._proc = options.proc
        self._process_log = SourceLog("processes", clock)
        self._annotation_log = SourceLog("annotations", clock)
        self._owners = OwnerBook()
        self._pods: Pods | None = pod_source(options)
        self._node: NodeLabels | None = node_source(options)
        self._holdings: Holdings | None = None
        if options.pod_resources_socket:
            client = PodResourcesClient(options.pod_resources_socket, _KUBELET_SECONDS)
            self._holdings = Holdings(client, clock, monotonic, in_cluster=self._pods is not None)
        self._claims = Claims(options)
        self._shares = Shares(options.ratio_file, options.device_ratios, options.model_ratios, clock)
        self._jobs = JobMapping(options.job_mapping_folder, clock)
        self._ledger = Ledger(kept_idle)
        self._index = DeviceIndex(())
        self._grants: tuple[Allocation, ...] = ()
        self._granted_from: tuple[tuple[HeldPod, ...], PodTable, DeviceIndex] | None = None

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
        """Until pods and Node have been told once, by whoever is asked for them; for those who look once."""
        end = self._monotonic() + seconds
        watched = [source for source in (self._pods, self._node) if source is not None]
        return all(source.wait_for_first_list(max(0.0, end - self._monotonic())) for source in watched)

    def begin(self) -> None:
        """At the start of a collection: what takes time goes on beside the readers."""
        if self._holdings is not None:
            self._holdings.begin()

    def attribute(self, devices: Sequence[Device], processes: Iterable[Process]) -> Attributed:
        now = self._monotonic()
        self._shares.poll()
        # Before the pods themselves: a source that says it is up has told of them.
        watched = self._watched_states()
        pods = self._pods.table() if self._pods is not None else NO_PODS
        index = self._index_of(devices)
        held = self._holdings.latest(_KUBELET_WAIT_SECONDS) if self._holdings is not None else ()
        granted = self._granted(held, pods, index)
        jobs = self._jobs.by_part(devices)
        described = self._described(tuple(processes), pods, jobs)
        used = uses(devices, described, granted)
        self._ledger.enter(used, pods.by_name.keys(), now)
        usages = [usage for use in used.values() for usage in self._usages(use, now)]
        return Attributed(
            processes=described,
            node_labels=self._node.labels() if self._node is not None else (),
            attribution=self._states(watched),
            pods=_pods_of(usages, granted, pods),
            allocations=granted,
            pod_usages=tuple(usages),
            unattributed=tuple(other for use in used.values() for other in use.unattributed()),
            balances=tuple(self._balance(use, jobs) for use in used.values()),
        )

    def _granted(
        self, held: tuple[HeldPod, ...], pods: PodTable, index: DeviceIndex
    ) -> tuple[Allocation, ...]:
        """Made anew only where something changed; claims may be told later what they mean."""
        known = self._granted_from
        if (
            known is None
            or known[0] != held
            or known[1] is not pods
            or known[2] is not index
            or self._claims.asked
        ):
            by_annotation = self._annotated(pods, index)
            self._grants = allocations(
                held, by_annotation, pods, index, lambda device: self._claims.resolve(device, index)
            )
            self._granted_from = held, pods, index
        return self._grants

    def _annotated(self, pods: PodTable, index: DeviceIndex) -> list[Allocation]:
        found, problems = annotated(pods, index)
        if problems:
            self._annotation_log.failed("bad_annotation", problems[0])
        elif found or self._annotation_log.asked:
            self._annotation_log.succeeded()
        return found

    def _index_of(self, devices: Sequence[Device]) -> DeviceIndex:
        if identities(devices) != self._index.identities:
            self._index = DeviceIndex(devices)
        return self._index

    def _described(
        self, processes: tuple[Process, ...], pods: PodTable, jobs: Mapping[Part, tuple[str, ...]]
    ) -> tuple[Process, ...]:
        hosts = self._processes.look_up([process.pid for process in processes])
        uses = self._processes.uses
        self._note_processes(processes, len(hosts))
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

    def _note_processes(self, processes: tuple[Process, ...], found: int) -> None:
        obstacle = self._processes.obstacle
        if obstacle is not None:
            self._process_log.failed("unreadable", f"{self._proc}: {obstacle}")
        elif processes and not found:
            self._process_log.failed(
                "hidden",
                f"none of the {len(processes)} processes that the drivers show is in {self._proc}: the agent "
                "sees another pid namespace (in Kubernetes, hostPID: true lets it see the node's)",
            )
        else:
            self._process_log.succeeded()

    def _usages(self, use: DeviceUse, now: float) -> Iterable[PodUsage]:
        ratio = self._shares.ratio(use.device)
        shared: set[tuple[str, str]] = set()  # pods that have a share of the device already
        held_shares = device_shares(use.device, use.holders, ratio)
        nothing = Measured(memory_bytes=0, utilization=0.0) if use.all_processes_are_seen else None
        for key in use.keys:
            held = use.holders.get(key, [])
            measured = use.pods.get(key) or (None if use.measured(key) else nothing)
            first_of_pod = (key.namespace, key.pod) not in shared
            shared.add((key.namespace, key.pod))
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
                allocated=len(held),
                resources=tuple(sorted({a.resource for a in held if a.resource is not None})),
                idle_seconds=self._ledger.idle_seconds(use, key, now) if held else None,
                memory_share_bytes=_memory_share(use, key, ratio, counts=bool(held) or first_of_pod),
                compute_share_ratio=_sum([a.compute_ratio for a in held]),
                device_share_ratio=held_shares.get(key),
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
            self._process_log.state(),
            *watched,
            self._holdings_state(),
            self._annotation_log.state() if self._annotation_log.asked else None,
            self._shares.state(),
            self._jobs.state(),
        )
        return tuple(state for state in states if state is not None)

    def _holdings_state(self) -> AttributionSourceState | None:
        """A machine without Kubernetes has no such socket, and nothing to complain about."""
        if self._holdings is None:
            return None
        state = self._holdings.state()
        never_there = state.reason == UnaryReason.NO_SOCKET and not state.last_success
        return None if never_there and self._pods is None else state


def _with_job(owner: Owner, jobs: tuple[str, ...]) -> Owner:
    """The only batch job of the device stands behind a process whose cgroup names no owner of its own."""
    if len(jobs) != 1 or owner.kind not in _NO_JOB_OF_THEIR_OWN:
        return owner
    return replace(owner, kind=OwnerKind.SLURM_JOB, name=jobs[0])


def _memory_share(use: DeviceUse, key: UsageKey, ratio: float | None, *, counts: bool) -> int | None:
    """What the one who shares the device granted; else the device's memory cut by the ratio, once for each
    share that is held, or once for a pod that uses the device without holding it."""
    held = use.holders.get(key, [])
    granted = _sum([allocation.memory_bytes for allocation in held])
    if granted is not None:
        return int(granted)
    total = use.device.memory_total_bytes
    if key.partition:
        total = next((p.memory_total_bytes for p in use.device.partitions if p.id == key.partition), None)
    if ratio is None or total is None or not counts:
        return None
    return int(total / ratio * max(1, len(held)))


def _sum(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def _pods_of(usages: Iterable[PodUsage], granted: Iterable[Allocation], pods: PodTable) -> tuple[Pod, ...]:
    named = {(usage.namespace, usage.pod) for usage in usages} | {(a.namespace, a.pod) for a in granted}
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
