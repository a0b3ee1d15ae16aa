"""What nodes of one kind show, instant by instant, in a form that any of them can be made from.

A fleet has thousands of nodes of a few kinds. Of each kind some variants have dynamics of their own; all
other nodes show what a variant shows at another time, under ids of their own. So a node's document is the
variant's text with the node's tag and time put in, which costs a hundredth of making it.
"""

import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from accelscope.model.wire import snapshot_document
from accelscope.simulate.faults import FaultLog
from accelscope.simulate.fleet.annotation import npu_metrics
from accelscope.simulate.fleet.names import Names
from accelscope.simulate.fleet.node import NodeModel, named
from accelscope.simulate.fleet.own import Agent
from accelscope.simulate.fleet.usage import Ledger
from accelscope.simulate.host import CLOCK_TICKS
from accelscope.simulate.spec import NodeSpec
from accelscope.simulate.workload import boot_time

WINDOW = 4  # ticks by which nodes of one variant may be apart
# What stands in a variant's text for the node's own. None of it needs escaping, and nothing else has it.
TAG = "~~tag~"
_NAME = "~node~"
_NOW = 4_102_444_800.125  # a time of which there is no other: the year 2100
# When a process started, which is in the months before that.
_START = re.compile(r'(?<="started_at":)(4[01]\d{8}(?:\.\d+)?)')


@dataclass(frozen=True, slots=True)
class Frame:
    """One instant of a variant."""

    head: bytes  # up to the node's name
    # Cut where the start of a process is due, inside where the time is, and inside that where the tag is.
    pieces: tuple[tuple[tuple[bytes, ...], ...], ...]
    starts: tuple[int, ...]  # of those processes, in ticks since boot
    ledger: Ledger
    annotation: str | None  # npu-metrics, with its time to be put in

    def document(self, name: str, tag: str, now: float, booted: int) -> bytes:
        """Of the node that was booted then, in seconds since the epoch."""
        mark, time = tag.encode(), f"{now:.3f}".encode()
        text = [self.head, name.encode()]
        for stretch, start in zip_longest(self.pieces, self.starts):
            text.append(time.join([mark.join(piece) for piece in stretch]))
            if start is not None:
                text.append(b"%r" % ((booted * CLOCK_TICKS + start) / CLOCK_TICKS))
        return b"".join(text)


class Variant:
    """Simulated time goes in ticks, one for each reading that an agent makes."""

    def __init__(self, spec: NodeSpec, seed: int, agent: Agent) -> None:
        self.spec = named(spec, name=_NAME, seed=seed)
        self.agent = agent
        self._model = NodeModel(self.spec, agent, Names(TAG))
        self._frames: OrderedDict[int, Frame] = OrderedDict()
        self._last, self._ledger = -1, Ledger()
        self._readings: OrderedDict[tuple[str, int], tuple[Any, ...]] = OrderedDict()

    @property
    def model(self) -> NodeModel:
        return self._model

    @property
    def has_likenesses(self) -> bool:
        """Whether other nodes can be made from it: not where its text tells when its faults were, which is
        another time for each of them."""
        return not (self.spec.faults and "nvidia" in self.spec.vendors)

    def frame(self, tick: int) -> Frame:
        """Of one that was asked for before, or of a later one."""
        if tick - self._last > WINDOW:  # nobody asked for a while
            self._last = tick - WINDOW
        while self._last < tick:
            self._last += 1
            self._frames[self._last] = self._made(self._last)
        while len(self._frames) > 2 * WINDOW:
            self._frames.popitem(last=False)
        return self._frames[tick] if tick in self._frames else next(iter(self._frames.values()))

    def readings(self, vendor: str, tick: int) -> tuple[Any, ...]:
        """In the vendor's own terms."""
        known = self._readings.get((vendor, tick))
        if known is None:
            known = self._model.readings(vendor, self._at(tick), 0.0, FaultLog(self.spec.faults))
            self._readings[vendor, tick] = known
            while len(self._readings) > 2 * WINDOW:
                self._readings.popitem(last=False)
        return known

    def _at(self, tick: int) -> float:
        return tick * self.agent.interval_seconds

    def _made(self, tick: int) -> Frame:
        snapshot, self._ledger = self._model.snapshot(
            self._at(tick), _NOW, self._ledger, FaultLog(self.spec.faults)
        )
        text = json.dumps(snapshot_document(snapshot), separators=(",", ":"))
        head, _, rest = text.partition(_NAME)
        stretches = _START.split(rest)  # every second one is a time
        booted = boot_time(self.spec.seed, _NOW - self._at(tick))
        return Frame(
            head.encode(),
            tuple(_cut(stretch) for stretch in stretches[::2]),
            tuple(round((float(start) - booted) * CLOCK_TICKS) for start in stretches[1::2]),
            self._ledger,
            npu_metrics(snapshot.devices),
        )


def _cut(stretch: str) -> tuple[tuple[bytes, ...], ...]:
    """Where the time is due, and inside where the tag is."""
    return tuple(tuple(part.encode() for part in chunk.split(TAG)) for chunk in stretch.split(str(_NOW)))
