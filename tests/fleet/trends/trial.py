"""Detection rate, delay and false alarms of the anomaly detection. Not a test: it prints figures.

    python -m tests.fleet.trends.trial [hours] [nodes] [seed]

Nodes of eight H100 run jobs that come and go, sampled once a minute. They play recordings of the agent on
simulated nodes, which are made first and kept in the user's cache (ten minutes on two CPUs for eight hours).
Simulated devices are too regular, so three effects are added to their readings: noise of sensors, a room
temperature that changes over hours, and jobs whose power at the same utilisation changes between phases.
"""

import asyncio
import itertools
import json
import math
import random
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median

import yaml

from accelscope.fleet.history import FleetHistory
from accelscope.fleet.rows import ClusterView, NodeReport, SourceKind
from accelscope.fleet.store.events import EventKind
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.trends import Trends
from accelscope.model import Device, PodUsage, Snapshot
from accelscope.model.wire import read_snapshot
from accelscope.simulate.faults import FaultKind
from accelscope.simulate.fleet.recording import Recording, RecordingRequest, Template, recorded, tag_of

DEVICES = 8
SHAPES = ("steady", "wave")
EACH = 10  # nodes for each fault and shape
MINUTE = 60.0
START = 1_700_000_040.0
GIB = 1 << 30
FAULT_MINUTE = 90
WATCHED_MINUTES = 120  # from then on
VICTIM = 3  # index of the device with the fault
VICTIM_JOB = "victim"  # the job that runs there
WELL_DAYS, FAULTY_DAYS = 8, 2  # recordings without a fault, and with each fault and shape


@dataclass(frozen=True)
class FaultCase:
    """Changes of the played device, by minutes since the fault began, or of the simulated node."""

    name: str
    whole_node: bool = False  # its job runs on all devices of the node
    device: Callable[[Device, float], Device] = lambda device, minutes: device
    pod: Callable[[PodUsage, float], PodUsage] = lambda usage, minutes: usage
    kind: FaultKind | None = None
    hangs: bool = False
    on_pod: bool = False  # whether the pod should be marked


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


def _jobs(chance: random.Random, minutes: int, device: int) -> Iterator[Job]:
    """Jobs one after the other, with pauses, as a scheduler places them."""
    at = -chance.uniform(0, 60)
    number = 0
    while at < minutes:
        lasts = chance.choice([20, 45, 90, 180, 400]) * chance.uniform(0.7, 1.3)
        load = {
            "shape": chance.choice(["steady", "steady", "wave", "bursty"]),
            "level": round(chance.uniform(0.3, 0.98), 2),
            "period_seconds": round(chance.choice([37, 130, 410, 1500, 4000]) * chance.uniform(0.8, 1.2)),
        }
        name = f"job-{device}-{number}"
        yield Job(at, at + lasts, _process(name, device, f"{chance.randrange(4, 60)}GiB", load))
        at += lasts + chance.choice([1, 1, 5, 40])
        number += 1


def _process(
    name: str, device: int, memory: str, load: dict[str, object], namespace: str | None = None
) -> dict[str, object]:
    cgroup = {"kind": "pod", "namespace": namespace or f"team-{device % 3}", "pod": name}
    return {"name": name, "device": device, "memory": memory, "load": load, "cgroup": cgroup}


def _all_jobs(chance: random.Random, minutes: int, case: FaultCase | None, shape: str) -> Iterator[Job]:
    load = {"shape": shape, "level": 0.9, "period_seconds": 410}
    for device in range(DEVICES):
        if case is not None and (case.whole_node or device == VICTIM):
            yield Job(-math.inf, math.inf, _process(VICTIM_JOB, device, "40GiB", load, namespace="team-0"))
        else:
            yield from _jobs(chance, minutes, device)


class Day:
    """The readings of a node: several nodes play the recording of one day."""

    def __init__(self, seed: int, minutes: int, case: FaultCase | None = None, shape: str = "") -> None:
        chance = random.Random(seed)
        self._seed = chance.randrange(1, 100_000)
        self._jobs = list(_all_jobs(chance, minutes, case, shape))
        self._case = case
        self._minutes = minutes

    def load_of(self, name: str) -> object:
        return next((job.process["load"] for job in self._jobs if job.process["name"] == name), None)

    def request(self) -> RecordingRequest:
        faults, begin = [], FAULT_MINUTE * MINUTE
        idle: tuple[tuple[str, float, float], ...] = ()
        if self._case is not None and self._case.kind is not None:
            faults = [{"kind": str(self._case.kind), "device": VICTIM, "from": begin}]
        if self._case is not None and self._case.hangs:
            idle = ((VICTIM_JOB, begin, 1e9),)
        cards = {"driver_version": "590.48.01", "devices": [{"model": "h100-80gb", "count": DEVICES}]}
        node = {
            "node": "n",
            "seed": self._seed,
            "nvidia": cards,
            "processes": [self._timed(job) for job in self._jobs if job.until > 0],
            "faults": faults,
        }
        return RecordingRequest(yaml.safe_dump(node), self._seed, MINUTE, self._minutes, idle)

    def _timed(self, job: Job) -> dict[str, object]:
        """Omits times that are not in the recording, or at its end."""
        begin = {"from": job.begin * MINUTE} if job.begin > 0 else {}
        until = {"until": job.until * MINUTE} if job.until < self._minutes - 5 else {}
        return {**job.process, **begin, **until}


