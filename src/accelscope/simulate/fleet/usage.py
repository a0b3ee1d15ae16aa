"""Who uses what of each device at one instant, and what adds up over time: as an agent's figures are made."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from accelscope.model import (
    AbsenceReason,
    Allocation,
    Device,
    DeviceBalance,
    Owner,
    OwnerKind,
    PodUsage,
    Process,
    Unattributed,
    UnattributedReason,
    Vendor,
    device_shares,
)


class Place(NamedTuple):
    """One container of a pod on one device or partition."""

    device: str
    partition: str
    namespace: str
    pod: str
    container: str


@dataclass(slots=True)
class Sums:
    processes: int = 0
    memory_bytes: int | None = None
    utilization: float | None = None
    memory_utilization: float | None = None
    encoder: float | None = None
    decoder: float | None = None

    def add(self, process: Process) -> None:
        self.processes += 1
        self.memory_bytes = _whole_sum(self.memory_bytes, process.memory_bytes)
        self.utilization = _sum(self.utilization, process.utilization_ratio)
        self.memory_utilization = _sum(self.memory_utilization, process.memory_utilization_ratio)
        self.encoder = _sum(self.encoder, process.encoder_utilization_ratio)
        self.decoder = _sum(self.decoder, process.decoder_utilization_ratio)

    @property
    def at_work(self) -> bool | None:
        """None: the driver does not tell of single processes."""
        told = [
            value
            for value in (self.utilization, self.memory_utilization, self.encoder, self.decoder)
            if value is not None
        ]
        return any(told) if told else None


def _sum(total: float | None, value: float | None) -> float | None:
    return total if value is None else value if total is None else total + value


def _whole_sum(total: int | None, value: int | None) -> int | None:
    return total if value is None else value if total is None else total + value


@dataclass(slots=True)
class DeviceUse:
    device: Device
    pods: dict[Place, Sums] = field(default_factory=dict)
    others: dict[tuple[OwnerKind, str | None], Sums] = field(default_factory=dict)
    holders: dict[Place, list[Allocation]] = field(default_factory=dict)
    uids: dict[Place, str | None] = field(default_factory=dict)
    tells_of_processes: bool = False

    def add(self, process: Process, owner: Owner) -> None:
        if owner.kind is OwnerKind.POD:
            names = owner.namespace or "", owner.pod or "", owner.container or ""
            place = Place(self.device.id, process.partition or "", *names)
            self.uids[place] = owner.pod_uid
            sums = self.pods.setdefault(place, Sums())
        else:
            sums = self.others.setdefault((owner.kind, owner.name), Sums())
        sums.add(process)
        self.tells_of_processes |= sums.at_work is not None

    def hold(self, held: Allocation) -> None:
        place = Place(self.device.id, held.partition or "", held.namespace, held.pod, held.container)
        self.holders.setdefault(place, []).append(held)
        self.uids[place] = held.pod_uid

    @property
    def places(self) -> list[Place]:
        return sorted({*self.pods, *self.holders})

    def measured(self, place: Place) -> Sums | None:
        """Of the container there, be it on the whole device or on a part of it."""
        exact = self.pods.get(place)
        if exact is not None:
            return exact
        for other, sums in self.pods.items():
            if other._replace(partition=place.partition) == place and "" in (
                other.partition,
                place.partition,
            ):
                return sums
        return None

    @property
    def hidden_user(self) -> Place | None:
        """Who must be at work when no process says who is."""
        if self.pods or self.others or len(self.holders) != 1:
            return None
        return next(iter(self.holders))

    @property
    def lists_processes(self) -> bool:
        if self.device.stale:
            return False
        return bool(self.pods or self.others) or self.device.vendor is Vendor.NVIDIA

    def is_active(self, place: Place) -> bool | None:
        """Whether the container does anything with what it holds; None: nobody can tell."""
        sums, busy = self.measured(place), self.device.utilization_ratio
        if sums is not None and sums.at_work is not None:
            return sums.at_work
        if sums is not None and self.tells_of_processes:
            return False
        if sums is not None or self.hidden_user == place:
            return None if busy is None else busy > 0
        return None if not (self.pods or self.others) and busy != 0 else False

    def shares(self) -> dict[Place, float] | None:
        """By how much each container uses the device; None: nobody can tell."""
        everybody = [*self.pods.values(), *self.others.values()]
        busy = self.device.utilization_ratio
        if self.hidden_user is not None:
            return None if busy is None else {self.hidden_user: busy}
        if any(sums.utilization is not None for sums in everybody):
            total = sum(sums.utilization or 0.0 for sums in everybody)
            return {place: (sums.utilization or 0.0) / max(1.0, total) for place, sums in self.pods.items()}
        if not everybody:
            return {}
        if busy is None:
            return None
        known = all(sums.memory_bytes is not None for sums in everybody)

        def weight(sums: Sums) -> float:
            return float((sums.memory_bytes or 0) if known else sums.processes)

        total = sum(map(weight, everybody))
        return {place: busy * weight(sums) / total for place, sums in self.pods.items()} if total else {}

    def unattributed(self) -> Iterator[Unattributed]:
        for (kind, name), sums in self.others.items():
            yield Unattributed(
                device=self.device.id,
                kind=kind,
                name=name,
                reason=UnattributedReason.NOT_IN_A_POD,
                processes=sums.processes,
                memory_used_bytes=sums.memory_bytes,
                utilization_ratio=sums.utilization,
            )
        if self.rest is not None:
            yield Unattributed(
                device=self.device.id,
                kind=OwnerKind.NONE,
                reason=UnattributedReason.NO_PROCESS,
                memory_used_bytes=max(0, self.rest),
            )

    @property
    def rest(self) -> int | None:
        """Memory in use that is no process's."""
        used = self.device.memory_used_bytes
        if used is None:
            return None
        return used - sum(sums.memory_bytes or 0 for sums in (*self.pods.values(), *self.others.values()))


