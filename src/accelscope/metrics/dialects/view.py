"""What the families of a dialect are taken from: a device or a node, with what is around it.

A native family needs its device only, because facts about the node stand on one info series. Other exporters
write the host's name, the driver and the pod on every series.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accelscope.model import Device, Partition, PodUsage, Process, Snapshot


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    labels: Mapping[str, str]  # static labels of the node, by setting
    agent_version: str
    devices: tuple[Device, ...]  # those that the dialect shows


@dataclass(frozen=True, slots=True)
class DeviceView:
    device: Device
    node: NodeView
    partition: Partition | None = None  # set where the series is about a part of the device
    processes: tuple[Process, ...] = ()  # on this device, all of them
    shown_processes: tuple[Process, ...] = ()  # those under the cap on their series
    usages: tuple[PodUsage, ...] = ()  # of this device and all its partitions
    jobs: tuple[str, ...] = ()  # batch jobs that the job-mapping folder names for the device
    # The workload that the device or this part of it is put down to (see holder). Empty: nobody, or several;
    # each dialect's labels say how it writes that.
    namespace: str = ""
    pod: str = ""
    container: str = ""


class Workloads:
    """What is on each device of a node, sorted once for all dialects of a page."""

    def __init__(self, snapshot: Snapshot, shown_processes: Iterable[Process]) -> None:
        self._processes = _by_device(snapshot.processes)
        self._shown = _by_device(shown_processes)
        self._jobs = {balance.device: balance.jobs for balance in snapshot.balances}
        self._usages: dict[str, list[PodUsage]] = {}
        for usage in snapshot.pod_usages:
            self._usages.setdefault(usage.device, []).append(usage)

    def on(self, device: Device, node: NodeView) -> DeviceView:
        return DeviceView(
            device,
            node,
            processes=tuple(self._processes.get(device.id, ())),
            shown_processes=tuple(self._shown.get(device.id, ())),
            usages=tuple(self._usages.get(device.id, ())),
            jobs=self._jobs.get(device.id, ()),
        )


def _by_device(processes: Iterable[Process]) -> dict[str | None, list[Process]]:
    found: dict[str | None, list[Process]] = {}
    for process in processes:
        found.setdefault(process.device, []).append(process)
    return found
