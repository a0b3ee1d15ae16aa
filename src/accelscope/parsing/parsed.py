"""What a parser makes of one tool's output: the shape that `accelscope parse` prints."""

from dataclasses import dataclass

from accelscope.model import Device, Process, Rejection


@dataclass(frozen=True, slots=True)
class ParseError:
    """The output is not a reading but a message. `reason` is a short word that can be counted."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """Where a process lives, as far as its cgroup or its mounts tell."""

    pod_uid: str | None = None
    container_id: str | None = None
    container_name: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """Devices that the kubelet gave to a container. `device_ids` are those that the kubelet chose; the others
    are what the plugin answered. Where it shares devices, as HAMi's does, only that names the device."""

    pod_uid: str
    container_name: str
    resource_name: str
    device_ids: tuple[str, ...] = ()
    visible_devices: tuple[str, ...] = ()  # by the variable of the vendor's runtime
    device_files: tuple[str, ...] = ()  # on the node
    cdi_devices: tuple[str, ...] = ()  # vendor.com/class=name


@dataclass(frozen=True, slots=True)
class Parsed:
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    containers: tuple[ContainerRef, ...] | None = None  # None: not what this source tells
    allocations: tuple[DeviceGrant, ...] | None = None
    ratio: float | None = None
    versions: tuple[tuple[str, str], ...] = ()  # what of -> version
    error: ParseError | None = None
    rejected: tuple[Rejection, ...] = ()
