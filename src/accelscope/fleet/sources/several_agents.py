"""One reading of a node on which several agents run: one for each vendor, or an old and a new one while they
are rolled out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from accelscope.model import (
    Allocation,
    Device,
    Health,
    HealthState,
    ReaderState,
    Snapshot,
    Vendor,
    identity_of,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The last that one agent said."""

    snapshot: Snapshot
    taken_at: float  # by this process's clock
    trouble: str | None = None  # why it did not answer this time
    remark: str | None = None  # what of it had to be left out


def together(heard: Sequence[Heard]) -> Heard:
    """Each device as the agent tells that answered last; those of an agent that did not answer are named,
    without values, as an agent itself does with devices that do not answer."""
    in_order = sorted(heard, key=lambda agent: (agent.trouble is not None, -agent.taken_at))
    parts = [_unanswered(agent) if agent.trouble else agent.snapshot for agent in in_order]
    teller: dict[str, int] = {}
    for place, part in enumerate(parts):
        for device in part.devices:
            teller.setdefault(device.id, place)

    def told(members: Callable[[Snapshot], Iterable[T]], device: Callable[[T], str | None]) -> tuple[T, ...]:
        return tuple(
            member
            for place, part in enumerate(parts)
            for member in members(part)
            if teller.get(device(member) or "", place) == place
        )

    first = parts[0]
    snapshot = replace(
        first,
        readers=_readers(parts),
        devices=told(lambda part: part.devices, lambda device: device.id),
        processes=told(lambda part: part.processes, lambda process: process.device),
        pods=tuple({(pod.namespace, pod.name): pod for part in parts for pod in part.pods}.values()),
        allocations=_allocations(parts),
        pod_usages=told(lambda part: part.pod_usages, lambda usage: usage.device),
        unattributed=told(lambda part: part.unattributed, lambda use: use.device),
        balances=told(lambda part: part.balances, lambda balance: balance.device),
        sinks=tuple(sink for part in parts for sink in part.sinks),
    )
    answered = [agent.taken_at for agent in in_order if agent.trouble is None]
    return Heard(
        snapshot=snapshot,
        taken_at=min(answered, default=in_order[0].taken_at),
        remark="; ".join(dict.fromkeys(agent.remark for agent in in_order if agent.remark)) or None,
    )


def _unanswered(agent: Heard) -> Snapshot:
    """What is known of its devices without its word: who they are."""
    trouble = f"its agent does not answer: {agent.trouble}"
    readers = (replace(reader, up=False, reason=trouble) for reader in agent.snapshot.readers)
    devices = (_named(device, trouble, agent.snapshot.taken_at) for device in agent.snapshot.devices)
    return Snapshot(
        node=agent.snapshot.node,
        taken_at=agent.snapshot.taken_at,
        agent=agent.snapshot.agent,
        interval_seconds=agent.snapshot.interval_seconds,
        readers=tuple(readers),
        devices=tuple(devices),
    )


def _named(device: Device, trouble: str, read_at: float) -> Device:
    return replace(
        identity_of(device),
        health=Health(HealthState.UNKNOWN, trouble),
        stale=True,
        read_at=device.read_at if device.stale or device.read_at is not None else read_at,
    )


def _readers(parts: Sequence[Snapshot]) -> tuple[ReaderState, ...]:
    """One for each vendor: who found the driver knows more than who did not."""
    chosen: dict[Vendor, ReaderState] = {}
    for part in parts:
        for reader in part.readers:
            if reader.vendor not in chosen or (reader.found and not chosen[reader.vendor].found):
                chosen[reader.vendor] = reader
    return tuple(chosen.values())


def _allocations(parts: Sequence[Snapshot]) -> tuple[Allocation, ...]:
    """An agent that does not read a vendor sees what was allocated of it and does not know the device."""
    chosen: dict[tuple[str, ...], Allocation] = {}
    for part in parts:
        for given in part.allocations:
            key = (given.namespace, given.pod, given.container, given.source, given.device_id)
            if key not in chosen or (chosen[key].device is None and given.device is not None):
                chosen[key] = given
    return tuple(chosen.values())
