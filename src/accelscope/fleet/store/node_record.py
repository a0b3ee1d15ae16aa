"""The record of one node: the last reading and the last failure of each source.

Readings are stored as compressed documents: 80,000 devices as objects would take 250 MB, and the tables
contain everything that lists and sums need. Records are excluded from garbage collection: they have no
cycles, and a collection over 10,000 nodes would block the event loop.

A reading becomes stale by its own age, not by when its source last answered: an agent whose collection hangs
continues to answer that nothing has changed.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol

import msgspec
from msgspec import Struct

from accelscope.fleet.rows import NodeReport, SourceKind
from accelscope.fleet.store.node_rows import text_size
from accelscope.model import Snapshot


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
class Ageing:
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
    remark: str | None  # about parts that were left out
    document: bytes  # gzip or zlib
    size: int  # bytes of the document, plus an upper bound for texts in rows and labels

    def snapshot(self) -> Snapshot:
        """The snapshot of the source, with times of the node's clock."""
        return _SNAPSHOT.decode(zlib.decompress(self.document, _GZIP_OR_ZLIB))


def stored_reading(report: NodeReport, now: float, ageing: Ageing) -> StoredReading:
    snapshot = report.snapshot
    taken_at = min(report.taken_at, now)  # a clock that runs ahead must not keep a node fresh
    document = report.document or zlib.compress(msgspec.json.encode(snapshot), 1)
    labels = sum(_label_bytes(text) for label in snapshot.node_labels for text in label)
    return StoredReading(
        source=report.source,
        taken_at=taken_at,
        stale_at=ageing.stale_at(taken_at, snapshot.interval_seconds),
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


class Failure(Struct, frozen=True, gc=False):
    text: str
    incompatible: bool
    at: float
    refused: bool = False  # the node was read, but its reading exceeds a limit


class SourceShare(Struct, frozen=True, gc=False):
    """The vendors whose devices come from a source, and whether its reading is fresh."""

    source: SourceKind
    fresh: bool
    vendors: tuple[str, ...]


class NodeRecord(Struct, gc=False):
    cluster: str
    node: str
    number: int
    readings: dict[SourceKind, StoredReading] = {}
    failures: dict[SourceKind, Failure] = {}
    object: StoredNodeObject | None = None
    shares: tuple[SourceShare, ...] = ()  # of its rows
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

    def forget_old(self, now: float, ageing: Ageing) -> None:
        gone = ageing.is_forgotten
        self.readings = {
            kind: reading for kind, reading in self.readings.items() if not gone(reading.taken_at, now)
        }
        self.failures = {kind: failed for kind, failed in self.failures.items() if not gone(failed.at, now)}

    def next_due(self, now: float, ageing: Ageing) -> float:
        forgotten = ageing.forget_after_seconds
        times = [
            reading.stale_at if now < reading.stale_at else reading.taken_at + forgotten
            for reading in self.readings.values()
        ]
        times += [failure.at + forgotten for failure in self.failures.values()]
        return min(times, default=inf)

    def source_shares(self, now: float) -> tuple[SourceShare, ...]:
        """By precedence, with superseded readings last. Each source contributes the vendors that no source
        before it has. The first is included even without devices, because the node was read from it."""
        if len(self.readings) == 1:
            [only] = self.readings.values()
            return (SourceShare(only.source, now < only.stale_at, only.vendors),)
        return tuple(self._shares(now))

    def _shares(self, now: float) -> Iterator[SourceShare]:
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
                yield SourceShare(reading.source, now < reading.stale_at, vendors)
                covered.update(vendors)

    def failure(self) -> Failure | None:
        """The failures of all sources, by precedence. While the node is fresh, failures of unused sources are
        left out, unless the agent is incompatible."""
        shown = sorted(self.failures, key=PRECEDENCE.__getitem__)
        if self.shares and self.shares[0].fresh:
            used = {share.source for share in self.shares}
            shown = [source for source in shown if source in used or self.failures[source].incompatible]
        if len(shown) < 2:
            return self.failures[shown[0]] if shown else None
        failed = [self.failures[source] for source in shown]
        return Failure(
            "; ".join(f"{source}: {self.failures[source].text}" for source in shown),
            failed[0].incompatible,
            max(failure.at for failure in failed),
        )
