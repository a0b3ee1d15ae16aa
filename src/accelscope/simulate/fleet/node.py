"""One node of a fleet: what an agent there would make of the node model, without folders and agents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from accelscope.model import AllocationSource, HostUse, Snapshot, Vendor
from accelscope.simulate.faults import FaultLog
from accelscope.simulate.fleet.faults import Trouble
from accelscope.simulate.fleet.idling import idled
from accelscope.simulate.fleet.names import PLAIN, Names
from accelscope.simulate.fleet.own import (
    Agent,
    Moment,
    agent_state,
    as_read,
    reader_state,
    sink_states,
    source_states,
)
from accelscope.simulate.fleet.owners import Owners, allocations, pod_of
from accelscope.simulate.fleet.usage import Ledger, balance, pod_usages, uses
from accelscope.simulate.fleet.vendors.seen import Look, Offer, Seen
from accelscope.simulate.host import CLOCK_TICKS, HostLoad, host_loads
from accelscope.simulate.pods import SimulatedPod, pods_of
from accelscope.simulate.spec import NodeSpec
from accelscope.simulate.vendor import Instant, Site, VendorDriver, simulated_vendor
from accelscope.simulate.workload import boot_time, place

_VENDORS = {vendor: f"accelscope.simulate.fleet.vendors.{vendor}" for vendor in Vendor}
NO_FAULTS = FaultLog()

See = Callable[[Any, Sequence[Any], Look], Seen]


class NodeModel:
    """The drivers of a node, its workloads and its pods. `idle` are names of processes that hold what they
    hold and do nothing, with the simulated times from when and until when."""

    def __init__(
        self,
        spec: NodeSpec,
        agent: Agent,
        names: Names = PLAIN,
        idle: Mapping[str, tuple[tuple[float, float], ...]] | None = None,
    ) -> None:
        self.spec = spec
        self.names = names
        self._agent = agent
        self._idle = idle or {}
        placements = tuple(idled(placement, self._idle) for placement in place(spec))
        processes = {placement.process.pid: placement.process for placement in placements}
        self.drivers: dict[str, VendorDriver[Any]] = {}
        self._see: dict[str, See] = {}
        for number, (vendor, own) in enumerate(spec.vendors.items()):
            site = Site(
                seed=spec.seed,
                pci_domain=number,
                placements=tuple(p for p in placements if p.process.spec.vendor == vendor),
            )
            self.drivers[vendor] = simulated_vendor(vendor).open_driver(own, site)
            self._see[vendor] = import_module(_VENDORS[Vendor(vendor)]).see
        self.pods: tuple[SimulatedPod, ...] = pods_of(
            spec, lambda vendor, *where: self.drivers[vendor].plugin_device(*where)
        )
        self._owners = Owners(spec, processes.values(), self.pods, names)
        self._hosts = host_loads(spec.seed, placements)

    def readings(self, vendor: str, at: float, now: float, faults: FaultLog = NO_FAULTS) -> tuple[Any, ...]:
        """In the vendor's own terms."""
        instant = Instant(at=at, wall_clock=now, faults=faults.of_vendor(vendor))
        return self.drivers[vendor].readings(instant)

    def snapshot(
        self,
        at: float,
        now: float,
        before: Ledger,
        faults: FaultLog = NO_FAULTS,
        troubles: Sequence[Trouble] = (),
    ) -> tuple[Snapshot, Ledger]:
        """At simulated time `at`, which is `now` by the wall clock; `before` is the ledger of the snapshot
        before, and that of this one is returned with it. `troubles` are in simulated time."""
        look, moment = Look(at, now, self.names), Moment(at, now, troubles)
        seen = {
            vendor: as_read(
                see(self.spec.vendors[vendor], self.readings(vendor, at, now, faults), look),
                faults.of_vendor(vendor),
                self._agent,
                moment,
            )
            for vendor, see in self._see.items()
        }
        devices = [device for one in seen.values() for device in one.devices]
        processes = self._owners.described(
            (process for one in seen.values() for process in one.processes), self._host_uses(at, now)
        )
        pods = [pod for pod in self.pods if pod.runs_at(at)]
        offers: dict[str, Offer] = {}
        for one in seen.values():
            offers |= one.offers
        given = allocations(pods, offers, self.names)
        used = uses(devices, processes, given)
        ledger = before.after(used, at, self._idle_since(at))
        usages = tuple(usage for use in used.values() for usage in pod_usages(use, ledger, at))
        named = {(usage.namespace, usage.pod) for usage in usages}
        shown = (pod_of(pod, self.names) for pod in pods)
        snapshot = Snapshot(
            node=self.spec.name,
            taken_at=now,
            agent=agent_state(self._agent, at, len(devices), len(processes)),
            interval_seconds=self._agent.interval_seconds,
            readers=tuple(
                reader_state(vendor, one, faults.of_vendor(vendor).faults, self._agent, moment)
                for vendor, one in seen.items()
            ),
            devices=tuple(devices),
            processes=processes,
            attribution=source_states(
                self._agent, moment, shared=any(a.source is AllocationSource.ANNOTATION for a in given)
            ),
            pods=tuple(
                sorted(
                    (pod for pod in shown if (pod.namespace, pod.name) in named),
                    key=lambda pod: (pod.namespace, pod.name),
                )
            ),
            allocations=given,
            pod_usages=usages,
            unattributed=tuple(other for use in used.values() for other in use.unattributed()),
            balances=tuple(balance(use, ledger) for use in used.values()),
            sinks=sink_states(self.spec.vendors, self._agent, moment),
        )
        return snapshot, ledger

    def _idle_since(self, at: float) -> dict[str, float]:
        """By uid, the pods whose processes are told to do nothing just now."""
        return {
            uid: begin
            for name, pauses in self._idle.items()
            for begin, until in pauses
            if begin <= at < until
            for uid in self._owners.pods_of(name)
        }

    def _host_uses(self, at: float, now: float) -> dict[int, HostUse]:
        """By pid, of all that run."""
        booted = boot_time(self.spec.seed, now - at)
        running = (load for load in self._hosts if load.runs_at(at))
        return {load.process.pid: self._host_use(load, at, booted) for load in running}

    def _host_use(self, load: HostLoad, at: float, booted: int) -> HostUse:
        """CPU as measured since the reading before, if it ran then."""
        interval = self._agent.interval_seconds
        cpu_ratio = None
        if load.runs_at(at - interval):
            used = load.cpu_ticks(at) - load.cpu_ticks(at - interval)
            cpu_ratio = used / (CLOCK_TICKS * interval)
        started_at = (booted * CLOCK_TICKS + load.process.start_ticks) / CLOCK_TICKS
        return HostUse(cpu_ratio, load.resident_bytes(at), started_at)


def named(spec: NodeSpec, *, name: str, seed: int) -> NodeSpec:
    """Another node of the same kind."""
    return replace(spec, name=name, seed=seed)
