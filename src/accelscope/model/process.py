"""A process that uses a device."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from accelscope.model.workload import Owner


class ProcessType(StrEnum):
    COMPUTE = "compute"
    GRAPHICS = "graphics"
    BOTH = "both"


class HostUse(NamedTuple):
    """What a process takes of the node itself, whatever it does on devices; fields as of `Process`."""

    cpu_ratio: float | None = None
    resident_memory_bytes: int | None = None
    started_at: float | None = None


_NOT_TOLD = HostUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process on one device: one that uses two devices is there twice. Arguments are never read."""

    pid: int
    """Process id, as the node counts."""
    device: str | None = None
    """`id` of the device."""
    device_index: int | None = None
    """`index` of the device."""
    partition: str | None = None
    """`id` of the partition. Absent: not in a partition."""
    gpu_instance_id: int | None = None
    """MIG: the GPU instance. Absent: not of MIG."""
    compute_instance_id: int | None = None
    """MIG: the compute instance. Absent: not of MIG."""
    name: str | None = None
    """Name of the program."""
    user: str | None = None
    """Who runs it: a name, or a number where none is known."""
    type: ProcessType | None = None
    """What it does on the device."""
    mps: bool | None = None
    """It is a client of NVIDIA's Multi-Process Service."""
    memory_bytes: int | None = None
    """Device memory that it holds."""
    utilization_ratio: float | None = None
    """Fraction of the driver's last sample period in which it ran on the device."""
    memory_utilization_ratio: float | None = None
    """Fraction of the period in which it read or wrote device memory."""
    encoder_utilization_ratio: float | None = None
    """Its use of the video encoders."""
    decoder_utilization_ratio: float | None = None
    """Its use of the video decoders."""
    cpu_ratio: float | None = None
    """CPU time of the whole process on the node, the same in all of its entries. 1 is one CPU. Absent: not
    told, or in the first collection that sees the process."""
    resident_memory_bytes: int | None = None
    """Memory of the whole process on the node."""
    started_at: float | None = None
    """When it started, by the node's clock."""
    owner: Owner | None = None
    """Whose it is. Absent: nobody looked."""
    cores: tuple[int, ...] = ()
    """Numbers of the device's cores that it holds."""

    def described(
        self, name: str | None, user: str | None, owner: Owner, use: HostUse = _NOT_TOLD
    ) -> "Process":
        """The same with what is known of it besides."""
        return replace(self, name=name, user=user, owner=owner, **use._asdict())
