"""One node of a fleet: what an agent there would make of the node model, without folders and agents."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from accelscope.model import (
    AgentState,
    AttributionSourceState,
    Counted,
    Device,
    ReaderState,
    Snapshot,
    Vendor,
)
from accelscope.simulate.faults import FaultLog
from accelscope.simulate.fleet.idling import idled
from accelscope.simulate.fleet.names import PLAIN, Names
from accelscope.simulate.fleet.owners import Owners, allocations, pod_of
from accelscope.simulate.fleet.usage import Ledger, balance, pod_usages, uses
from accelscope.simulate.fleet.vendors.seen import Look, Offer, Seen
from accelscope.simulate.pods import SimulatedPod, pods_of
from accelscope.simulate.spec import NodeSpec
from accelscope.simulate.vendor import Instant, Site, VendorDriver, simulated_vendor
from accelscope.simulate.workload import place

_VENDORS = {vendor: f"accelscope.simulate.fleet.vendors.{vendor}" for vendor in Vendor}
_READ_SECONDS = 0.012  # what a pass of a reader takes, of a device
NO_FAULTS = FaultLog()

See = Callable[[Any, Sequence[Any], Look], Seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What is the agent's own in a snapshot."""

    version: str
    interval_seconds: float
    started_at: float  # seconds since the epoch


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
        placements = tuple(idled(placement, idle or {}) for placement in place(spec))
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

    def readings(self, vendor: str, at: float, now: float, faults: FaultLog = NO_FAULTS) -> tuple[Any, ...]:
        """In the vendor's own terms."""
        instant = Instant(at=at, wall_clock=now, faults=faults.of_vendor(vendor))
        return self.drivers[vendor].readings(instant)

    def snapshot(
        self, at: float, now: float, before: Ledger, faults: FaultLog = NO_FAULTS
    ) -> tuple[Snapshot, Ledger]:
        """At simulated time `at`, which is `now` by the wall clock; `before` is the ledger of the snapshot
        before, and that of this one is returned with it."""
        look = Look(at, now, self.names)
        seen = {
            vendor: see(self.spec.vendors[vendor], self.readings(vendor, at, now, faults), look)
            for vendor, see in self._see.items()
        }
        devices = [device for one in seen.values() for device in one.devices]
        processes = self._owners.described(process for one in seen.values() for process in one.processes)
        pods = [pod for pod in self.pods if pod.runs_at(at)]
        offers: dict[str, Offer] = {}
        for one in seen.values():
            offers |= one.offers
        given = allocations(pods, offers, self.names)
        used = uses(devices, processes, given)
        ledger = before.after(used, at)
        usages = tuple(usage for use in used.values() for usage in pod_usages(use, ledger, at))
        named = {(usage.namespace, usage.pod) for usage in usages}
        shown = (pod_of(pod, self.names) for pod in pods)
        snapshot = Snapshot(
            node=self.spec.name,
            taken_at=now,
            agent=self._agent_state(at, len(devices), len(processes)),
            interval_seconds=self._agent.interval_seconds,
            readers=tuple(_reader(vendor, one, now) for vendor, one in seen.items()),
            devices=tuple(devices),
            processes=processes,
            attribution=_sources(now),
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
        )
        return snapshot, ledger

    def _agent_state(self, at: float, devices: int, processes: int) -> AgentState:
        collections = 1 + int(at / self._agent.interval_seconds)
        seconds = _READ_SECONDS * (1 + devices / 8)
        return AgentState(
            version=self._agent.version,
            started_at=self._agent.started_at,
            collections=collections,
            collection_seconds=seconds,
            cpu_seconds=round(0.2 + collections * seconds, 2),
            memory_bytes=(19 << 20) + (processes << 12),
            threads=9,
            open_files=10,
        )


def _reader(vendor: str, seen: Seen, now: float) -> ReaderState:
    lost = _unread(seen.devices)
    return ReaderState(
        vendor=Vendor(vendor),
        found=True,
        up=len(lost) < len(seen.devices) or not seen.devices,
        source=seen.source,
        driver_version=seen.driver_version,
        duration_seconds=_READ_SECONDS,
        last_success=now,
        devices_expected=len(seen.devices),
        devices_seen=len(seen.devices) - len(lost),
        errors=(Counted("lost", len(lost)),) if lost else (),
    )


def _unread(devices: Iterable[Device]) -> list[Device]:
    return [device for device in devices if device.stale]


def _sources(now: float) -> tuple[AttributionSourceState, ...]:
    return (
        AttributionSourceState(source="processes", up=True, last_success=now),
        AttributionSourceState(source="pods", up=True, detail="api-server", last_success=now),
        AttributionSourceState(source="pod-resources", up=True, detail="v1", last_success=now),
    )


def named(spec: NodeSpec, *, name: str, seed: int) -> NodeSpec:
    """Another node of the same kind."""
    return replace(spec, name=name, seed=seed)
