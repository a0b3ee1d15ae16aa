"""What trends find, how late, and what they find where there is nothing. No test: it prints.

    python -m tests.fleet.trends.trial [hours] [nodes] [seed]

Simulated nodes of eight H100 run jobs that come and go, sampled once a minute. The simulator's devices are
too good to be true, so three things are added to what they show: sensors waver, the room gets warmer and
cooler over hours, and a job draws more or less power for the same utilisation as it goes through its phases.
"""

import asyncio
import math
import random
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median

import yaml

from accelscope.fleet.cluster_view import ClusterView
from accelscope.fleet.history import History
from accelscope.fleet.report import NodeReport, SourceKind
from accelscope.fleet.store.events import EventKind
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.trends import Trends
from accelscope.model import Device, PodUsage, Snapshot
from accelscope.simulate.description import read_node
from accelscope.simulate.faults import Fault, FaultKind, FaultLog
from accelscope.simulate.fleet.node import NodeModel
from accelscope.simulate.fleet.own import Agent
from accelscope.simulate.fleet.usage import Ledger

DEVICES = 8
SHAPES = ("steady", "wave")
EACH = 10  # nodes for each fault and shape
MINUTE = 60.0
START = 1_700_000_040.0
GIB = 1 << 30
FAULT_MINUTE = 90
WATCHED_MINUTES = 120  # from then on
VICTIM = 3  # index of the device that a fault befalls
VICTIM_JOB = "victim"  # the job that runs there
AGENT = Agent(version="1.0", interval_seconds=10.0, started_at=START)


@dataclass(frozen=True)
class FaultCase:
    """What is done to the device, by minutes since it began; or to the node model."""

    name: str
    whole_node: bool = False  # its job runs on all devices of the node
    device: Callable[[Device, float], Device] = lambda device, minutes: device
    pod: Callable[[PodUsage, float], PodUsage] = lambda usage, minutes: usage
    kind: FaultKind | None = None
    hangs: bool = False
    on_pod: bool = False  # where it should be found


def _hotter(device: Device, minutes: float) -> Device:
    return replace(device, temperature_celsius=_plus(device.temperature_celsius, min(20.0, 2 * minutes)))


def _warmer(device: Device, minutes: float) -> Device:
    return replace(device, temperature_celsius=_plus(device.temperature_celsius, min(12.0, 0.2 * minutes)))


def _braked(device: Device, _: float) -> Device:
    return replace(device, power_watts=None if device.power_watts is None else 0.55 * device.power_watts)


def _leaking(device: Device, minutes: float) -> Device:
    used = device.memory_used_bytes
    return replace(device, memory_used_bytes=None if used is None else used + int(minutes / 60 * 4 * GIB))


def _leaking_pod(usage: PodUsage, minutes: float) -> PodUsage:
    used = usage.memory_used_bytes
    return replace(usage, memory_used_bytes=None if used is None else used + int(minutes / 60 * 4 * GIB))


FAULTS = (
    FaultCase("overheating: 2 °C a minute, up to 20", device=_hotter),
    FaultCase("the same, the job has all eight devices", device=_hotter, whole_node=True),
    FaultCase("slow overheating: 12 °C within an hour", device=_warmer),
    FaultCase("at its slowdown temperature, throttled", kind=FaultKind.HOT),
    FaultCase("power brake: 45 % less power", device=_braked),
    FaultCase("storm of uncorrected memory errors", kind=FaultKind.ECC_STORM),
    FaultCase("hung job", hangs=True, on_pod=True),
    FaultCase("memory leak: 4 GiB an hour", device=_leaking, pod=_leaking_pod, on_pod=True),
)


def _plus(value: float | None, more: float) -> float | None:
    return None if value is None else value + more


@dataclass(frozen=True)
class Job:
    """`begin` and `until` in minutes."""

    begin: float
    until: float
    process: dict[str, object]


def _jobs(node: str, chance: random.Random, minutes: int, device: int) -> Iterator[Job]:
    """One after the other, with pauses, as schedulers hand out a device."""
    at = -chance.uniform(0, 60)
    number = 0
    while at < minutes:
        lasts = chance.choice([20, 45, 90, 180, 400]) * chance.uniform(0.7, 1.3)
        load = {
            "shape": chance.choice(["steady", "steady", "wave", "bursty"]),
            "level": round(chance.uniform(0.3, 0.98), 2),
            "period_seconds": round(chance.choice([37, 130, 410, 1500, 4000]) * chance.uniform(0.8, 1.2)),
        }
        name = f"{node}-{device}-{number}"
        yield Job(at, at + lasts, _process(name, device, f"{chance.randrange(4, 60)}GiB", load))
        at += lasts + chance.choice([1, 1, 5, 40])
        number += 1


