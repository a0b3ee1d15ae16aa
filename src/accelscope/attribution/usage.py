"""Use of each device by pods and others: sums over the processes and allocations of one collection.

Memory adds up for every device: pods + unattributed - surplus = used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from accelscope.model import (
    Allocation,
    Device,
    Owner,
    OwnerKind,
    Process,
    Unattributed,
    UnattributedReason,
)
from accelscope.vendors import declarations

Number = TypeVar("Number", int, float)

# With these reasons, the process may belong to any pod.
UNKNOWN_OWNER_REASONS = frozenset(
    {
        UnattributedReason.PROCESS_GONE,
        UnattributedReason.NO_PERMISSION,
        UnattributedReason.CGROUP_HIDDEN,
        UnattributedReason.POD_UNKNOWN,
        UnattributedReason.NO_POD_SOURCE,
    }
)


class UsageKey(NamedTuple):
    """One container of a pod on one device or partition."""

    device: str
    partition: str
    namespace: str
    pod: str
    container: str


@dataclass(slots=True)
class UsageSum:
    """Sums over processes; None if no process has the value."""

    processes: int = 0
    memory_bytes: int | None = None
    utilization: float | None = None
    memory_utilization: float | None = None
    encoder: float | None = None
    decoder: float | None = None

    def add(self, processes: Sequence[Process]) -> None:
        """Column by column, for speed: a collection may have thousands of processes."""
        self.processes += len(processes)
        self.memory_bytes = _sum(self.memory_bytes, [p.memory_bytes for p in processes])
        self.utilization = _sum(self.utilization, [p.utilization_ratio for p in processes])
        self.memory_utilization = _sum(
            self.memory_utilization, [p.memory_utilization_ratio for p in processes]
        )
        self.encoder = _sum(self.encoder, [p.encoder_utilization_ratio for p in processes])
        self.decoder = _sum(self.decoder, [p.decoder_utilization_ratio for p in processes])

    @property
    def is_active(self) -> bool | None:
        """None if the driver does not measure single processes."""
        known = [
            v
            for v in (self.utilization, self.memory_utilization, self.encoder, self.decoder)
            if v is not None
        ]
        return any(known) if known else None


def _sum(total: Number | None, values: Iterable[Number | None]) -> Number | None:
    for value in values:
        if value is not None:
            total = value if total is None else total + value
    return total


@dataclass(slots=True)
class DeviceUse:
    """One device in one collection."""

    device: Device
    pods: dict[UsageKey, UsageSum] = field(default_factory=dict)
    others: dict[tuple[OwnerKind, str | None, UnattributedReason], UsageSum] = field(default_factory=dict)
    allocations: dict[UsageKey, list[Allocation]] = field(default_factory=dict)
    uids: dict[UsageKey, str] = field(default_factory=dict)
    measures_processes: bool = False  # the driver measures single processes

    def add(self, partition: str | None, owner: Owner, processes: Sequence[Process]) -> None:
        """Add the processes of one owner on the device or one of its partitions."""
        if owner.reason is None:
            key = UsageKey(
                self.device.id,
                partition or "",
                owner.namespace or "",
                owner.pod or "",
                owner.container or "",
            )
            measured = self.pods.setdefault(key, UsageSum())
            if owner.pod_uid is not None:
                self.uids[key] = owner.pod_uid
        else:
            measured = self.others.setdefault((owner.kind, owner.name, owner.reason), UsageSum())
        measured.add(processes)
        self.measures_processes |= measured.is_active is not None

    def add_allocation(self, allocation: Allocation) -> None:
        key = UsageKey(
            self.device.id,
            allocation.partition or "",
            allocation.namespace,
            allocation.pod,
            allocation.container,
        )
        self.allocations.setdefault(key, []).append(allocation)
        if allocation.pod_uid is not None:
            self.uids[key] = allocation.pod_uid

    @property
    def keys(self) -> list[UsageKey]:
        return sorted({*self.pods, *self.allocations})

    def measured(self, key: UsageKey) -> list[UsageSum]:
        """Sums that may belong to a container's allocation. The allocation may be the device and the
        processes on partitions, or the reverse if the driver does not report partitions of processes. The
        container of a process may be unknown."""
        return [measured for other, measured in self.pods.items() if _may_be(other, key)]

    @property
    def sole_allocation(self) -> UsageKey | None:
        return next(iter(self.allocations)) if len(self.allocations) == 1 else None

    @property
    def hidden_user(self) -> UsageKey | None:
        """If no process is attributed: the only container to which the device is allocated. Then it must be
        the one that uses it."""
        if self.pods or any(reason not in UNKNOWN_OWNER_REASONS for _, _, reason in self.others):
            return None
        return self.sole_allocation

    @property
    def has_unknown_users(self) -> bool:
        """Whether the owner of a process on it is unknown."""
        return any(reason in UNKNOWN_OWNER_REASONS for _, _, reason in self.others)

    @property
    def lists_all_processes(self) -> bool:
        """If so, a container without processes does not use the device. An empty list means this only if the
        driver lists all processes."""
        if self.device.stale or self.has_unknown_users:
            return False
        if self.pods or self.others:
            return True
        listed = all(absence.field != "processes.compute" for absence in self.device.absent)
        return declarations()[self.device.vendor].lists_all_processes and listed

    def unattributed(self) -> list[Unattributed]:
        found = [
            Unattributed(
                device=self.device.id,
                kind=kind,
                name=name,
                reason=reason,
                processes=measured.processes,
                memory_used_bytes=measured.memory_bytes,
                utilization_ratio=measured.utilization,
            )
            for (kind, name, reason), measured in self.others.items()
        ]
        rest = self._rest()
        if rest is not None:
            found.append(
                Unattributed(
                    device=self.device.id,
                    kind=OwnerKind.NONE,
                    name=None,
                    reason=UnattributedReason.NO_PROCESS,
                    memory_used_bytes=max(0, rest),
                )
            )
        return found

    @property
    def surplus_memory_bytes(self) -> int | None:
        rest = self._rest()
        return None if rest is None else max(0, -rest)

    def _rest(self) -> int | None:
        """Memory in use without a process. Negative if the processes' sum exceeds the device's used memory,
        because shared pages are counted for each process."""
        used = self.device.memory_used_bytes
        if used is None:
            return None
        counted = (m.memory_bytes or 0 for m in (*self.pods.values(), *self.others.values()))
        return used - sum(counted)


def _may_be(seen: UsageKey, allocated: UsageKey) -> bool:
    return (
        (seen.namespace, seen.pod) == (allocated.namespace, allocated.pod)
        and seen.container in (allocated.container, "")
        and (seen.partition == allocated.partition or "" in (seen.partition, allocated.partition))
    )


def uses(
    devices: Iterable[Device],
    processes: Iterable[Process],
    allocations: Iterable[Allocation],
) -> dict[str, DeviceUse]:
    """Use by device id."""
    found = {device.id: DeviceUse(device) for device in devices}
    for (device, partition), owned in _by_place_and_owner(processes).items():
        use = found.get(device or "")
        if use is not None:
            for owner, group in owned.values():
                use.add(partition, owner, group)
    for allocation in allocations:
        use = found.get(allocation.device or "")
        if use is not None:
            use.add_allocation(allocation)
    return found


_Place = tuple[str | None, str | None]  # device, partition


def _by_place_and_owner(
    processes: Iterable[Process],
) -> dict[_Place, dict[int, tuple[Owner, list[Process]]]]:
    """Grouped by the identity of the Owner, which is faster than comparing Owners."""
    found: dict[_Place, dict[int, tuple[Owner, list[Process]]]] = {}
    for process in processes:
        owner = process.owner
        if owner is None:
            continue
        owned = found.setdefault((process.device, process.partition), {})
        group = owned.get(id(owner))
        if group is None:
            owned[id(owner)] = owner, [process]
        else:
            group[1].append(process)
    return found
