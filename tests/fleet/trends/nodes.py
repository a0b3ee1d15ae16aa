"""A physical model of nodes, for trials of the anomaly detection. It shares nothing with the detectors.

A device has three thermal stages (die, heat sink, chassis), takes in air that its upstream neighbour and
the room have warmed, and is cooled by fans that follow the hottest device of the node. Its sensor is
quantised to 1 °C. Jobs come and go on one, four or eight devices; their load is steady, in waves or in
bursts, and moves in steps of ten seconds. Minutes are missing, agents restart, counters are reset and jobs
crash.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from accelscope.model import (
    AgentState,
    Device,
    EccCount,
    ErrorCount,
    Health,
    HealthState,
    PodUsage,
    Snapshot,
    Throttle,
    Vendor,
)

Values = npt.NDArray[np.float64]

DEVICES = 8
STEPS = 6  # per minute
_SECONDS = 60.0 / STEPS
GIB = 1 << 30
START = 1_700_000_040.0
VICTIM = 3  # index of the device with the fault
VICTIM_POD = "victim"
FAULT_MINUTE = 210


class Load(StrEnum):
    STEADY = "steady"
    WAVE = "wave"
    BURST = "burst"


class Fault(StrEnum):
    FAST = "overheating: 2 °C a minute, up to 20"
    FAST_WHOLE = "the same, the job has all eight devices"
    SLOW = "slow overheating: 12 °C within an hour"
    SLOW_WHOLE = "the same, the job has all eight devices "
    THROTTLED = "at the slowdown temperature, throttled"
    BRAKE = "power brake: 45 % less power"
    BRAKE_WHOLE = "the same, the job has all eight devices  "
    ECC = "storm of uncorrected memory errors"
    HUNG = "hung job"
    LEAK = "memory leak: 4 GiB of 80 an hour"

    @property
    def whole_node(self) -> bool:
        return self in (Fault.FAST_WHOLE, Fault.SLOW_WHOLE, Fault.BRAKE_WHOLE)


@dataclass(frozen=True, kw_only=True)
class Model:
    name: str
    idle: float  # watts
    limit: float
    memory: int  # GiB
    rise: float  # degrees Celsius above the air at the limit, with fans at 70 %
    fans: bool = True  # without, a pump with constant flow cools
    energy_counter: bool = True
    slowdown: float = 90.0


MODELS = (
    Model(name="NVIDIA H100 80GB HBM3", idle=75, limit=700, memory=80, rise=38),
    Model(name="NVIDIA A100-SXM4-80GB", idle=55, limit=400, memory=80, rise=36),
    Model(name="AMD Instinct MI300X", idle=140, limit=750, memory=192, rise=40),
    Model(name="NVIDIA H200, liquid-cooled", idle=75, limit=700, memory=141, rise=24, fans=False),
    Model(name="Ascend 910B", idle=90, limit=400, memory=64, rise=34, energy_counter=False),
)


@dataclass(kw_only=True)
class _Job:
    pod: str
    devices: list[int]
    begin: int  # minute
    end: int
    crashes: bool = False


@dataclass(kw_only=True)
class _Readings:
    """Minutes x devices of a node."""

    power: Values
    energy: Values
    temperature: Values
    utilization: Values
    memory: Values  # GiB of the job
    throttled: npt.NDArray[np.object_]
    uncorrected: npt.NDArray[np.int64]
    errors: npt.NDArray[np.int64]
    job: npt.NDArray[np.int64]  # index in `jobs`; -1: none
    missing: npt.NDArray[np.bool_]  # minutes
    jobs: list[_Job] = field(default_factory=list)


class Node:
    def __init__(self, name: str, seed: int, load: Load, minutes: int, fault: Fault | None = None) -> None:
        self.name = name
        self.load = load
        self.fault = fault
        self._chance = np.random.default_rng(seed)
        self._minutes = minutes
        self.model = MODELS[self._chance.integers(len(MODELS))]
        self._readings = self._simulate()

    def device_id(self, index: int) -> str:
        return f"nvidia:{self.name}-{index}"

    # Jobs and their load

    def _jobs(self) -> list[_Job]:
        chance, jobs = self._chance, []
        size = int(chance.choice([1, 1, 4, 8]))
        groups = [list(range(first, first + size)) for first in range(0, DEVICES, size)]
        if self.fault is not None:
            devices = list(range(DEVICES)) if self.fault.whole_node else [VICTIM]
            jobs.append(_Job(pod=VICTIM_POD, devices=devices, begin=0, end=self._minutes))
            groups = [[index] for index in range(DEVICES) if index not in devices]
        for number, devices in enumerate(groups):
            at = -int(chance.integers(0, 120))
            while at < self._minutes:
                lasts = int(np.clip(chance.lognormal(np.log(150), 1.0), 10, 1500))
                if at + lasts > 0:
                    name = f"job-{number}-{len(jobs)}"
                    job = _Job(
                        pod=name, devices=devices, begin=max(at, 0), end=min(at + lasts, self._minutes)
                    )
                    job.crashes = bool(chance.random() < 0.1)
                    jobs.append(job)
                at += lasts + int(chance.choice([1, 2, 5, 30]))
        return jobs

    def _utilization(self, steps: int) -> Values:
        """Of a job, by step, 0 to 1."""
        chance = self._chance
        minutes = np.arange(steps) / STEPS
        if self.load is Load.STEADY:
            values = np.full(steps, chance.uniform(0.6, 1.0))
            at = chance.uniform(5, 60)
            while at < minutes[-1]:  # checkpoints
                values[(minutes >= at) & (minutes < at + chance.uniform(0.3, 2))] *= chance.uniform(0.0, 0.4)
                at += chance.uniform(20, 60)
        elif self.load is Load.WAVE:
            period = np.exp(chance.uniform(np.log(2), np.log(90)))
            phase = (minutes / period + chance.random()) % 1
            low, high = chance.uniform(0.05, 0.5), chance.uniform(0.7, 1.0)
            form = chance.integers(3)
            if form == 0:
                wave = (1 - np.cos(2 * np.pi * phase)) / 2
            elif form == 1:
                wave = (phase < chance.uniform(0.3, 0.8)).astype(float)
            else:
                wave = 1 - np.abs(2 * phase - 1)
            values = low + (high - low) * wave
        else:
            values, at = np.zeros(steps), 0.0
            while at < minutes[-1]:
                busy = min(chance.lognormal(np.log(6), 1.0), 120)
                values[(minutes >= at) & (minutes < at + busy)] = chance.uniform(0.3, 1.0)
                at += busy + min(chance.lognormal(np.log(3), 1.3), 360)
        return values

    def _intensity(self, steps: int) -> Values:
        """Phases of a job that draw different power at the same utilisation."""
        values = np.empty(steps)
        at = 0
        while at < steps:
            lasts = int(self._chance.uniform(15, 90) * STEPS)
            values[at : at + lasts] = self._chance.uniform(0.55, 1.0)
            at += lasts
        return values

    def _memory(self, busy: Values) -> Values:
        """GiB on each device of a job, by minute; `busy` is its load."""
        chance, room = self._chance, float(self.model.memory)
        minutes = np.arange(len(busy), dtype=float)
        base = room * chance.uniform(0.1, 0.7)
        values = base * np.minimum(1, (minutes + 1) / 3)
        kind = chance.random()
        if kind < 0.1:  # a cache fills
            values += room * chance.uniform(0.05, 0.25) * (1 - np.exp(-minutes / chance.uniform(15, 90)))
        elif kind < 0.15:  # grows and is freed
            values += room * chance.uniform(0.05, 0.2) * ((minutes / chance.uniform(20, 100)) % 1)
        elif kind < 0.2:  # loads one thing after the other
            steps = np.minimum(minutes // chance.uniform(10, 60), chance.integers(2, 6))
            values += room * chance.uniform(0.01, 0.05) * steps
        values += room * chance.uniform(0, 0.06) * busy
        values += chance.normal(0, 0.002 * room, len(busy))
        return np.asarray(np.clip(values, 0.3, room - 0.5))

    # Physics

    def _room(self, steps: int) -> Values:
        """Temperature of the air at the inlet of the node, by step."""
        chance = self._chance
        minutes = np.arange(steps) / STEPS
        day = chance.uniform(0.5, 2) * np.sin(2 * np.pi * (minutes / 1440 + chance.random()))
        cycle = chance.uniform(0.1, 1) * np.sin(2 * np.pi * (minutes / chance.uniform(12, 45)))
        drift = np.cumsum(chance.normal(0, 0.5 / np.sqrt(STEPS * 120), steps))
        events = np.zeros(steps)
        for _ in range(chance.poisson(steps / STEPS / 1440)):  # an open door, a failed cooling unit
            begin, lasts = chance.uniform(0, minutes[-1]), chance.uniform(20, 90)
            events += np.where((minutes >= begin) & (minutes < begin + lasts), chance.uniform(2, 6), 0)
        smooth = np.exp(-np.arange(10 * STEPS) / (4 * STEPS))
        events = np.convolve(events, smooth / smooth.sum())[:steps]
        return np.asarray(chance.uniform(20, 27) + day + cycle + drift + events)

    def _simulate(self) -> _Readings:
        chance, model, minutes = self._chance, self.model, self._minutes
        steps = minutes * STEPS
        busy, intensity = np.zeros((steps, DEVICES)), np.ones((steps, DEVICES))
        memory, owner = np.full((minutes, DEVICES), np.nan), np.full((minutes, DEVICES), -1)
        errors = np.zeros((minutes, DEVICES), np.int64)
        jobs = self._jobs()
        for number, job in enumerate(jobs):
            length = job.end - job.begin
            load, strength = self._utilization(length * STEPS), self._intensity(length * STEPS)
            used = self._memory(load[::STEPS])
            if self.fault is not None and job.pod == VICTIM_POD:
                used *= 0.5 * model.memory / used.max()
                if self.fault is Fault.HUNG:
                    load[FAULT_MINUTE * STEPS :] = 0
                if self.fault is Fault.LEAK:
                    used = used + np.maximum(0, np.arange(length) - FAULT_MINUTE) / 60 * 0.05 * model.memory
            for index in job.devices:
                at = slice(job.begin * STEPS, job.end * STEPS)
                busy[at, index] = load
                intensity[at, index] = np.minimum(strength * chance.normal(1, 0.04), 1)
                memory[job.begin : job.end, index] = used
                owner[job.begin : job.end, index] = number
                if job.crashes:
                    errors[job.end - 1 :, index] += int(chance.choice([1, 1, 2, 2, 5]))
        busy = np.clip(busy * chance.normal(1, 0.02, busy.shape), 0, 1)
        readings = _Readings(
            power=np.empty((minutes, DEVICES)),
            energy=np.empty((minutes, DEVICES)),
            temperature=np.empty((minutes, DEVICES)),
            utilization=busy[STEPS - 1 :: STEPS].round(2),
            memory=np.minimum(memory, model.memory - 0.5),
            throttled=np.full((minutes, DEVICES), None, object),
            uncorrected=np.zeros((minutes, DEVICES), np.int64),
            errors=errors,
            job=owner,
            missing=self._missing(),
            jobs=jobs,
        )
        self._heat(readings, busy, intensity)
        self._blips(readings)
        return readings

    def _heat(self, readings: _Readings, busy: Values, intensity: Values) -> None:
        chance, model = self._chance, self.model
        steps = len(busy)
        room = self._room(steps)
        share = model.rise / model.limit * chance.normal(1, 0.06, DEVICES)  # degrees Celsius per watt
        die, sink, chassis = 0.35 * share, 0.5 * share, 0.15 * share
        fast, slow = chance.uniform(8, 15, DEVICES), chance.uniform(60, 200, DEVICES)
        slowest = chance.uniform(600, 1500)
        mixing = chance.uniform(0.85, 1.15, DEVICES)  # of the room's changes
        from_neighbour = np.where(np.arange(DEVICES) % 2, chance.uniform(0.004, 0.015), 0.0)
        upstream = np.arange(DEVICES) - np.arange(DEVICES) % 2
        shared = chance.uniform(2, 5) / (model.limit * DEVICES)
        spans = np.array([_share(fast), _share(slow), np.full(DEVICES, _share(slowest))])
        preheat_share, fan_share = _share(40.0), _share(30.0)
        heights = np.zeros((3, DEVICES))  # of the stages, above the air
        preheat, warm, fan = np.zeros(DEVICES), 0.0, 0.5
        temperature = np.full(DEVICES, room[0] + 10)
        energy = chance.uniform(1e6, 1e9, DEVICES)
        dynamic = (model.limit - model.idle) * busy * intensity * chance.normal(1, 0.015, busy.shape)
        reference, joules = 0.0, np.zeros(steps)
        for step in range(steps):
            leakage = model.idle * (1 + 0.004 * (temperature - 45))
            power = np.minimum(dynamic[step] + leakage, model.limit * 1.02)
            since = step / STEPS - FAULT_MINUTE
            faulty = self.fault is not None and since >= 0
            if faulty and self.fault in (Fault.BRAKE, Fault.BRAKE_WHOLE):
                power[VICTIM] *= 0.55
            limited = temperature >= model.slowdown - 1
            power = np.where(limited, power * 0.6, power)
            energy += power * _SECONDS
            joules[step] = power[VICTIM]
            resistance = np.array([die, sink, chassis])
            resistance[1] *= (fan / 0.7) ** -0.7 if model.fans else 1.0
            if faulty:
                if reference == 0.0:
                    reference = float(joules[step - 90 * STEPS : step].mean())
                resistance[1, VICTIM] += self._fault_rise(since) / reference
            heights += spans * (resistance * power - heights)
            preheat += preheat_share * (from_neighbour * power[upstream] - preheat)
            warm += _share(300.0) * (shared * power.sum() * (0.7 / fan) - warm)
            temperature = room[0] + (room[step] - room[0]) * mixing + preheat + warm + heights.sum(axis=0)
            temperature = np.minimum(temperature, model.slowdown + 1)
            target = np.clip(0.35 + 0.65 * (temperature.max() - 50) / 30, 0.35, 1.0)
            fan += fan_share * (round(target * 20) / 20 - fan)
            if step % STEPS == STEPS - 1:
                minute = step // STEPS
                readings.power[minute] = power + chance.normal(0, 2, DEVICES)
                readings.energy[minute] = energy
                readings.temperature[minute] = np.floor(temperature + chance.normal(0, 0.3, DEVICES))
                readings.throttled[minute][limited] = "hw_thermal_slowdown"

    def _fault_rise(self, since: float) -> float:
        """Degrees that the heat sink is hotter at the mean power of the job."""
        if self.fault in (Fault.FAST, Fault.FAST_WHOLE):
            return min(20.0, 2 * since)
        if self.fault in (Fault.SLOW, Fault.SLOW_WHOLE):
            return min(12.0, 0.2 * since)
        return 120.0 if self.fault is Fault.THROTTLED else 0.0

    def _blips(self, readings: _Readings) -> None:
        chance, minutes = self._chance, self._minutes
        for index in range(DEVICES):
            for _ in range(chance.poisson(minutes / 60 / 200)):  # the power supply dips
                at = int(chance.integers(minutes))
                readings.throttled[at : at + int(chance.integers(1, 3)), index] = "hw_power_brake_slowdown"
        if self.fault is Fault.ECC:
            counts = np.cumsum(chance.poisson(2, minutes - FAULT_MINUTE))
            readings.uncorrected[FAULT_MINUTE:, VICTIM] = counts
        if self.fault is None and chance.random() < minutes / 60 / 48:  # the driver is reloaded
            at = int(chance.integers(minutes))
            readings.energy[at:] -= readings.energy[at]
            readings.errors[at:] -= readings.errors[at]
            readings.missing[at : at + 2] = True

    def _missing(self) -> npt.NDArray[np.bool_]:
        chance, minutes = self._chance, self._minutes
        missing = chance.random(minutes) < 0.005
        for _ in range(chance.poisson(minutes / 60 / 12)):  # the agent restarts
            at = int(chance.integers(minutes))
            missing[at : at + int(chance.integers(1, 5))] = True
        return missing

    # What the agent reports

    def snapshot(self, minute: int) -> Snapshot | None:
        """None: nothing arrives in this minute."""
        readings = self._readings
        if readings.missing[minute]:
            return None
        devices, usages = [], []
        for index in range(DEVICES):
            number = int(readings.job[minute, index])
            used = int(readings.memory[minute, index] * GIB) if number >= 0 else 0
            devices.append(self._device(index, minute, used))
            if number >= 0:
                usages.append(self._usage(readings.jobs[number].pod, index, minute, used))
        return Snapshot(
            node=self.name,
            taken_at=START + 60 * minute,
            agent=AgentState(version="1.0", started_at=0.0),
            interval_seconds=60.0,
            devices=tuple(devices),
            pod_usages=tuple(usages),
        )

    def _device(self, index: int, minute: int, used: int) -> Device:
        readings, model = self._readings, self.model
        throttle, errors = readings.throttled[minute, index], int(readings.errors[minute, index])
        return Device(
            vendor=Vendor("nvidia"),
            id=self.device_id(index),
            index=index,
            model=model.name,
            health=Health(HealthState.OK),
            utilization_ratio=float(readings.utilization[minute, index]),
            power_watts=round(float(readings.power[minute, index]), 1),
            power_limit_watts=model.limit,
            energy_joules=float(readings.energy[minute, index]) if model.energy_counter else None,
            temperature_celsius=float(readings.temperature[minute, index]),
            memory_total_bytes=model.memory * GIB,
            memory_used_bytes=used + GIB // 2,
            throttles=() if throttle is None else (Throttle(throttle, True),),
            ecc=(EccCount("uncorrected", False, int(readings.uncorrected[minute, index])),),
            errors=(ErrorCount("xid", "43", errors),) if errors > 0 else (),
        )

    def _usage(self, pod: str, index: int, minute: int, used: int) -> PodUsage:
        """Drivers do not report the utilisation of idle processes."""
        busy = float(self._readings.utilization[minute, index])
        return PodUsage(
            device=self.device_id(index),
            namespace=self.name,
            pod=pod,
            container="main",
            allocated=1,
            processes=1,
            utilization_ratio=busy if busy > 0.01 else None,
            memory_used_bytes=used,
        )


def _share(seconds: float | Values) -> Values:
    """Of the way to its final value that a stage with this time constant takes in one step."""
    return np.asarray(1 - np.exp(-_SECONDS / np.asarray(seconds)))


def well_nodes(seed: int, load: Load, count: int, minutes: int) -> Iterator[Node]:
    for number in range(count):
        yield Node(f"well-{load}-{number}", _seed(seed, load, 0, number), load, minutes)


def faulty_nodes(seed: int, load: Load, fault: Fault, count: int, minutes: int) -> Iterator[Node]:
    place = list(Fault).index(fault)
    for number in range(count):
        name = f"fault-{place}-{load}-{number}"
        yield Node(name, _seed(seed, load, 1 + place, number), load, minutes, fault)


def _seed(seed: int, load: Load, place: int, number: int) -> int:
    return ((seed * 10 + list(Load).index(load)) * 100 + place) * 10_000 + number
