"""The compute side of the driver, /sys/class/kfd: its view of the GPUs and their partitions, and the
processes that compute on them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accelscope.vendors.amd import quantities
from accelscope.vendors.common.files import entries, told

_PROPERTY = re.compile(r"^([a-z_]{1,40}) ([0-9]{1,20})$", re.MULTILINE | re.ASCII)
# Where the kernel keeps the render nodes of all partitions but a GPU's first, which has the GPU's own. Older
# kernels write a dot before the number.
_PLATFORM_DEVICE = re.compile(
    r"(?:.*/)?devices/platform/(amdgpu_xcp[_.][0-9]{1,4})/drm/renderD[0-9]{1,6}", re.ASCII
)
_PID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class KfdNode:
    """A GPU, or one partition of it."""

    folder: str
    gpu_id: int  # by which files of processes name it
    slot: str  # PCI address without the function, which counts partitions
    partition: int
    render_node: str | None
    render_link: str | None  # of that node in /sys/class/drm
    compute_units: int | None
    architecture: str | None

    def memory(self) -> tuple[int | None, int | None]:
        """Bytes of its own memory, in all and in use."""
        bank = f"{self.folder}/mem_banks/0"
        total = _properties(told(f"{bank}/properties") or "").get("size_in_bytes")
        return total, quantities.count(told(f"{bank}/used_memory") or "")

    def device_name(self) -> str | None:
        """Of the platform device that holds its render node, if one does. Not kept with the rest: a driver
        that is being loaded shows its nodes here before their links."""
        if self.render_link is None:
            return None
        try:
            target = os.readlink(self.render_link)  # noqa: PTH115 - a path of text
        except OSError:
            return None
        found = _PLATFORM_DEVICE.fullmatch(target)
        return None if found is None else found[1]


@dataclass(frozen=True, slots=True)
class ComputeUse:
    memory_bytes: int
    occupied_ratio: float | None  # share of the compute units that hold work of the process


class ComputeDriver:
    def __init__(self, sys: Path) -> None:
        self._root = f"{sys}/class/kfd/kfd"
        self._drm = f"{sys}/class/drm"
        self._generation: str | None = None
        self._nodes: Mapping[str, tuple[KfdNode, ...]] = {}

    def nodes(self) -> Mapping[str, tuple[KfdNode, ...]]:
        """By slot, in the order of partitions. Read anew when the kernel says that something changed."""
        generation = told(f"{self._root}/topology/generation_id")
        if generation is None or generation != self._generation:
            self._nodes = self._read_nodes()
            self._generation = generation
        return self._nodes

    def pids(self) -> tuple[int, ...]:
        """Processes that have the compute driver open, by the node's numbers."""
        return tuple(int(name) for name in entries(f"{self._root}/proc") if _PID.fullmatch(name))

    def use(self, pid: int, node: KfdNode) -> ComputeUse | None:
        """None: the process does nothing there. A process is shown for every GPU once it computes on one."""
        folder = f"{self._root}/proc/{pid}"
        memory = quantities.count(told(f"{folder}/vram_{node.gpu_id}") or "")
        if memory is None:
            return None
        occupied = quantities.count(told(f"{folder}/stats_{node.gpu_id}/cu_occupancy") or "")
        if not memory and not occupied:
            return None
        ratio = None
        if occupied is not None and node.compute_units:
            ratio = round(min(1.0, occupied / node.compute_units), 9)
        return ComputeUse(memory, ratio)

    def _read_nodes(self) -> Mapping[str, tuple[KfdNode, ...]]:
        found: dict[str, list[KfdNode]] = {}
        folder = f"{self._root}/topology/nodes"
        for name in sorted(filter(str.isdecimal, entries(folder)), key=int):
            node = _node(f"{folder}/{name}", self._drm)
            if node is not None:
                found.setdefault(node.slot, []).append(node)
        return {slot: tuple(sorted(nodes, key=lambda n: n.partition)) for slot, nodes in found.items()}


def slot_of(pci_address: str) -> str:
    return pci_address.rpartition(".")[0]


def _node(folder: str, drm: str) -> KfdNode | None:
    gpu_id = quantities.count(told(f"{folder}/gpu_id") or "")
    if not gpu_id:
        return None  # a processor, or a node that this container may not see
    facts = _properties(told(f"{folder}/properties") or "")
    place = facts.get("location_id")
    if place is None:
        return None
    minor = facts.get("drm_render_minor")
    simds, per_unit = facts.get("simd_count"), facts.get("simd_per_cu")
    return KfdNode(
        folder=folder,
        gpu_id=gpu_id,
        slot=f"{facts.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}",
        # Where the number of the partition stands changed: in the top bits now, in the function before.
        partition=(place >> 28 & 0xF) or (place & 0x7),
        render_node=f"renderD{minor}" if minor else None,
        render_link=f"{drm}/renderD{minor}" if minor else None,
        compute_units=simds // per_unit if simds and per_unit else None,
        architecture=_architecture(facts.get("gfx_target_version")),
    )


def _properties(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _PROPERTY.findall(text)}


def _architecture(version: int | None) -> str | None:
    """90402 is gfx942, 90010 is gfx90a: two digits each of major, minor and stepping."""
    if not version:
        return None
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