def _process(
    name: str, device: int, memory: str, load: dict[str, object], namespace: str | None = None
) -> dict[str, object]:
    cgroup = {"kind": "pod", "namespace": namespace or f"team-{device % 3}", "pod": name}
    return {"name": name, "device": device, "memory": memory, "load": load, "cgroup": cgroup}


def _all_jobs(
    node: str, chance: random.Random, minutes: int, case: FaultCase | None, shape: str
) -> Iterator[Job]:
    name = f"{VICTIM_JOB}-{node}"
    load = {"shape": shape, "level": 0.9, "period_seconds": 410}
    for device in range(DEVICES):
        if case is not None and (case.whole_node or device == VICTIM):
            yield Job(-math.inf, math.inf, _process(name, device, "40GiB", load, namespace="team-0"))
        else:
            yield from _jobs(node, chance, minutes, device)


class Node:
    def __init__(
        self, name: str, seed: int, minutes: int, case: FaultCase | None = None, shape: str = ""
    ) -> None:
        chance = random.Random(seed)
        self.name = name
        self.shape = shape  # of the load of the job that a fault befalls
        self.case = case
        self.victim = f"{VICTIM_JOB}-{name}"
        self._chance = chance
        self._seed = chance.randrange(1, 100_000)
        self._jobs = list(_all_jobs(name, chance, minutes, case, shape))
        self._running: list[Job] | None = None
        self._ledger = Ledger()
        self._phases: dict[int, tuple[int, float]] = {}
        self._energy: dict[int, tuple[NodeModel, float, float]] = {}  # by the simulator, and ours

    def load_of(self, name: str) -> object:
        return next((job.process["load"] for job in self._jobs if job.process["name"] == name), None)

    def snapshot(self, minute: int) -> Snapshot:
        at, case = minute * MINUTE, self.case
        faults: tuple[Fault, ...] = ()
        if case is not None and case.kind is not None:
            faults = (Fault(kind=case.kind, device=VICTIM, begin=FAULT_MINUTE * MINUTE),)
        model = self._model_at(minute)
        snapshot, self._ledger = model.snapshot(at, START + at, self._ledger, FaultLog(faults))
        devices = tuple(self._real(device, minute) for device in snapshot.devices)
        self.victim_device = next(device.id for device in devices if device.index == VICTIM)
        usages, since = snapshot.pod_usages, minute - FAULT_MINUTE
        if case is not None and since >= 0:
            devices = tuple(case.device(d, since) if d.index == VICTIM else d for d in devices)
            usages = tuple(case.pod(u, since) if u.pod == self.victim else u for u in usages)
        return replace(snapshot, devices=devices, pod_usages=usages)

    def _model_at(self, minute: int) -> NodeModel:
        """The simulator shares a device out among all jobs that it ever has: so it is given those of now."""
        running = [job for job in self._jobs if job.begin <= minute < job.until]
        if running != self._running:
            cards = {"driver_version": "590.48.01", "devices": [{"model": "h100-80gb", "count": DEVICES}]}
            spec = {
                "node": "n",
                "seed": self._seed,
                "nvidia": cards,
                "processes": [j.process for j in running],
            }
            hangs = self.case is not None and self.case.hangs
            idle = {self.victim: ((FAULT_MINUTE * MINUTE, 1e9),)} if hangs else {}
            self._running = running
            self._model = NodeModel(read_node(yaml.safe_dump(spec)), AGENT, idle=idle)
        return self._model

    def _real(self, device: Device, minute: int) -> Device:
        until, intensity = self._phases.get(device.index or 0, (0, 1.0))
        if minute >= until:
            until, intensity = minute + self._chance.randrange(15, 90), self._chance.uniform(0.75, 1.0)
            self._phases[device.index or 0] = until, intensity
        if device.power_watts is None or device.temperature_celsius is None:
            return device
        saved = (1 - intensity) * max(0.0, device.power_watts - 70)
        joules = self._joules(device, saved)
        room = 2.5 * math.sin(minute / 97 + zlib.crc32(self.name.encode()) % 7)
        return replace(
            device,
            power_watts=device.power_watts - saved + self._chance.gauss(0, 4),
            energy_joules=joules,
            temperature_celsius=round(
                device.temperature_celsius - saved / 12 + room + self._chance.gauss(0, 0.8)
            ),
        )

    def _joules(self, device: Device, saved: float) -> float:
        """The simulator's counter is of the jobs that it was given: it jumps when they are others."""
        index, told, watts = device.index or 0, device.energy_joules or 0.0, device.power_watts or 0.0
        model, before, ours = self._energy.get(index, (None, 0.0, 0.0))
        drawn = told - before if model is self._model else MINUTE * watts
        ours += max(0.0, drawn - MINUTE * saved)
        self._energy[index] = self._model, told, ours
        return ours


