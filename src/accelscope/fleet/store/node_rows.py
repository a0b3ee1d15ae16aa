"""The record of a node with the readings of its sources, and the rows and the snapshot made from them."""

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from accelscope.fleet.rows import DeviceRow, NodeReport, NodeRow, PodRow, ProcessRow, SourceKind
from accelscope.fleet.store.table import interned_bytes
from accelscope.model import Device, OwnerKind, Pod, Snapshot
from accelscope.model.update import (
    DEVICE_NUMBERS,
    DEVICE_TEXTS,
    POD_NUMBERS,
    PROCESS_NUMBERS,
    ContainerOfRow,
    DeviceOfRow,
    ProcessOfRow,
    SnapshotRows,
    listed,
    rows_of,
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


def make_rows(place: NodeIdentity, parts: Sequence[SourceReading]) -> NodeRows:
    if len(parts) == 1:
        return _rows_of_part(place, parts[0], 0)
    rows = NodeRows()
    for part in parts:
        more = _rows_of_part(place, part, len(rows.devices))
        rows.devices += more.devices
        rows.pods += more.pods
        rows.pod_devices += more.pod_devices
        rows.processes += more.processes
        rows.process_devices += more.process_devices
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
        texts.update((device.driver_version, device.firmware_version))
        texts.update((device.health.reason, device.health.action))
        texts.update(throttle.reason for throttle in device.throttles)
        if len(device.throttles) > 1:
            texts.add(listed(throttle.reason for throttle in device.throttles))
    namespaces: dict[str, set[str]] = defaultdict(set)
    for pod in snapshot.pods:
        texts.update((pod.owner_kind, pod.owner_name))
    for usage in snapshot.pod_usages:
        texts.update((usage.namespace, usage.pod, usage.container, usage.partition, usage.pod_uid))
        texts.update(usage.resources)
        if len(usage.resources) > 1:
            texts.add(listed(usage.resources))
        namespaces[usage.device].add(usage.namespace)
    texts.update(listed(names) for names in namespaces.values() if len(names) > 1)
    for process in snapshot.processes:
        texts.update((process.name, process.user, process.partition))
        if (owner := process.owner) is not None:
            texts.update((owner.name, owner.namespace, owner.pod, owner.container))
    return sum(interned_bytes(text) for text in texts if text is not None)


def _by_container(item: tuple[PodRow, int]) -> tuple[str, str, str]:
    row = item[0]
    return row.namespace, row.pod, row.container


def _rows_of_part(place: NodeIdentity, part: SourceReading, first: int) -> NodeRows:
    """`first` is the number of devices of the parts before it."""
    found: SnapshotRows = rows_of(part.snapshot, part.vendors)
    pods = {(pod.namespace, pod.name): pod for pod in part.snapshot.pods}
    used_by = [pods.get((row.usage.namespace, row.usage.pod)) for row in found.containers]
    places = {row.device.id: first + number for number, row in enumerate(found.devices)}
    return NodeRows(
        [_device_row(place, part, row) for row in found.devices],
        [_pod_row(place, part, row, pod) for row, pod in zip(found.containers, used_by, strict=True)],
        [places[row.device.id] for row in found.containers],
        [_process_row(place, part, row) for row in found.processes],
        [places[row.device.id] for row in found.processes],
    )


def _taken_at(part: SourceReading, device: Device) -> float | None:
    """None: not read since its agent started."""
    if not device.stale:
        return part.taken_at
    if device.read_at is None:
        return None
    return min(part.taken_at, device.read_at + part.taken_at - part.snapshot.taken_at)  # by the node's clock


def _device_row(place: NodeIdentity, part: SourceReading, row: DeviceOfRow) -> DeviceRow:
    device = row.device
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
        partitions=len(device.partitions),
        processes=row.processes,
        allocated=len({(usage.namespace, usage.pod, usage.container) for usage in row.allocated}),
        namespaces=listed({usage.namespace for usage in row.usages}),
        **dict(zip(DEVICE_TEXTS, row.texts(), strict=True)),
        **dict(zip(DEVICE_NUMBERS, row.numbers(), strict=True)),
    )


