"""Detection rate, delay and false alarms of the anomaly detection. Not a test: it prints figures.

    python -m tests.fleet.trends.trial              on the seeds of the evaluation
    python -m tests.fleet.trends.trial SEED [part]  on another seed, with this part of the nodes

The nodes are those of `nodes.py`. Detectors are developed on other seeds than those in `seeds.py`.
"""

import asyncio
import math
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.fleet.trends.nodes import (
    DEVICES,
    FAULT_MINUTE,
    START,
    VICTIM,
    Fault,
    Load,
    Node,
    faulty_nodes,
    well_nodes,
)
from tests.fleet.trends.seeds import EVALUATION

from accelscope.fleet.history import FleetHistory
from accelscope.fleet.rows import ClusterView, NodeReport, SourceKind
from accelscope.fleet.store.events import EventKind
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.trends import Trends

WATCHED_MINUTES, WATCHED_LEAK_MINUTES = 180, 360  # after the fault
WELL_NODES, WELL_HOURS = 53, 24  # for each load: 10,176 device-hours
FAULTY_NODES = 20  # for each fault and load
_HOT = ("temperature", "throttled")
_WORDS = {  # one of them is in the text of an alarm that names the fault
    Fault.FAST: _HOT,
    Fault.FAST_WHOLE: _HOT,
    Fault.SLOW: _HOT,
    Fault.SLOW_WHOLE: _HOT,
    Fault.THROTTLED: _HOT,
    Fault.BRAKE: ("power",),
    Fault.BRAKE_WHOLE: ("power",),
    Fault.ECC: ("uncorrected memory error",),
    Fault.HUNG: ("idle",),
    Fault.LEAK: ("memory grows",),
}


@dataclass(frozen=True)
class Alarm:
    node: str
    minute: int
    subject: str
    text: str

    @property
    def kind(self) -> str:
        """Whether of a pod or of a device, and the first word of the text, which differs by detector."""
        first = next(word for word in self.text.split(" ") if not word.isdigit())
        return f"{'pod' if '/' in self.subject else 'device'}: {first}"


@dataclass
class Result:
    device_hours: float = 0.0
    false: list[Alarm] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    faults: int = 0


async def watch(nodes: list[Node], minutes: int) -> list[Alarm]:
    """The alarms that begin on these nodes."""
    now = START
    store = FleetStore(clock=lambda: now)
    store.declare([ClusterView(id="trial", reachable=True)])
    history = FleetHistory()
    trends = Trends(history)
    alarms, seen = [], 0
    for minute in range(minutes):
        now = START + minute * 60
        for node in nodes:
            snapshot = node.snapshot(minute)
            if snapshot is not None:
                report = NodeReport(
                    node=node.name,
                    source=SourceKind.AGENTS,
                    taken_at=now,
                    snapshot=snapshot,
                    document=b"x",  # of the page
                )
                store.take("trial", report)
        while store.tick(now):
            pass
        await history.record(store, now)
        await trends.update(store)
        for event in store.events.after(seen):
            seen = store.events.last_id
            if event.kind is EventKind.UNUSUAL_BEGAN:
                subject, _, text = event.text.partition(": ")
                alarms.append(Alarm(event.node or "", minute, subject, text))
    return alarms


def well(seed: int, load: Load, count: int, minutes: int) -> Result:
    nodes = list(well_nodes(seed, load, count, minutes))
    alarms = asyncio.run(watch(nodes, minutes))
    return Result(device_hours=count * DEVICES * minutes / 60, false=alarms)


def faulty(seed: int, fault: Fault, count: int) -> dict[Load, Result]:
    minutes = FAULT_MINUTE + (WATCHED_LEAK_MINUTES if fault is Fault.LEAK else WATCHED_MINUTES)
    nodes = {node.name: node for load in Load for node in faulty_nodes(seed, load, fault, count, minutes)}
    first: dict[str, int] = {}
    for alarm in asyncio.run(watch(list(nodes.values()), minutes)):
        victims = (f"{nodes[alarm.node].model.name} #{VICTIM}", f"{alarm.node}/victim")
        named = any(word in alarm.text for word in _WORDS[fault])
        if alarm.minute >= FAULT_MINUTE and alarm.subject in victims and named:
            first.setdefault(alarm.node, alarm.minute - FAULT_MINUTE)
    results = {load: Result(faults=count) for load in Load}
    for name, delay in first.items():
        results[nodes[name].load].delays.append(delay)
    return results


def quantile(values: list[int], share: float) -> int:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def poisson_interval(count: int) -> tuple[float, float]:
    """The exact 95 % interval of the mean of a Poisson variable that was observed once."""

    def solve(tail: float, upper: bool) -> float:
        low, high = 0.0, count + 10.0 * math.sqrt(count + 1) + 10
        for _ in range(80):
            middle = (low + high) / 2
            up_to = count if upper else count - 1
            below = sum(
                math.exp(k * math.log(middle) - middle - math.lgamma(k + 1)) for k in range(up_to + 1)
            )
            low, high = (middle, high) if (below > tail if upper else 1 - below < tail) else (low, middle)
        return (low + high) / 2

    return (solve(0.025, False) if count else 0.0), solve(0.025, True)


def _rate(count: int, hours: float) -> str:
    low, high = (1000 * limit / hours for limit in poisson_interval(count))
    return f"{count} in {hours:.0f} h: {1000 * count / hours:.2f} per 1,000 h (95 %: {low:.2f} to {high:.2f})"


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else EVALUATION
    part = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    began = time.process_time()
    print(f"seed {seed}, {part:g} of the nodes")
    for fault in Fault:
        for load, found in faulty(seed, fault, max(1, round(FAULTY_NODES * part))).items():
            delay = ""
            if found.delays:
                delay = f"after {quantile(found.delays, 0.5)}, 90 %: {quantile(found.delays, 0.9)} minutes"
            print(f"{fault:42} {load:6} {len(found.delays):2} of {found.faults} {delay}", flush=True)
    hours, everything = 0.0, []
    for load in Load:
        result = well(seed, load, max(1, round(WELL_NODES * part)), WELL_HOURS * 60)
        print(f"\n{load}: {_rate(len(result.false), result.device_hours)}", flush=True)
        for kind, count in sorted(Counter(alarm.kind for alarm in result.false).items()):
            print(f"  {kind}: {_rate(count, result.device_hours)}")
        for alarm in result.false[:40]:
            print(f"    {alarm.node} minute {alarm.minute}: {alarm.subject}: {alarm.text}")
        hours += result.device_hours
        everything += result.false
    print(f"\nall loads: {_rate(len(everything), hours)}")
    for kind, count in sorted(Counter(alarm.kind for alarm in everything).items()):
        print(f"  {kind}: {_rate(count, hours)}")
    print(f"{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
