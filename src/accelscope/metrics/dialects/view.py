"""What the families of a dialect are taken from: a device or a node, with what is around it.

A native family needs its device only, because facts about the node stand on one info series. Other exporters
write the host's name, the driver and the pod on every series.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from accelscope.model import Device, Partition, Process


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
    processes: tuple[Process, ...] = ()  # on this device, those under the cap on their series
    process_count: int = 0  # on this device, all of them
    # The workload that holds the device. Empty: nobody does, which is all that is known before attribution
    # to pods. `views` of the page sets them; each dialect's labels say how it writes a free device.
    namespace: str = ""
    pod: str = ""
    container: str = ""
