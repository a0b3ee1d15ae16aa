"""The annotations source: devices from annotations of Node objects, which the cluster's watch already
receives.

Annotations are those that vendors declare, which other collectors write too, and our own
`accelscope.io/devices`.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from accelscope.fleet.api_server import Informer
from accelscope.fleet.api_server.objects import DEVICES, NodeObject, vendor_annotations
from accelscope.fleet.rows import NodeFailure, NodeUnchanged, SourceKind, SourceOutcome, UpdateHandler
from accelscope.fleet.sources.round import LoopThrottle, RefreshRound, wait_for_discovery
from accelscope.fleet.sources.snapshots import make_report
from accelscope.kube.endpoint import one_line
from accelscope.model import AgentState, Device, Health, HealthState, ReaderState, Snapshot, Vendor
from accelscope.vendors.common.contract import number, text, whole

_MAX_DEVICES = 1024

# Go writes times with up to nine digits of a second, of which Python reads six.
_FRACTION = re.compile(r"(\.[0-9]{6})[0-9]+")


class BadAnnotation(ValueError):
    """An invalid document. The message is one line."""


@dataclass(frozen=True, slots=True)
class AnnotationReading:
    written_at: float  # by the node's clock, seconds since the epoch
    devices: tuple[Device, ...]


def read_annotation(name: str, document: str) -> AnnotationReading:
    """Reads an annotation that a vendor declares, or `accelscope.io/devices`. Entries that are not devices
    are omitted. Raises BadAnnotation."""
    vendor = vendor_annotations().get(name)
    if vendor is None or vendor.annotation is None:
        return _read(document, "devices", _device)
    return _read(document, vendor.annotation.member, vendor.load(vendor.annotation.device))


def _read(
    document: str, member: str, device_of: Callable[[Mapping[str, object]], Device | None]
) -> AnnotationReading:
    try:
        decoded = _decoder(member).decode(document)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadAnnotation(_why(error)) from None
    devices = [device_of(entry) for entry in decoded.entries[:_MAX_DEVICES]]
    return _annotated(decoded.timestamp, devices, len(decoded.entries))


@cache
def _decoder(member: str) -> msgspec.json.Decoder[Any]:
    fields: list[Any] = [("timestamp", str), ("entries", list[dict[str, object]], [])]
    return msgspec.json.Decoder(msgspec.defstruct("Document", fields, rename={"entries": member}))


def _annotated(timestamp: str, devices: list[Device | None], entries: int) -> AnnotationReading:
    distinct = {device.id: device for device in devices if device is not None}
    if entries and not distinct:
        raise BadAnnotation("no entry is a device")
    return AnnotationReading(_seconds(timestamp), tuple(distinct.values()))


def _device(entry: Mapping[str, object]) -> Device | None:
    identity, vendor = text(entry, "id"), text(entry, "vendor")
    if identity is None or vendor not in tuple(Vendor):
        return None
    word = text(entry, "health")
    used, total = number(entry, "memory_used_bytes"), number(entry, "memory_total_bytes")
    return Device(
        vendor=Vendor(vendor),
        id=identity,
        index=whole(entry, "index"),
        model=text(entry, "model"),
        health=Health(HealthState(word) if word in tuple(HealthState) else HealthState.UNKNOWN),
        utilization_ratio=number(entry, "utilization_ratio"),
        memory_used_bytes=None if used is None else round(used),
        memory_total_bytes=None if total is None else round(total),
        temperature_celsius=number(entry, "temperature_celsius", least=-273),
        power_watts=number(entry, "power_watts"),
    )


def _seconds(timestamp: str) -> float:
    try:
        moment = datetime.fromisoformat(_FRACTION.sub(r"\1", timestamp))
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise BadAnnotation("the timestamp is not in RFC 3339 format") from None


def _why(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


_SOURCE = "annotation"
# Collectors write at least once a minute, even if nothing changes.
_HEARTBEAT_SECONDS = 60.0
_AT_ONCE = 1
_NEVER = 1 << 62

AnnotationTexts = tuple[tuple[str, str], ...]  # name and value of annotations


class AnnotationsSource:
    kind = SourceKind.ANNOTATIONS

    def __init__(
        self,
        nodes: Informer[NodeObject],
        *,
        loop_throttle: LoopThrottle,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._nodes = nodes
        self._loop_throttle = loop_throttle
        self._clock = clock
        self._read: dict[str, AnnotationTexts] = {}  # by node, as last reported
        self._sees_devices = False

    def sees_accelerators(self) -> bool:
        return self._sees_devices

    async def refresh(self, take: UpdateHandler) -> SourceOutcome:
        if (unknown := await wait_for_discovery(self._nodes)) is not None:
            return unknown
        annotated = {
            name: texts for name, node in self._nodes.items.items() if (texts := tuple(_texts(node)))
        }
        self._read = {name: texts for name, texts in self._read.items() if name in annotated}
        refresh_round = RefreshRound(take, max_failures=_NEVER)

        async def read(name: str) -> None:
            await self._read_node(name, annotated[name], refresh_round)

        await refresh_round.run(annotated, read, at_once=_AT_ONCE)
        lost = self._nodes.error
        if lost is not None:
            return refresh_round.outcome(len(annotated), reason=lost.reason, text=lost.text)
        return refresh_round.outcome(len(annotated))

    async def close(self) -> None:
        """The watch belongs to the cluster."""

    async def _read_node(self, name: str, texts: AnnotationTexts, refresh_round: RefreshRound) -> None:
        if self._read.get(name) == texts:
            refresh_round.report(NodeUnchanged(node=name, source=self.kind))
            return
        async with self._loop_throttle.piece():
            try:
                snapshot, remark = _snapshot(name, texts)
            except BadAnnotation as error:
                text = one_line(str(error))
                refresh_round.report(NodeFailure(node=name, source=self.kind, reason="bad_answer", text=text))
                return
            self._sees_devices = self._sees_devices or bool(snapshot.devices)
            taken_at = min(snapshot.taken_at, self._clock())
            update = make_report(name, self.kind, taken_at, snapshot, remark=remark)
            refresh_round.report(update)
            if not isinstance(update, NodeFailure):
                self._read[name] = texts


def _texts(node: NodeObject) -> Iterator[tuple[str, str]]:
    yield from node.vendor_annotations
    if node.devices_annotation is not None:
        yield DEVICES, node.devices_annotation
    yield from node.devices_by_vendor


def _snapshot(node: str, texts: AnnotationTexts) -> tuple[Snapshot, str | None]:
    """The snapshot, and a remark about annotations that could not be read. If two annotations contain devices
    of one vendor, ours is used: it has the same ids as agents. Raises BadAnnotation if nothing can be
    read."""
    found: list[AnnotationReading] = []
    failures: list[str] = []
    for annotation, written in sorted(texts, key=lambda pair: pair[0] in vendor_annotations()):
        try:
            found.append(read_annotation(annotation, written))
        except BadAnnotation as error:
            failures.append(f"{annotation}: {error}")
    if not found:
        raise BadAnnotation("; ".join(failures))
    devices: dict[str, Device] = {}
    by_vendor: dict[Vendor, AnnotationReading] = {}
    for annotated in found:
        for device in annotated.devices:
            if by_vendor.setdefault(device.vendor, annotated) is annotated:
                devices[device.id] = device
    written_at = min(annotated.written_at for annotated in by_vendor.values() or found)
    snapshot = Snapshot(
        node=node,
        taken_at=written_at,
        agent=AgentState(version="", started_at=written_at),
        interval_seconds=_HEARTBEAT_SECONDS,
        readers=tuple(
            ReaderState(vendor=vendor, found=True, up=True, source=_SOURCE) for vendor in by_vendor
        ),
        devices=tuple(devices.values()),
    )
    return snapshot, one_line("; ".join(failures)) or None