def _pod_row(place: NodeIdentity, part: SourceReading, row: ContainerOfRow, pod: Pod | None) -> PodRow:
    usage = row.usage
    return PodRow(
        cluster=place.cluster,
        node=place.node,
        namespace=usage.namespace,
        pod=usage.pod,
        container=usage.container,
        device=row.device.id,
        partition=usage.partition,
        vendor=row.device.vendor.value,
        model=row.device.model,
        pod_uid=usage.pod_uid,
        owner_kind=None if pod is None else pod.owner_kind,
        owner_name=None if pod is None else pod.owner_name,
        source=part.source,
        state=part.state,
        simulated=place.simulated,
        taken_at=part.taken_at,
        allocated=usage.allocated,
        resources=listed(usage.resources),
        **dict(zip(POD_NUMBERS, row.numbers(), strict=True)),
    )


def _process_row(place: NodeIdentity, part: SourceReading, row: ProcessOfRow) -> ProcessRow:
    process = row.process
    owner = process.owner
    in_pod = owner is not None and owner.kind is OwnerKind.POD
    return ProcessRow(
        cluster=place.cluster,
        node=place.node,
        pid=process.pid,
        device=row.device.id,
        device_index=row.device.index,
        vendor=row.device.vendor.value,
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
        started_at=process.started_at,
        **dict(zip(PROCESS_NUMBERS, row.numbers(), strict=True)),
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
    numbers = node_numbers(
        [device.health for device in devices],
        [device.utilization_ratio for device in devices],
        [device.memory_total_bytes for device in devices],
        [device.memory_used_bytes for device in devices],
        [device.power_watts for device in devices],
        [device.temperature_celsius for device in devices],
    )
    return NodeRow(
        cluster=place.cluster,
        node=place.node,
        state=state,
        reason=reason,
        source=",".join(source.value for source in sources) or None,
        simulated=place.simulated,
        taken_at=taken_at,
        agent_version=agent_version,
        vendors=listed({device.vendor for device in devices}),
        models=_models(devices),
        devices=len(devices),
        pods=len({(pod.namespace, pod.pod) for pod in rows.pods}),
        processes=len(rows.processes),
        **dict(zip(NODE_NUMBERS, numbers, strict=True)),
    )


# The columns of a node that change with every reading.
NODE_NUMBERS = (
    "devices_lost",
    "devices_unhealthy",
    "utilization_ratio",
    "memory_total_bytes",
    "memory_used_bytes",
    "memory_used_ratio",
    "power_watts",
    "temperature_max_celsius",
)


def node_numbers(  # noqa: PLR0917 - columns
    healths: Sequence[str | None],
    utilization: Sequence[float | None],
    memory_total: Sequence[float | None],
    memory_used: Sequence[float | None],
    power: Sequence[float | None],
    temperature: Sequence[float | None],
) -> tuple[Any, ...]:
    """Values of NODE_NUMBERS from those of its devices."""
    used = [ratio for ratio in utilization if ratio is not None]
    total = [size for size in memory_total if size is not None]
    filled = [size for size in memory_used if size is not None]
    both = [
        (part, size)
        for part, size in zip(memory_used, memory_total, strict=True)
        if part is not None and size is not None
    ]
    size_of_both = sum(size for _, size in both)
    drawn = [watts for watts in power if watts is not None]
    return (
        sum(health == "lost" for health in healths),
        sum(health in UNHEALTHY for health in healths),
        sum(used) / len(used) if used else None,
        sum(total) if total else None,
        sum(filled) if filled else None,
        sum(part for part, _ in both) / size_of_both if size_of_both else None,
        sum(drawn) if drawn else None,
        max((degrees for degrees in temperature if degrees is not None), default=None),
    )


def _models(devices: Iterable[Device | DeviceRow]) -> str | None:
    return listed({device.model for device in devices if device.model})


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
    document_taken_at: float  # rows may have newer values than the document
    structure: str | None
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
        document_taken_at=taken_at,
        structure=report.structure,
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
