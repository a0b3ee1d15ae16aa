"""A node of a running fleet: what its agent answers at a moment, well or under faults."""

import json
import math
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from accelscope.model import HostUse
from accelscope.model.wire import SCHEMA_VERSION, snapshot_document
from accelscope.simulate import identity
from accelscope.simulate.fleet.annotation import npu_metrics
from accelscope.simulate.fleet.faults import FleetFault, Trouble, device_log, pauses
from accelscope.simulate.fleet.frames import TAG, WINDOW, Variant
from accelscope.simulate.fleet.names import Names, tag_of
from accelscope.simulate.fleet.node import NodeModel, named
from accelscope.simulate.fleet.usage import Ledger
from accelscope.simulate.workload import boot_time

_GZIP = 31  # zlib's word for gzip, with the largest window
# What earlier schemas did not know.
_SINCE_1_1 = (
    "node_labels",
    "attribution",
    "pods",
    "allocations",
    "pod_usages",
    "unattributed",
    "balances",
    "sinks",
)
_OF_PROCESSES_SINCE_1_2 = HostUse._fields


def compressed(content: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    return packer.compress(content) + packer.flush()


@dataclass(slots=True)
class _Apart:
    """A node that something happened to: from then on it is no variant's likeness."""

    model: NodeModel
    ledger: Ledger
    troubles: tuple[Trouble, ...]
    tick: int = -1
    document: bytes = b""
    readable: bytes = b""
    annotation: str | None = None


class FleetNode:
    """`number` is among all nodes of the fleet; `epoch` the wall-clock time at which the fleet started."""

    def __init__(self, name: str, number: int, variant: Variant, *, seed: int, epoch: float) -> None:
        self.name = name
        self.tag = tag_of(number)
        self.variant = variant
        self._epoch = epoch
        self._interval = variant.agent.interval_seconds
        self._ahead = identity.whole(0, WINDOW - 1, seed, "ahead", number)  # ticks
        self._phase = identity.fraction(seed, "phase", number) * self._interval
        zero = epoch - self._phase - self._ahead * self._interval  # when its simulated time began
        self._booted = boot_time(variant.spec.seed, zero)
        self._changes = 0
        self._apart: _Apart | None = None
        if not variant.has_likenesses:
            self.suffer((), 0.0)

    def names(self) -> Names:
        return Names(self.tag)

    def tick(self, at: float) -> int:
        """Readings that the agent has made by `at`, in seconds since the fleet started."""
        return math.floor((at + self._phase) / self._interval)

    def taken_at(self, at: float) -> float:
        """Seconds since the epoch of its last reading."""
        return self._epoch + self.tick(at) * self._interval - self._phase

    def etag(self, at: float) -> str:
        return f'W/"{self._epoch:.6f}-{self.tick(at)}.{self._changes}"'

    def age(self, at: float) -> float:
        return max(0.0, self._epoch + at - self.taken_at(at))

    def document(self, at: float) -> bytes:
        if self._apart is None:
            frame = self.variant.frame(self.tick(at) + self._ahead)
            return frame.document(self.name, self.tag, self.taken_at(at), self._booted)
        return self._own(self._apart, at).document

    def readable(self, at: float) -> bytes:
        """The document; where its schema is another major's, what it says in ours: metrics do not change
        with the form of a snapshot."""
        return self.document(at) if self._apart is None else self._own(self._apart, at).readable

    def annotation(self, at: float) -> str | None:
        if self._apart is None:
            return self.variant.frame(self.tick(at) + self._ahead).annotation
        return self._own(self._apart, at).annotation

    def readings(self, vendor: str, at: float) -> tuple[Any, ...]:
        """In the vendor's own terms, with ids that are the variant's."""
        if self._apart is None:
            return self.variant.readings(vendor, self.tick(at) + self._ahead)
        own, delay = self._apart, self._ahead * self._interval
        log = device_log(own.model.spec, own.troubles, delay)
        return own.model.readings(vendor, self._simulated(at), self.taken_at(at), log)

    def suffer(self, troubles: Sequence[Trouble], at: float) -> None:
        """All that is or was wrong with it, by now."""
        troubles, own = tuple(troubles), self._apart
        if own is not None and own.troubles == troubles:
            return
        self._changes += 1
        if own is None:
            ledger = self.variant.frame(self.tick(at) + self._ahead).ledger
            own = _Apart(self._model(troubles), ledger.renamed(TAG, self.tag), troubles)
            self._apart = own
            return
        if self._pauses(own.troubles) != self._pauses(troubles):
            own.model = self._model(troubles)
        own.troubles, own.tick = troubles, -1

    def trouble(self, kind: FleetFault, at: float) -> Trouble | None:
        """Of that kind, if there is one at that moment."""
        if self._apart is None:
            return None
        return next((t for t in self._apart.troubles if t.kind == kind and t.active(at)), None)

    def _pauses(self, troubles: Sequence[Trouble]) -> dict[str, tuple[tuple[float, float], ...]]:
        return pauses(troubles, self._ahead * self._interval)

    def _model(self, troubles: Sequence[Trouble]) -> NodeModel:
        spec = named(self.variant.spec, name=self.name, seed=self.variant.spec.seed)
        return NodeModel(spec, self.variant.agent, self.names(), self._pauses(troubles))

    def _simulated(self, at: float) -> float:
        return (self.tick(at) + self._ahead) * self._interval

    def _own(self, own: _Apart, at: float) -> _Apart:
        tick = self.tick(at)
        if own.tick != tick:
            delay = self._ahead * self._interval
            log = device_log(own.model.spec, own.troubles, delay)
            snapshot, own.ledger = own.model.snapshot(
                self._simulated(at),
                self.taken_at(at),
                own.ledger,
                log,
                [trouble.later(delay) for trouble in own.troubles],
            )
            document = snapshot_document(replace(snapshot, taken_at=round(snapshot.taken_at, 3)))
            own.tick = tick
            own.document = own.readable = _written(document)
            other = self.trouble(FleetFault.AGENT_SCHEMA, at)
            if other is not None and other.schema is not None:
                own.document = _written(in_schema(document, other.schema))
                if _major(other.schema) == _major(SCHEMA_VERSION):
                    own.readable = own.document
            own.annotation = npu_metrics(snapshot.devices)
        return own


def _written(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _major(version: str) -> str:
    return version.partition(".")[0]


def in_schema(document: dict[str, Any], version: str) -> dict[str, Any]:
    """As an agent of that version would write it: an older one without what came later, a newer one with
    something that nobody knows yet."""
    own = tuple(map(int, SCHEMA_VERSION.split(".")))
    wanted = tuple(map(int, version.split(".")))
    written = {**document, "schema_version": version}
    unknown_of_processes: set[str] = set()
    if wanted < (1, 1):
        written = _without(written, _SINCE_1_1)
        unknown_of_processes.add("owner")
    if wanted < (1, 2):
        unknown_of_processes.update(_OF_PROCESSES_SINCE_1_2)
    if unknown_of_processes:
        processes = written.get("processes", ())
        written["processes"] = [_without(process, unknown_of_processes) for process in processes]
    if wanted > own:
        written["not_invented_yet"] = {"answer": 42}
    return written


def _without(document: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}
