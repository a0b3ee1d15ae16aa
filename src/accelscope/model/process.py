"""A process that uses a device."""

from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from enum import StrEnum
from operator import attrgetter
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
    """One process on one device: a process that uses two devices is two of these.

    `name` is the program's name only: arguments hold secrets and are never read.
    """

    pid: int
    device: str | None = None  # Device.id; a parser of one tool's output may know only the index
    device_index: int | None = None
    partition: str | None = None  # Partition.id
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    name: str | None = None
    user: str | None = None
    type: ProcessType | None = None
    mps: bool | None = None  # a client of NVIDIA's Multi-Process Service
    memory_bytes: int | None = None
    utilization_ratio: float | None = None
    memory_utilization_ratio: float | None = None
    encoder_utilization_ratio: float | None = None
    decoder_utilization_ratio: float | None = None
    # of the whole process on the node: the same in all entries of a process on several devices
    cpu_ratio: float | None = None  # 1.0: one CPU; measured between two collections, so None in the first
    resident_memory_bytes: int | None = None
    started_at: float | None = None  # seconds since the epoch
    owner: Owner | None = None  # None: nobody has looked
    cores: tuple[int, ...] = ()  # cores of the device that it holds, where the tool tells

    def described(
        self, name: str | None, user: str | None, owner: Owner, use: HostUse = _NOT_TOLD
    ) -> "Process":
        """The same with what is known of it besides. A tenth of the time of `dataclasses.replace`, which
        counts where there are thousands."""
        draft = _Draft(*_VALUES(self), name, user, owner, *use)
        _declare(draft, "__class__", Process)
        return draft


_declare = object.__setattr__
_DESCRIBED = ("name", "user", "owner", *HostUse._fields)
_NAMES = tuple(field.name for field in fields(Process) if field.name not in _DESCRIBED)
_VALUES = attrgetter(*_NAMES)
# Makes what has a Process's slots, but is not guarded at each of them, and is then declared to be one.
_Draft: Callable[..., Process] = make_dataclass("_Draft", (*_NAMES, *_DESCRIBED), slots=True)
