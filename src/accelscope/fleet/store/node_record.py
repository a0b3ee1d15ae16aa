"""What is remembered of one node: the last reading of each source, and the last failure.

Readings are kept as compressed documents: eighty thousand devices as objects would take a quarter of a
gigabyte, and all that lists and sums need of them is in columns. The garbage collector is not told of what is
kept of a node: there are no cycles in it, and to look for some among ten thousand nodes would hold the loop.

A reading is stale by its own age, not by when its source last answered: an agent whose collection hangs goes
on answering that nothing has changed.
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

# --- node object ------------------------------------------------------------
# A Node object as far as the store is concerned; `api_server.objects` decodes those that fit it.


class NodeObject(Protocol):
    """What the store wants of a Node object."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def accelerators(self) -> Mapping[str, int]:
        """Allocatable devices by resource; empty: it offers none."""
        ...


PRECEDENCE = {kind: place for place, kind in enumerate(SourceKind)}

_INTERVALS_MISSED = 3
_WIDE_LABEL_BYTES = 8  # for each character
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_SNAPSHOT = msgspec.json.Decoder(Snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ageing:
    """`stale_after_seconds`, or three of the node's intervals where that is longer; never later than it is
    forgotten."""

    stale_after_seconds: float
    forget_after_seconds: float

    def stale_at(self, taken_at: float, interval_seconds: float | None) -> float:
        patience = max(self.stale_after_seconds, _INTERVALS_MISSED * (interval_seconds or 0.0))
        return taken_at + min(patience, self.forget_after_seconds)

    def is_forgotten(self, taken_at: float, now: float) -> bool:
        return taken_at + self.forget_after_seconds <= now


class Kept(Struct, frozen=True, kw_only=True, gc=False):
    """A reading."""

    source: SourceKind
    taken_at: float
    stale_at: float
    vendors: tuple[str, ...]  # of the devices that it shows
    agent_version: str | None
    node_labels: tuple[tuple[str, str], ...]
    remark: str | None  # what of it had to be left out
    document: bytes  # gzip or zlib
    size: int  # bytes of the document and, at most, of texts in rows and labels

    def snapshot(self) -> Snapshot:
        """As the source gave it, with times by the node's clock."""
        return _SNAPSHOT.decode(zlib.decompress(self.document, _GZIP_OR_ZLIB))


def kept(report: NodeReport, now: float, ageing: Ageing) -> Kept:
    snapshot = report.snapshot
    taken_at = min(report.taken_at, now)  # a clock that runs ahead must not keep a node fresh
    document = report.document or zlib.compress(msgspec.json.encode(snapshot), 1)
    labels = sum(_label_bytes(text) for label in snapshot.node_labels for text in label)
    return Kept(
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
    """At most: labels are in no table, so there is only the text and, once it was in an answer, its UTF-8."""
    return len(text) * (1 if text.isascii() else _WIDE_LABEL_BYTES)


def _fell_silent(kept: Kept, newest: float) -> bool:
    """Whether a fresh source looked well after this one last did, so that it may take over although it tells
    less. Where nothing is heard of a whole cluster, all ended at about the same time: the others have nothing
    newer, and the better reading stays, stale."""
    return newest - kept.taken_at > (kept.stale_at - kept.taken_at) / 2


class Failure(Struct, frozen=True, gc=False):
    text: str
    incompatible: bool
    at: float
    refused: bool = False  # it was read, and takes more than may be kept


class Share(Struct, frozen=True, gc=False):
    """Which vendors' devices are taken from which source, and whether its reading is fresh."""

    source: SourceKind
    fresh: bool
    vendors: tuple[str, ...]


class NodeRecord(Struct, gc=False):
    cluster: str
    node: str
    number: int
    readings: dict[SourceKind, Kept] = {}
    failures: dict[SourceKind, Failure] = {}
    object: NodeObject | None = None
    shares: tuple[Share, ...] = ()  # that its rows were made from
    state: str | None = None  # of its row; None: it has none
    told: bool = False  # that it is not fresh, by an event
    size: int = 0  # of its readings, as far as its cluster counts it
    due: float = -inf  # when it is to be looked at again, although no source said anything

    @property
    def has_accelerators(self) -> bool:
        return self.object is not None and bool(self.object.accelerators)

    @property
    def is_known(self) -> bool:
        return bool(self.readings or self.failures) or self.has_accelerators

    def look_again(self) -> None:
        """With the next tick."""
        self.due = -inf

    def forget_old(self, now: float, ageing: Ageing) -> None:
        gone = ageing.is_forgotten
        self.readings = {kind: kept for kind, kept in self.readings.items() if not gone(kept.taken_at, now)}
        self.failures = {kind: failed for kind, failed in self.failures.items() if not gone(failed.at, now)}

    def next_due(self, now: float, ageing: Ageing) -> float:
        forgotten = ageing.forget_after_seconds
        times = [
            kept.stale_at if now < kept.stale_at else kept.taken_at + forgotten
            for kept in self.readings.values()
        ]
        times += [failure.at + forgotten for failure in self.failures.values()]
        return min(times, default=inf)

    def shared_out(self, now: float) -> tuple[Share, ...]:
        """By precedence, but for stale readings that a later one took the place of; each adds the vendors
        that none before it told of. The first is named also where it shows no device: it is what the node was
        read from."""
        if len(self.readings) == 1:
            [only] = self.readings.values()
            return (Share(only.source, now < only.stale_at, only.vendors),)
        return tuple(self._shares(now))

    def _shares(self, now: float) -> Iterator[Share]:
        told: set[str] = set()
        newest = max((kept.taken_at for kept in self.readings.values() if now < kept.stale_at), default=-inf)
        in_order = sorted(
            self.readings.values(),
            key=lambda kept: (now >= kept.stale_at and _fell_silent(kept, newest), PRECEDENCE[kept.source]),
        )
        for place, reading in enumerate(in_order):
            vendors = tuple(vendor for vendor in reading.vendors if vendor not in told)
            if vendors or not place:
                yield Share(reading.source, now < reading.stale_at, vendors)
                told.update(vendors)

    def failure(self) -> Failure | None:
        """What to show: of all sources, the one that counts most first. While the node is fresh, another
        source's does not matter, unless it says that an agent cannot be understood."""
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