def uses(
    devices: Iterable[Device], processes: Iterable[Process], allocations: Iterable[Allocation]
) -> dict[str, DeviceUse]:
    found = {device.id: DeviceUse(device) for device in devices}
    for process in processes:
        if process.device is not None and process.owner is not None:
            found[process.device].add(process, process.owner)
    for allocation in allocations:
        if allocation.device is not None:
            found[allocation.device].hold(allocation)
    return found


@dataclass(frozen=True, slots=True)
class Ledger:
    """Up to one instant: energy by container, since when each has done nothing, and by device when it was
    last read, its counter then, and the energy that is nobody's. Never changed: a later one is made of it."""

    energy: Mapping[Place, float] = field(default_factory=dict)
    active_at: Mapping[Place, float] = field(default_factory=dict)
    devices: Mapping[str, tuple[float, float | None, float]] = field(default_factory=dict)

    def after(
        self, uses: Mapping[str, DeviceUse], at: float, idle_since: Mapping[str, float] | None = None
    ) -> "Ledger":
        """`at` is simulated time; `idle_since` has pods, by uid, that do nothing since then, which may be
        before the first reading."""
        told = idle_since or {}
        energy: dict[Place, float] = {}
        active_at: dict[Place, float] = {}
        devices: dict[str, tuple[float, float | None, float]] = {}
        used = _used([use.device for use in uses.values()], self.devices, at)
        for use in uses.values():
            device, shares = use.device, use.shares()
            before = self.devices.get(device.id)
            if device.stale:
                if before is not None:
                    devices[device.id] = before
                continue
            for place in use.holders:
                if use.is_active(place):
                    active_at[place] = at
                    continue
                known = self.active_at.get(place, at)
                active_at[place] = min(known, told.get(use.uids[place] or "", known))
            if device.id not in used:
                continue
            added, idle = used[device.id], 0.0 if before is None else before[2]
            if shares is not None:
                for place in use.places:
                    energy[place] = self.energy.get(place, 0.0) + added * shares.get(place, 0.0)
            idle += max(0.0, added * (1.0 - sum((shares or {}).values())))
            devices[device.id] = at, device.energy_joules, idle
        return Ledger(energy, active_at, devices)

    def renamed(self, before: str, after: str) -> "Ledger":
        """Of another node, whose ids differ in this."""

        def place(known: Place) -> Place:
            return Place(*(text.replace(before, after) for text in known))

        return Ledger(
            {place(known): joules for known, joules in self.energy.items()},
            {place(known): at for known, at in self.active_at.items()},
            {device.replace(before, after): account for device, account in self.devices.items()},
        )


