"""A process that uses a device."""

from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter

from accelscope.model.workload import Owner


class ProcessType(StrEnum):
    COMPUTE = "compute"
    GRAPHICS = "graphics"
    BOTH = "both"


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
    owner: Owner | None = None  # None: nobody has looked
    cores: tuple[int, ...] = ()  # cores of the device that it holds, where the tool tells

    def described(self, *, name: str | None, user: str | None, owner: Owner) -> "Process":
        """The same with what is known of it besides. A third of the time of `dataclasses.replace`, which
        counts where there are thousands."""
        copy = object.__new__(Process)
        for put, value in zip(_PUT, _VALUES(self), strict=True):
            put(copy, value)
        _PUT_NAME(copy, name)
        _PUT_USER(copy, user)
        _PUT_OWNER(copy, owner)
        return copy


_NAMES = tuple(field.name for field in fields(Process))
_VALUES = attrgetter(*_NAMES)
_PUT = tuple(getattr(Process, name).__set__ for name in _NAMES)
_PUT_NAME, _PUT_USER, _PUT_OWNER = (getattr(Process, name).__set__ for name in ("name", "user", "owner"))
