"""How much of a device a container holds, and when that share counts as idle.

A share is a fraction of the device, and the shares of one device never add up to more than 1, so that sums of
shares are sums of devices.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from accelscope.model.device import Device
from accelscope.model.workload import Allocation, PodUsage

# A share is idle once its holder has done nothing with it for so long. The recording rules have it in their
# names (`idle_1h`).
IDLE_SECONDS = 3600.0

Key = TypeVar("Key")


def device_shares(
    device: Device, holders: Mapping[Key, Sequence[Allocation]], share_ratio: float | None = None
) -> dict[Key, float]:
    """The share of each holder. `share_ratio` is the number of shares that a setting cuts the device into.

    An allocation is what the scheduler granted of the device (its compute, else its memory), else one of
    `share_ratio` shares, else an equal part among those who hold it. Of a partition, it is so much of the
    partition. Grants that exceed the device are scaled down.
    """
    allocations = [allocation for held in holders.values() for allocation in held]
    in_place = Counter(allocation.partition for allocation in allocations)

    def share(allocation: Allocation) -> float:
        granted = _granted(device, allocation)
        if granted is None:
            count = in_place[allocation.partition]
            granted = 1 / count if share_ratio is None else 1 / share_ratio
        return min(1.0, granted) * _fraction(device, allocation.partition)

    return _at_most_whole({key: sum(map(share, held)) for key, held in holders.items()})


def usage_shares(usages: Sequence[PodUsage]) -> list[float]:
    """The share of each of these, which are all of one device's. What an agent does not tell (one before
    schema 1.4) is an equal part; one that holds nothing has none."""
    holders = sum(usage.allocated > 0 for usage in usages)
    shares = {
        place: 1 / holders if usage.device_share_ratio is None else max(0.0, usage.device_share_ratio)
        for place, usage in enumerate(usages)
        if usage.allocated > 0
    }
    shares = _at_most_whole(shares)
    return [shares.get(place, 0.0) for place in range(len(usages))]


def is_idle(idle_seconds: float | None) -> bool:
    return idle_seconds is not None and idle_seconds >= IDLE_SECONDS


def _granted(device: Device, allocation: Allocation) -> float | None:
    if allocation.compute_ratio is not None:
        return allocation.compute_ratio
    total = device.memory_total_bytes
    if allocation.partition is not None:
        memory = {partition.id: partition.memory_total_bytes for partition in device.partitions}
        total = memory.get(allocation.partition)
    if allocation.memory_bytes is None or not total:
        return None
    return allocation.memory_bytes / total


def _fraction(device: Device, partition: str | None) -> float:
    """Of the device: by memory, or an equal part where partitions share their memory."""
    if partition is None or not device.partitions:
        return 1.0
    memory = {each.id: each.memory_total_bytes for each in device.partitions}
    own, total = memory.get(partition), device.memory_total_bytes
    if own is None or not total or None in memory.values():
        return 1 / len(device.partitions)
    return min(1.0, own / total)


def _at_most_whole(shares: dict[Key, float]) -> dict[Key, float]:
    total = sum(shares.values())
    return shares if total <= 1 else {key: share / total for key, share in shares.items()}