def _used(
    devices: list[Device], before: Mapping[str, tuple[float, float | None, float]], at: float
) -> dict[str, float]:
    """Joules of each device since the instant before. Dies that share a board, of which one shows the power
    of all, have an equal part each."""
    used: dict[str, float] = {}
    shown = [
        device for device in devices if not (device.energy_joules is None and device.power_watts is None)
    ]
    for device in shown:
        board = [device, *(other for other in devices if _leaves_power_to(other, device))]
        added = _added(device, before.get(device.id), at) / len(board)
        used.update((each.id, added) for each in board)
    return used


def _leaves_power_to(device: Device, other: Device) -> bool:
    shared = any(
        absence.reason is AbsenceReason.SHARED and absence.field == "power_watts" for absence in device.absent
    )
    of_board = (device.vendor, device.board_id, None if device.board_id is not None else device.serial)
    return shared and of_board == (
        other.vendor,
        other.board_id,
        None if other.board_id is not None else other.serial,
    )


def _added(device: Device, before: tuple[float, float | None, float] | None, at: float) -> float:
    """Joules since the instant before: by the device's counter, else by its power."""
    if before is None:
        return 0.0
    then, counter, _ = before
    if device.energy_joules is not None and counter is not None:
        return max(0.0, device.energy_joules - counter)
    return (device.power_watts or 0.0) * (at - then)


def pod_usages(use: DeviceUse, ledger: Ledger, at: float) -> Iterator[PodUsage]:
    nothing = Sums(memory_bytes=0, utilization=0.0) if use.lists_processes else None
    shares = device_shares(use.device, use.holders)
    for place in use.places:
        held = use.holders.get(place, [])
        sums = use.pods.get(place) or (nothing if use.measured(place) is None else None) or Sums()
        memory = [share.memory_bytes for share in held if share.memory_bytes is not None]
        compute = [share.compute_ratio for share in held if share.compute_ratio is not None]
        since = ledger.active_at.get(place)
        told = bool(held) and since is not None and use.is_active(place) is not None
        yield PodUsage(
            device=place.device,
            partition=place.partition or None,
            namespace=place.namespace,
            pod=place.pod,
            container=place.container,
            pod_uid=use.uids.get(place),
            processes=sums.processes,
            memory_used_bytes=sums.memory_bytes,
            utilization_ratio=sums.utilization,
            memory_utilization_ratio=sums.memory_utilization,
            encoder_utilization_ratio=sums.encoder,
            decoder_utilization_ratio=sums.decoder,
            allocated=len(held),
            resources=tuple(sorted({share.resource for share in held if share.resource is not None})),
            idle_seconds=max(0.0, at - (since or 0.0)) if told else None,
            memory_share_bytes=sum(memory) if memory else None,
            compute_share_ratio=sum(compute) if compute else None,
            device_share_ratio=shares.get(place),
            energy_joules=ledger.energy.get(place),
        )


def balance(use: DeviceUse, ledger: Ledger) -> DeviceBalance:
    account = ledger.devices.get(use.device.id)
    return DeviceBalance(
        device=use.device.id,
        surplus_memory_bytes=None if use.rest is None else max(0, -use.rest),
        idle_energy_joules=None if account is None else account[2],
    )