def _nodes(count: int, minutes: int, seed: int) -> Iterator[Node]:
    for number in range(count):
        yield Node(f"well-{number:03d}", seed + number, minutes)
    for place, case in enumerate(FAULTS):
        for number in range(EACH):
            for shape in SHAPES:
                own = seed + 10_000 + 1000 * place + 100 * SHAPES.index(shape) + number
                yield Node(f"fault-{place}-{shape}-{number}", own, minutes, case, shape)


async def _run(hours: float, count: int, seed: int) -> None:
    minutes = int(hours * 60)
    now = START
    store = FleetStore(clock=lambda: now)
    store.declare([ClusterView(id="trial", reachable=True)])
    history = History()
    trends = Trends(history)
    nodes = list(_nodes(count, minutes, seed))
    for minute in range(minutes):
        now = START + minute * MINUTE
        for node in nodes:
            if node.case is None or minute <= FAULT_MINUTE + WATCHED_MINUTES:
                report = NodeReport(
                    node=node.name, source=SourceKind.AGENTS, taken_at=now, snapshot=node.snapshot(minute)
                )
                store.take("trial", report)
        while store.tick(now):
            pass
        await history.record(store, now)
        await trends.update(store)
    by_name = {node.name: node for node in nodes}
    _print_found(store, by_name)
    _print_false(store, by_name, count, minutes)


def _began(store: FleetStore) -> Iterator[tuple[str, bool, float, str]]:
    """Node, whether of a pod, minute and text."""
    for event in store.events.after(0):
        if event.kind is EventKind.UNUSUAL_BEGAN:
            yield event.node or "", event.pod is not None, (event.at - START) / MINUTE, event.text


def _print_found(store: FleetStore, nodes: Mapping[str, Node]) -> None:
    first: dict[str, tuple[float, str]] = {}
    for node, of_pod, minute, text in _began(store):
        if node.startswith("fault") and minute >= FAULT_MINUTE:
            case = FAULTS[int(node.split("-")[1])]
            who = f"team-0/{nodes[node].victim}" if case.on_pod else nodes[node].victim_device
            if of_pod == case.on_pod and text.startswith(f"{who}: "):
                first.setdefault(node, (minute - FAULT_MINUTE, text))
    for place, case in enumerate(FAULTS):
        for shape in SHAPES:
            here = [late for node, late in first.items() if node.startswith(f"fault-{place}-{shape}-")]
            late = [minutes for minutes, _ in here]
            when = f"after {median(late):.0f} minutes, the last after {max(late):.0f}" if late else ""
            said = here[0][1].partition(": ")[2] if here else ""
            print(f"{case.name:42} {shape:6} {len(late):2} of {EACH} {when:42} {said}")


def _print_false(store: FleetStore, nodes: Mapping[str, Node], count: int, minutes: int) -> None:
    """Each with the load of its job, where it is a pod's."""
    device_hours = count * DEVICES * minutes / 60
    alarms: dict[str, list[str]] = defaultdict(list)
    for node, of_pod, minute, text in _began(store):
        if node.startswith("well"):
            who, _, said = text.partition(": ")
            load = nodes[node].load_of(who.partition("/")[2]) if of_pod else ""
            kind = ("pod: " if of_pod else "device: ") + said.split(" ")[0]
            alarms[kind].append(f"{node} minute {minute:.0f}: {said} {load}")
    total = sum(map(len, alarms.values()))
    print(f"\n{device_hours:.0f} device-hours without a fault: {total} alarms, ", end="")
    print(f"{1000 * total / device_hours:.2f} for each 1,000 device-hours")
    for kind, said_of in sorted(alarms.items()):
        print(f"  {len(said_of)} {kind}", *said_of, sep="\n    ")


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(
        _run(
            float(given[0]) if given else 8,
            int(given[1]) if len(given) > 1 else 40,
            int(given[2]) if len(given) > 2 else 1,
        )
    )
