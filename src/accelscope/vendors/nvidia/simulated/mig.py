"""MIG: how a card may be cut, and how one card is cut.

A GPU instance owns memory and a share of the processors; the compute instances inside it share that memory.
What users see as a MIG device is one compute instance.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from accelscope.config.values import shown
from accelscope.simulate.section import DescriptionError

COMPUTE_SLICES = 7  # of every card that can be cut
MEMORY_SLICES = 8


@dataclass(frozen=True, slots=True)
class GpuProfile:
    name: str  # 3g.40gb
    slices: int
    memory_slices: int
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    first_id: int  # the driver numbers the instances of a size within a range of its own


H100_80GB_PROFILES = (
    GpuProfile("1g.10gb", 1, 1, 9984, 16, 1, 1, 7),
    GpuProfile("1g.20gb", 1, 2, 20096, 26, 1, 1, 7),
    GpuProfile("2g.20gb", 2, 2, 20096, 32, 2, 2, 3),
    GpuProfile("3g.40gb", 3, 4, 40448, 60, 3, 3, 1),
    GpuProfile("4g.40gb", 4, 4, 40448, 64, 4, 4, 1),
    GpuProfile("7g.80gb", 7, 8, 81152, 132, 8, 7, 0),
)
A100_40GB_PROFILES = (
    GpuProfile("1g.5gb", 1, 1, 4864, 14, 1, 0, 7),
    GpuProfile("1g.10gb", 1, 2, 9856, 14, 1, 1, 7),
    GpuProfile("2g.10gb", 2, 2, 9856, 28, 2, 1, 3),
    GpuProfile("3g.20gb", 3, 4, 19968, 42, 3, 2, 1),
    GpuProfile("4g.20gb", 4, 4, 19968, 56, 4, 2, 1),
    GpuProfile("7g.40gb", 7, 8, 40192, 98, 7, 5, 0),
)


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One compute instance; `index` is its number among the MIG devices of its card."""

    index: int
    profile: GpuProfile
    gpu_instance_id: int
    compute_instance_id: int
    compute_slices: int

    @property
    def name(self) -> str:
        if self.compute_slices == self.profile.slices:
            return self.profile.name
        return f"{self.compute_slices}c.{self.profile.name}"

    @property
    def multiprocessors(self) -> int:
        return self.profile.multiprocessors * self.compute_slices // self.profile.slices

    @property
    def share(self) -> float:
        """Of the whole card's processors."""
        return self.compute_slices / COMPUTE_SLICES


_COMPUTE_PROFILE = re.compile(r"(?:(\d)c\.)?(.+)")


def cut(
    profiles: tuple[GpuProfile, ...], layout: Iterable[tuple[str, tuple[str, ...]]], where: str
) -> tuple[MigDevice, ...]:
    """MIG devices from a layout of (GPU instance profile, its compute instance profiles; none: one that
    fills it). Raises DescriptionError when the card cannot be cut like that."""
    devices: list[MigDevice] = []
    used_ids: set[int] = set()
    slices = memory_slices = 0
    for profile_name, computes in layout:
        profile = next((p for p in profiles if p.name == profile_name), None)
        if profile is None:
            allowed = ", ".join(p.name for p in profiles) or "none, this model has no MIG"
            raise DescriptionError(f"{where}: {shown(profile_name)} is not a profile; allowed: {allowed}")
        slices += profile.slices
        memory_slices += profile.memory_slices
        instance = next(i for i in range(profile.first_id, 16) if i not in used_ids)
        used_ids.add(instance)
        sizes = [_compute_slices(name, profile, where) for name in computes or (profile.name,)]
        if sum(sizes) > profile.slices:
            raise DescriptionError(f"{where}: {profile.name} has {profile.slices} slices, not {sum(sizes)}")
        devices += [
            MigDevice(len(devices) + number, profile, instance, number, size)
            for number, size in enumerate(sizes)
        ]
    if slices > COMPUTE_SLICES or memory_slices > MEMORY_SLICES:
        raise DescriptionError(
            f"{where}: {slices} compute and {memory_slices} memory slices; "
            f"a card has {COMPUTE_SLICES} and {MEMORY_SLICES}"
        )
    return tuple(devices)


def _compute_slices(name: str, profile: GpuProfile, where: str) -> int:
    match = _COMPUTE_PROFILE.fullmatch(name)
    if match is None or match[2] != profile.name:
        raise DescriptionError(
            f"{where}: {shown(name)} is not a compute instance of {profile.name}; "
            f"allowed: {profile.name}, 1c.{profile.name} ..."
        )
    return int(match[1]) if match[1] else profile.slices