class Node:
    def __init__(
        self, number: int, name: str, day: Day, recording: Recording, case: FaultCase | None = None
    ) -> None:
        self.name = name
        self.case = case
        self.day = day
        self._tag = tag_of(number)
        self.victim = f"{VICTIM_JOB}-{self._tag}"
        self._recording = recording
        self._chance = random.Random(name)
        self._phases: dict[int, tuple[int, float]] = {}
        self._saved: dict[int, float] = defaultdict(float)  # joules

    def load_of(self, pod: str) -> object:
        return self.day.load_of(pod.removesuffix(f"-{self._tag}"))

    def snapshot(self, minute: int) -> Snapshot:
        case, at = self.case, START + minute * MINUTE
        template = Template(self._recording.frames[minute].document(), self._recording.identities)
        shift = at - template.taken_at
        snapshot = read_snapshot(json.loads(template.fill(self.name, self._tag, moving=shift, fixed=shift)))
        devices = tuple(self._real(device, minute) for device in snapshot.devices)
        self.victim_device = next(device.id for device in devices if device.index == VICTIM)
        usages, since = snapshot.pod_usages, minute - FAULT_MINUTE
        if case is not None and since >= 0:
            devices = tuple(case.device(d, since) if d.index == VICTIM else d for d in devices)
            usages = tuple(case.pod(u, since) if u.pod == self.victim else u for u in usages)
        return replace(snapshot, devices=devices, pod_usages=usages)

    def _real(self, device: Device, minute: int) -> Device:
        index = device.index or 0
        until, intensity = self._phases.get(index, (0, 1.0))
        if minute >= until:
            until, intensity = minute + self._chance.randrange(15, 90), self._chance.uniform(0.75, 1.0)
            self._phases[index] = until, intensity
        if device.power_watts is None or device.temperature_celsius is None or device.energy_joules is None:
            return device
        saved = (1 - intensity) * max(0.0, device.power_watts - 70)
        self._saved[index] += MINUTE * saved
        room = 2.5 * math.sin(minute / 97 + zlib.crc32(self.name.encode()) % 7)
        return replace(
            device,
            power_watts=device.power_watts - saved + self._chance.gauss(0, 4),
            energy_joules=device.energy_joules - self._saved[index],
            temperature_celsius=round(
                device.temperature_celsius - saved / 12 + room + self._chance.gauss(0, 0.8)
            ),
        )


def _nodes(count: int, minutes: int, seed: int) -> Iterator[Node]:
    well = [Day(seed + number, minutes) for number in range(min(count, WELL_DAYS))]
    watched = min(minutes, FAULT_MINUTE + WATCHED_MINUTES + 1)
    faulty: dict[tuple[int, str, int], Day] = {}
    for place, case in enumerate(FAULTS):
        for shape in SHAPES:
            for number in range(FAULTY_DAYS):
                own = seed + 10_000 + 1000 * place + 100 * SHAPES.index(shape) + number
                faulty[place, shape, number] = Day(own, watched, case, shape)
    days = [*well, *faulty.values()]
    requests = [day.request() for day in days]
    recordings = dict(zip(days, recorded(requests, lambda line: print(line, flush=True)), strict=True))
    numbers = itertools.count(1)
    for number in range(count):
        day = well[number % len(well)]
        yield Node(next(numbers), f"well-{number:03d}", day, recordings[day])
    for place, case in enumerate(FAULTS):
        for number in range(EACH):
            for shape in SHAPES:
                day = faulty[place, shape, number % FAULTY_DAYS]
                yield Node(next(numbers), f"fault-{place}-{shape}-{number}", day, recordings[day], case)


async def _run(hours: float, count: int, seed: int) -> None:
    minutes = int(hours * 60)
    now = START
    store = FleetStore(clock=lambda: now)
    store.declare([ClusterView(id="trial", reachable=True)])
    history = FleetHistory()
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
            text = here[0][1].partition(": ")[2] if here else ""
            print(f"{case.name:42} {shape:6} {len(late):2} of {EACH} {when:42} {text}")


def _print_false(store: FleetStore, nodes: Mapping[str, Node], count: int, minutes: int) -> None:
    """Each with the load of its job if it belongs to a pod."""
    device_hours = count * DEVICES * minutes / 60
    alarms: dict[str, list[str]] = defaultdict(list)
    for node, of_pod, minute, text in _began(store):
        if node.startswith("well"):
            who, _, reason = text.partition(": ")
            load = nodes[node].load_of(who.partition("/")[2]) if of_pod else ""
            kind = ("pod: " if of_pod else "device: ") + reason.split(" ")[0]
            alarms[kind].append(f"{node} minute {minute:.0f}: {reason} {load}")
    total = sum(map(len, alarms.values()))
    print(f"\n{device_hours:.0f} device-hours without a fault: {total} alarms, ", end="")
    print(f"{1000 * total / device_hours:.2f} for each 1,000 device-hours")
    for kind, texts in sorted(alarms.items()):
        print(f"  {len(texts)} {kind}", *texts, sep="\n    ")


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(
        _run(
            float(given[0]) if given else 8,
            int(given[1]) if len(given) > 1 else 40,
            int(given[2]) if len(given) > 2 else 1,
        )
    )
