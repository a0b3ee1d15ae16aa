"""The record of a node with the readings of its sources, and the rows and the snapshot made from them."""

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import Protocol

import msgspec
from msgspec import Struct

from accelscope.fleet.rows import DeviceRow, NodeReport, NodeRow, PodRow, ProcessRow, SourceKind
from accelscope.fleet.store.table import NOWHERE, interned_bytes
from accelscope.model import (
    HARMLESS_THROTTLES,
    Device,
    OwnerKind,
    Pod,
    PodUsage,
    Process,
    Snapshot,
    usage_shares,
)

FRESH = "fresh"
STALE = "stale"
INCOMPATIBLE = "incompatible"  # its agent uses an unsupported schema
UNREAD = "unread"  # it exists, but was not read

UNHEALTHY = frozenset({"warning", "critical", "lost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    cluster: str
    node: str
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReading:
    """The reading of one source, of which the devices of `vendors` are used."""

    source: str
    state: str
    taken_at: float  # by this process's clock
    snapshot: Snapshot
    vendors: Collection[str]


@dataclass(slots=True)
class NodeRows:
    """Rows of one node; for each pod and process, the index of its device in `devices`."""

    devices: list[DeviceRow] = field(default_factory=list)
    pods: list[PodRow] = field(default_factory=list)
    pod_devices: list[int] = field(default_factory=list)
    processes: list[ProcessRow] = field(default_factory=list)
    process_devices: list[int] = field(default_factory=list)


def make_rows(place: NodeIdentity, parts: Iterable[SourceReading]) -> NodeRows:
    rows = NodeRows()
    for part in parts:
        _add(rows, place, part)
    # Rows of a pod and of a container are adjacent, so that distinct ones are counted without sorting.
    in_order = sorted(zip(rows.pods, rows.pod_devices, strict=True), key=_by_container)
    rows.pods = [row for row, _ in in_order]
    rows.pod_devices = [device for _, device in in_order]
    return rows


def text_size(snapshot: Snapshot) -> int:
    """An upper bound for the bytes of texts in rows of this snapshot. Equal texts count once, because tables
    intern them."""
    texts: set[str | None] = {snapshot.agent.version}
    texts.add(_models(snapshot.devices))
    for device in snapshot.devices:
        texts.update((device.id, device.model, device.uuid, device.serial, device.pci_address))
        texts.update((device.driver_version, device.firmware_version, device.health.reason))
        texts.update(throttle.reason for throttle in device.throttles)
        if len(device.throttles) > 1:
            texts.add(_throttled(device))
    namespaces: dict[str, set[str]] = defaultdict(set)
    for pod in snapshot.pods:
        texts.update((pod.owner_kind, pod.owner_name))
    for usage in snapshot.pod_usages:
        texts.update((usage.namespace, usage.pod, usage.container, usage.partition, usage.pod_uid))
        texts.update(usage.resources)
        if len(usage.resources) > 1:
            texts.add(_listed(usage.resources))
        namespaces[usage.device].add(usage.namespace)
    texts.update(_listed(names) for names in namespaces.values() if len(names) > 1)
    for process in snapshot.processes:
        texts.update((process.name, process.user, process.partition))
        if (owner := process.owner) is not None:
            texts.update((owner.name, owner.namespace, owner.pod, owner.container))
    return sum(interned_bytes(text) for text in texts if text is not None)


def _by_container(item: tuple[PodRow, int]) -> tuple[str, str, str]:
    row = item[0]
    return row.namespace, row.pod, row.container


def _add(rows: NodeRows, place: NodeIdentity, part: SourceReading) -> None:
    snapshot = part.snapshot
    devices = _DeviceIndex(snapshot.devices, part.vendors, len(rows.devices))
    processes = _distinct_processes(snapshot.processes, devices)
    usages = _distinct_usages(snapshot.pod_usages, devices)
    running: dict[str, int] = defaultdict(int)
    for device, _ in processes:
        running[device.id] += 1
    usages_by_device: dict[str, list[PodUsage]] = defaultdict(list)
    for device, usage in usages:
        usages_by_device[device.id].append(usage)
    rows.devices += [
        _device_row(place, part, device, running[device.id], usages_by_device[device.id])
        for device in devices.taken
    ]
    pods = _PodIndex(snapshot.pods)
    shares = {
        id(usage): share
        for allocated in usages_by_device.values()
        for usage, share in zip(allocated, usage_shares(allocated), strict=True)
    }
    rows.pods += [
        _pod_row(place, part, device, usage, pods, share=shares[id(usage)]) for device, usage in usages
    ]
    rows.pod_devices += [devices.places.get(device.id, NOWHERE) for device, _ in usages]
    rows.processes += [_process_row(place, part, device, process) for device, process in processes]
    rows.process_devices += [devices.places.get(device.id, NOWHERE) for device, _ in processes]


class _DeviceIndex:
    """The devices of the part, by id, or by a unique index if the source has no id."""

    def __init__(self, devices: Iterable[Device], vendors: Collection[str], first: int) -> None:
        self._by_id = {device.id: device for device in devices if device.vendor in vendors}
        self.taken = list(self._by_id.values())
        self.places = {id_: first + place for place, id_ in enumerate(self._by_id)}
        self._by_index: dict[int, Device | None] = {}
        for device in self.taken:
            if device.index is not None:
                self._by_index[device.index] = None if device.index in self._by_index else device

    def find(self, id_: str | None, index: int | None = None) -> Device | None:
        if id_ is not None:
            return self._by_id.get(id_)
        return None if index is None else self._by_index.get(index)


class _PodIndex:
    def __init__(self, pods: Iterable[Pod]) -> None:
        self._by_name = {(pod.namespace, pod.name): pod for pod in pods}

    def find(self, usage: PodUsage) -> Pod | None:
        return self._by_name.get((usage.namespace, usage.pod))


def _distinct_processes(processes: Iterable[Process], devices: _DeviceIndex) -> list[tuple[Device, Process]]:
    found = {}
    for process in processes:
        device = devices.find(process.device, process.device_index)
        if device is not None:
            found[process.pid, device.id, process.partition] = device, process
    return list(found.values())


def _distinct_usages(usages: Iterable[PodUsage], devices: _DeviceIndex) -> list[tuple[Device, PodUsage]]:
    found = {}
    for usage in usages:
        device = devices.find(usage.device)
        if device is not None:
            key = usage.namespace, usage.pod, usage.container, device.id, usage.partition
            found[key] = device, usage
    return list(found.values())


def _taken_at(part: SourceReading, device: Device) -> float | None:
    """None: not read since its agent started."""
    if not device.stale:
        return part.taken_at
    if device.read_at is None:
        return None
    return min(part.taken_at, device.read_at + part.taken_at - part.snapshot.taken_at)  # by the node's clock


def _device_row(
    place: NodeIdentity, part: SourceReading, device: Device, processes: int, usages: Sequence[PodUsage]
) -> DeviceRow:
    allocated = [usage for usage in usages if usage.allocated]
    idle = [usage.idle_seconds for usage in allocated if usage.idle_seconds is not None]
    pcie = device.pcie
    return DeviceRow(
        cluster=place.cluster,
        node=place.node,
        id=device.id,
        vendor=device.vendor.value,
        index=device.index,
        model=device.model,
        uuid=device.uuid,
        serial=device.serial,
        pci_address=device.pci_address,
        driver_version=device.driver_version,
        firmware_version=device.firmware_version,
        source=part.source,
        state=STALE if device.stale else part.state,
        simulated=place.simulated,
        taken_at=_taken_at(part, device),
        health=device.health.state.value,
        health_reason=device.health.reason,
        utilization_ratio=device.utilization_ratio,
        memory_utilization_ratio=device.memory_utilization_ratio,
        memory_total_bytes=device.memory_total_bytes,
        memory_used_bytes=device.memory_used_bytes,
        memory_free_bytes=device.memory_free_bytes,
        temperature_celsius=device.temperature_celsius,
        temperature_slowdown_celsius=device.temperature_slowdown_celsius,
        temperature_margin_celsius=_temperature_margin(device),
        power_watts=device.power_watts,
        power_limit_watts=device.power_limit_watts,
        energy_joules=device.energy_joules,
        fan_speed_ratio=max((f.speed_ratio for f in device.fans if f.speed_ratio is not None), default=None),
        pcie_generation=None if pcie is None else pcie.generation,
        pcie_width=None if pcie is None else pcie.width,
        throttled=_throttled(device),
        ecc_uncorrected=_ecc_uncorrected(device) if device.ecc else None,
        errors=sum(error.count for error in device.errors) if device.errors else None,
        partitions=len(device.partitions),
        processes=processes,
        allocated=len({(usage.namespace, usage.pod, usage.container) for usage in allocated}),
        idle_seconds=min(idle) if allocated and len(idle) == len(allocated) else None,
        namespaces=_listed({usage.namespace for usage in usages}),
    )


def _throttled(device: Device) -> str | None:
    return _listed(
        throttle.reason
        for throttle in device.throttles
        if throttle.active and throttle.reason not in HARMLESS_THROTTLES
    )


def _temperature_margin(device: Device) -> float | None:
    """None for 0, which drivers report for an unknown limit."""
    at, slowdown = device.temperature_celsius, device.temperature_slowdown_celsius
    return round(slowdown - at, 3) if slowdown and at is not None else None


def _ecc_uncorrected(device: Device) -> int | None:
    """The count since the driver was loaded if there is one, because a repaired board keeps its lifetime
    count; the total of the device if there is one, else the sum of its blocks."""
    counts = [count for count in device.ecc if count.severity == "uncorrected"]
    counts = [count for count in counts if not count.lifetime] or counts
    counts = [count for count in counts if count.block is None] or counts
    return sum(count.count for count in counts) if counts else None


def _pod_row(
    place: NodeIdentity,
    part: SourceReading,
    device: Device,
    usage: PodUsage,
    pods: _PodIndex,
    *,
    share: float,
) -> PodRow:
    pod = pods.find(usage)
    return PodRow(
        cluster=place.cluster,
        node=place.node,
        namespace=usage.namespace,
        pod=usage.pod,
        container=usage.container,
        device=device.id,
        partition=usage.partition,
        vendor=device.vendor.value,
        model=device.model,
        pod_uid=usage.pod_uid,
        owner_kind=None if pod is None else pod.owner_kind,
        owner_name=None if pod is None else pod.owner_name,
        source=part.source,
        state=part.state,
        simulated=place.simulated,
        taken_at=part.taken_at,
        processes=usage.processes,
        allocated=usage.allocated,
        resources=_listed(usage.resources),
        idle_seconds=usage.idle_seconds,
        utilization_ratio=usage.utilization_ratio,
        memory_used_bytes=usage.memory_used_bytes,
        memory_share_bytes=usage.memory_share_bytes,
        compute_share_ratio=usage.compute_share_ratio,
        device_share_ratio=share if usage.allocated else None,
        energy_joules=usage.energy_joules,
    )


def _process_row(place: NodeIdentity, part: SourceReading, device: Device, process: Process) -> ProcessRow:
    owner = process.owner
    in_pod = owner is not None and owner.kind is OwnerKind.POD
    return ProcessRow(
        cluster=place.cluster,
        node=place.node,
        pid=process.pid,
        device=device.id,
        device_index=device.index,
        vendor=device.vendor.value,
        partition=process.partition,
        name=process.name,
        user=process.user,
        type=None if process.type is None else process.type.value,
        owner_kind=None if owner is None else owner.kind.value,
        owner=None if owner is None or in_pod else owner.name,
        namespace=None if owner is None else owner.namespace,
        pod=None if owner is None else owner.pod,
        container=None if owner is None else owner.container,
        source=part.source,
        state=part.state,
        simulated=place.simulated,
        taken_at=part.taken_at,
        memory_bytes=process.memory_bytes,
        utilization_ratio=process.utilization_ratio,
        memory_utilization_ratio=process.memory_utilization_ratio,
        encoder_utilization_ratio=process.encoder_utilization_ratio,
        decoder_utilization_ratio=process.decoder_utilization_ratio,
        cpu_ratio=process.cpu_ratio,
        resident_memory_bytes=process.resident_memory_bytes,
        started_at=process.started_at,
    )


def node_row(
    place: NodeIdentity,
    rows: NodeRows,
    *,
    state: str,
    reason: str | None,
    sources: Iterable[SourceKind] = (),
    taken_at: float | None = None,
    agent_version: str | None = None,
) -> NodeRow:
    devices = rows.devices
    used = [device.utilization_ratio for device in devices if device.utilization_ratio is not None]
    total = [device.memory_total_bytes for device in devices if device.memory_total_bytes is not None]
    filled = [device.memory_used_bytes for device in devices if device.memory_used_bytes is not None]
    both = [
        (device.memory_used_bytes, device.memory_total_bytes)
        for device in devices
        if device.memory_used_bytes is not None and device.memory_total_bytes is not None
    ]
    size_of_both = sum(size for _, size in both)
    drawn = [device.power_watts for device in devices if device.power_watts is not None]
    heat = [device.temperature_celsius for device in devices if device.temperature_celsius is not None]
    return NodeRow(
        cluster=place.cluster,
        node=place.node,
        state=state,
        reason=reason,
        source=",".join(source.value for source in sources) or None,
        simulated=place.simulated,
        taken_at=taken_at,
        agent_version=agent_version,
        vendors=_listed({device.vendor for device in devices}),
        models=_models(devices),
        devices=len(devices),
        devices_lost=sum(device.health == "lost" for device in devices),
        devices_unhealthy=sum(device.health in UNHEALTHY for device in devices),
        pods=len({(pod.namespace, pod.pod) for pod in rows.pods}),
        processes=len(rows.processes),
        utilization_ratio=sum(used) / len(used) if used else None,
        memory_total_bytes=sum(total) if total else None,
        memory_used_bytes=sum(filled) if filled else None,
        memory_used_ratio=sum(part for part, _ in both) / size_of_both if size_of_both else None,
        power_watts=sum(drawn) if drawn else None,
        temperature_max_celsius=max(heat, default=None),
    )


def _models(devices: Iterable[Device | DeviceRow]) -> str | None:
    return _listed({device.model for device in devices if device.model})


def _listed(words: Iterable[str]) -> str | None:
    return ",".join(sorted(words)) or None


def merge_snapshots(node: str, parts: Sequence[SourceReading]) -> Snapshot:
    """The snapshot of the first part, with the devices of the others, under the node's name in its cluster
    and with times of this process's clock."""
    first, *others = [_only(part) for part in parts]
    first = replace(first, node=node, taken_at=parts[0].taken_at)
    if not others:
        return first
    every = (first, *others)
    pods = {(pod.namespace, pod.name): pod for snapshot in every for pod in snapshot.pods}
    return replace(
        first,
        readers=tuple(chain.from_iterable(s.readers for s in every)),
        devices=tuple(chain.from_iterable(s.devices for s in every)),
        processes=tuple(chain.from_iterable(s.processes for s in every)),
        pods=tuple(pods.values()),
        allocations=tuple(chain.from_iterable(s.allocations for s in every)),
        pod_usages=tuple(chain.from_iterable(s.pod_usages for s in every)),
        unattributed=tuple(chain.from_iterable(s.unattributed for s in every)),
        balances=tuple(chain.from_iterable(s.balances for s in every)),
    )


def _only(part: SourceReading) -> Snapshot:
    """Without the devices of other sources, and everything that belongs to those."""
    snapshot = part.snapshot
    devices = tuple(device for device in snapshot.devices if device.vendor in part.vendors)
    if len(devices) == len(snapshot.devices):
        return snapshot
    others = {device.id for device in snapshot.devices if device.vendor not in part.vendors}
    vendors_of_others = {device.vendor for device in snapshot.devices if device.id in others}
    return replace(
        snapshot,
        readers=tuple(reader for reader in snapshot.readers if reader.vendor not in vendors_of_others),
        devices=devices,
        processes=tuple(process for process in snapshot.processes if process.device not in others),
        allocations=tuple(given for given in snapshot.allocations if given.device not in others),
        pod_usages=tuple(usage for usage in snapshot.pod_usages if usage.device not in others),
        unattributed=tuple(use for use in snapshot.unattributed if use.device not in others),
        balances=tuple(balance for balance in snapshot.balances if balance.device not in others),
    )


# --- The record of a node -----------------------------------------------------
#
# The last reading and the last failure of each source. Readings are stored as compressed documents: 80,000
# devices as objects would take 250 MB, and the tables contain everything that lists and sums need. Records
# are excluded from garbage collection: they have no cycles, and a collection over 10,000 nodes would block
# the event loop.
#
# A reading becomes stale by its own age, not by the time of the source's last response: an agent whose
# collection hangs continues to respond that nothing has changed.


class StoredNodeObject(Protocol):
    """The part of a Node object that the store uses; `api_server.objects` decodes it."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def accelerators(self) -> Mapping[str, int]:
        """Allocatable devices by resource."""
        ...


PRECEDENCE = {kind: place for place, kind in enumerate(SourceKind)}

_INTERVALS_MISSED = 3
_WIDE_LABEL_BYTES = 8  # for each character
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_SNAPSHOT = msgspec.json.Decoder(Snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessRules:
    """A reading is stale after `stale_after_seconds` or after three of the node's intervals, whichever is
    longer, but not later than it is forgotten."""

    stale_after_seconds: float
    forget_after_seconds: float

    def stale_at(self, taken_at: float, interval_seconds: float | None) -> float:
        seconds = max(self.stale_after_seconds, _INTERVALS_MISSED * (interval_seconds or 0.0))
        return taken_at + min(seconds, self.forget_after_seconds)

    def is_forgotten(self, taken_at: float, now: float) -> bool:
        return taken_at + self.forget_after_seconds <= now


class StoredReading(Struct, frozen=True, kw_only=True, gc=False):
    source: SourceKind
    taken_at: float
    stale_at: float
    vendors: tuple[str, ...]  # of its devices
    agent_version: str | None
    node_labels: tuple[tuple[str, str], ...]
    remark: str | None  # about parts that were omitted
    document: bytes  # gzip or zlib
    size: int  # bytes of the document, plus an upper bound for texts in rows and labels

    def snapshot(self) -> Snapshot:
        """The snapshot of the source, with times of the node's clock."""
        return _SNAPSHOT.decode(zlib.decompress(self.document, _GZIP_OR_ZLIB))


def make_stored_reading(report: NodeReport, now: float, staleness: StalenessRules) -> StoredReading:
    snapshot = report.snapshot
    taken_at = min(report.taken_at, now)  # the clock of the node may be ahead, which must not keep it fresh
    document = report.document or zlib.compress(msgspec.json.encode(snapshot), 1)
    labels = sum(_label_bytes(text) for label in snapshot.node_labels for text in label)
    return StoredReading(
        source=report.source,
        taken_at=taken_at,
        stale_at=staleness.stale_at(taken_at, snapshot.interval_seconds),
        vendors=tuple(sorted({device.vendor.value for device in snapshot.devices})),
        agent_version=snapshot.agent.version or None,
        node_labels=snapshot.node_labels,
        remark=report.remark,
        document=document,
        size=len(document) + text_size(snapshot) + labels,
    )


def _label_bytes(text: str) -> int:
    """An upper bound: the text and its UTF-8, which Python caches. Labels are in no table."""
    return len(text) * (1 if text.isascii() else _WIDE_LABEL_BYTES)


def _is_superseded(reading: StoredReading, newest: float) -> bool:
    """Whether a fresh reading of another source is much newer, so that it replaces this one although it
    contains less. When a whole cluster becomes unreachable, all readings are about equally old, and the
    better one stays."""
    return newest - reading.taken_at > (reading.stale_at - reading.taken_at) / 2


class SourceFailure(Struct, frozen=True, gc=False):
    text: str
    incompatible: bool
    at: float
    rejected: bool = False  # the node was read, but its reading exceeds a limit


class SourceContribution(Struct, frozen=True, gc=False):
    """The vendors whose devices come from a source, and whether its reading is fresh."""

    source: SourceKind
    fresh: bool
    vendors: tuple[str, ...]


class NodeRecord(Struct, gc=False):
    cluster: str
    node: str
    number: int
    readings: dict[SourceKind, StoredReading] = {}
    failures: dict[SourceKind, SourceFailure] = {}
    object: StoredNodeObject | None = None
    shares: tuple[SourceContribution, ...] = ()  # of its rows
    state: str | None = None  # of its row; None: it has none
    outage_reported: bool = False  # by an event, that it is stale or incompatible
    size: int = 0  # of its readings, as counted in its cluster
    due: float = -inf  # when to refresh it without an update from a source

    @property
    def has_accelerators(self) -> bool:
        return self.object is not None and bool(self.object.accelerators)

    @property
    def is_known(self) -> bool:
        return bool(self.readings or self.failures) or self.has_accelerators

    def schedule_now(self) -> None:
        """Refreshes it with the next tick."""
        self.due = -inf

    def forget_old(self, now: float, staleness: StalenessRules) -> None:
        gone = staleness.is_forgotten
        self.readings = {
            kind: reading for kind, reading in self.readings.items() if not gone(reading.taken_at, now)
        }
        self.failures = {kind: failed for kind, failed in self.failures.items() if not gone(failed.at, now)}

    def next_due(self, now: float, staleness: StalenessRules) -> float:
        forgotten = staleness.forget_after_seconds
        times = [
            reading.stale_at if now < reading.stale_at else reading.taken_at + forgotten
            for reading in self.readings.values()
        ]
        times += [failure.at + forgotten for failure in self.failures.values()]
        return min(times, default=inf)

    def source_shares(self, now: float) -> tuple[SourceContribution, ...]:
        """By precedence, with superseded readings last. Each source contributes the vendors that no source
        before it has. The first is included even without devices, because the node was read from it."""
        if len(self.readings) == 1:
            [only] = self.readings.values()
            return (SourceContribution(only.source, now < only.stale_at, only.vendors),)
        return tuple(self._shares(now))

    def _shares(self, now: float) -> Iterator[SourceContribution]:
        covered: set[str] = set()
        newest = max(
            (reading.taken_at for reading in self.readings.values() if now < reading.stale_at),
            default=-inf,
        )
        in_order = sorted(
            self.readings.values(),
            key=lambda reading: (
                now >= reading.stale_at and _is_superseded(reading, newest),
                PRECEDENCE[reading.source],
            ),
        )
        for place, reading in enumerate(in_order):
            vendors = tuple(vendor for vendor in reading.vendors if vendor not in covered)
            if vendors or not place:
                yield SourceContribution(reading.source, now < reading.stale_at, vendors)
                covered.update(vendors)

    def failure(self) -> SourceFailure | None:
        """The failures of all sources, by precedence. While the node is fresh, failures of unused sources are
        omitted, unless the agent is incompatible."""
        shown = sorted(self.failures, key=PRECEDENCE.__getitem__)
        if self.shares and self.shares[0].fresh:
            used = {share.source for share in self.shares}
            shown = [source for source in shown if source in used or self.failures[source].incompatible]
        if len(shown) < 2:
            return self.failures[shown[0]] if shown else None
        failed = [self.failures[source] for source in shown]
        return SourceFailure(
            "; ".join(f"{source}: {self.failures[source].text}" for source in shown),
            failed[0].incompatible,
            max(failure.at for failure in failed),
        )
