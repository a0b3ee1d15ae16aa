"""The identity of GPUs, from /sys/class/drm, and their partitions and compute processes, from /sys/class/kfd.

The kernel returns all of this from its own memory, also for a GPU that hangs or is suspended.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from accelscope.model import Vendor, device_id, pci_address
from accelscope.vendors.amd import quantities
from accelscope.vendors.common.files import entries, read_optional
from accelscope.vendors.common.values import identifier

_CARD = re.compile(r"card([0-9]{1,6})", re.ASCII)  # without connectors, such as card0-DP-1
_RENDER_NODE = re.compile(r"renderD[0-9]{1,6}", re.ASCII)
_SLOT = re.compile(r"^PCI_SLOT_NAME=(\S+)$", re.MULTILINE)
_VENDOR_CODE = "0x1002"
_DRIVER = "amdgpu"
_DRIVER_FILE = "mem_info_vram_total"  # only amdgpu creates it

# PCI device ids of modules with two dies (MI250X, MI250).
DUAL_DIE_CODES = frozenset({0x7408, 0x740C})


@dataclass(frozen=True, slots=True)
class Card:
    id: str
    name: str  # card0; the number is not the GPU's index, since a server's BMC display may come first
    folder: str  # of the device
    pci_address: str | None  # None if sysfs does not show the bus
    code: int | None  # PCI device id of the chip
    nodes: tuple[str, ...]  # device files under /dev/dri
    uuid: str | None = None
    serial: str | None = None
    product_name: str | None = None
    part_number: str | None = None  # of the board
    firmware_version: str | None = None
    numa_node: int | None = None
    xgmi_hive: str | None = None
    xgmi_place: int | None = None  # position of the die in its hive

    @property
    def dual_die(self) -> bool:
        return self.code in DUAL_DIE_CODES

    @property
    def render_node(self) -> str | None:
        return next((node for node in self.nodes if _RENDER_NODE.fullmatch(node)), None)


class Cards:
    """The cards of a node. The identity of a card does not change, so it is read once."""

    def __init__(self, sys: Path) -> None:
        self._drm = f"{sys}/class/drm"
        self._known: dict[str, tuple[object, Card | None]] = {}
        self._repeated: set[str | None] = set()  # unique ids that several cards reported

    def find(self) -> tuple[Card, ...]:
        """In the order of PCI addresses, as AMD's tools number GPUs."""
        known: dict[str, tuple[object, Card | None]] = {}
        for name in entries(self._drm):
            if not _CARD.fullmatch(name):
                continue
            folder = f"{self._drm}/{name}/device"
            version = _version_of(folder)
            before = self._known.get(name)
            card = before[1] if before is not None and before[0] == version else _read_card(folder, name)
            known[name] = version, card
        self._known = known
        self._avoid_repeated_ids()
        found = [card for _, card in known.values() if card is not None]
        return tuple(sorted(found, key=lambda card: (card.pci_address or "", card.name)))

    def _avoid_repeated_ids(self) -> None:
        """Cards that report the same unique id get ids from their PCI addresses: all of them, and
        permanently. So adding or removing one card does not change the id of another."""
        counts = Counter(card.uuid for _, card in self._known.values() if card is not None and card.uuid)
        self._repeated.update(uuid for uuid, count in counts.items() if count > 1)
        for name, (version, card) in self._known.items():
            if card is not None and card.uuid in self._repeated:
                id_ = device_id(Vendor("amd"), pci=card.pci_address, index=_card_number(name))
                if card.id != id_:
                    self._known[name] = version, replace(card, id=id_)


def driver_version(sys: Path, proc: Path) -> str | None:
    """The version of AMD's kernel module; for the in-tree module the kernel release."""
    return read_optional(f"{sys}/module/{_DRIVER}/version") or (
        read_optional(f"{proc}/sys/kernel/osrelease") if driver_loaded(sys) else None
    )


def driver_loaded(sys: Path) -> bool:
    return os.path.isdir(f"{sys}/module/{_DRIVER}")  # noqa: PTH112 - checked in every survey


def _version_of(folder: str) -> object:
    """Changes when the kernel recreates the device."""
    try:
        return os.stat(folder).st_ino, read_optional(f"{folder}/uevent")  # noqa: PTH116 - a path of text
    except OSError:
        return None


def _read_card(folder: str, name: str) -> Card | None:
    if (read_optional(f"{folder}/vendor") or "").casefold() != _VENDOR_CODE:
        return None
    uevent = read_optional(f"{folder}/uevent") or ""
    if not _is_bound_to_amdgpu(folder, uevent):
        return None
    slot = _SLOT.search(uevent)
    address = pci_address(slot[1] if slot else os.path.realpath(folder).rpartition("/")[2])
    uuid = quantities.unique_id(read_optional(f"{folder}/unique_id") or "")
    code = read_optional(f"{folder}/device") or ""
    numa = read_optional(f"{folder}/numa_node") or ""
    place = read_optional(f"{folder}/xgmi_physical_id")
    return Card(
        id=device_id(Vendor("amd"), uuid=uuid, pci=address, index=_card_number(name)),
        name=name,
        folder=folder,
        pci_address=address,
        code=int(code, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", code) else None,
        nodes=(*filter(_RENDER_NODE.fullmatch, entries(f"{folder}/drm")), name),
        uuid=uuid,
        serial=_identifier(read_optional(f"{folder}/serial_number")),
        product_name=_product_name(read_optional(f"{folder}/product_name")),
        part_number=_identifier(read_optional(f"{folder}/product_number")),
        firmware_version=quantities.words(read_optional(f"{folder}/vbios_version") or ""),
        numa_node=quantities.numa_node(numa),
        xgmi_hive=read_optional(f"{folder}/xgmi_hive_info/xgmi_hive_id"),
        xgmi_place=quantities.count(place) if place else None,
    )


def _card_number(name: str) -> int:
    return int(name.removeprefix("card"))


def _is_bound_to_amdgpu(folder: str, uevent: str) -> bool:
    """False for a GPU that is passed through to a virtual machine or bound to the driver of older chips. If
    sysfs shows no driver, a file that only amdgpu creates decides."""
    try:
        return os.readlink(f"{folder}/driver").rpartition("/")[2] == _DRIVER  # noqa: PTH115 - a path of text
    except OSError:
        drivers = [line.removeprefix("DRIVER=") for line in uevent.split("\n") if line.startswith("DRIVER=")]
        return drivers == [_DRIVER] or (not uevent and read_optional(f"{folder}/{_DRIVER_FILE}") is not None)


def _identifier(text: str | None) -> str | None:
    if text is None or quantities.absence(text) is not None or not text.strip("0x"):
        return None
    return identifier(text)


def _product_name(text: str | None) -> str | None:
    return None if text is None or quantities.absence(text) is not None else quantities.name(text)


# The compute driver, /sys/class/kfd: a node for each GPU or partition, and the processes that compute on
# them.

_PROPERTY = re.compile(r"^([a-z_]{1,40}) ([0-9]{1,20})$", re.MULTILINE | re.ASCII)
# The platform device of a partition's render node. The first partition has the render node of the GPU. Older
# kernels write a dot before the number.
_PLATFORM_DEVICE = re.compile(
    r"(?:.*/)?devices/platform/(amdgpu_xcp[_.][0-9]{1,4})/drm/renderD[0-9]{1,6}", re.ASCII
)
_PID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class KfdNode:
    """A GPU, or one partition of it."""

    folder: str
    gpu_id: int  # as in the names of the processes' files
    slot: str  # PCI address without the function, which is the number of the partition
    partition: int
    render_node: str | None
    render_link: str | None  # path of that node in /sys/class/drm
    compute_units: int | None
    architecture: str | None

    def memory(self) -> tuple[int | None, int | None]:
        """Bytes of its memory, total and used."""
        bank = f"{self.folder}/mem_banks/0"
        total = _properties(read_optional(f"{bank}/properties") or "").get("size_in_bytes")
        return total, quantities.count(read_optional(f"{bank}/used_memory") or "")

    def device_name(self) -> str | None:
        """The platform device of its render node, if there is one. Read each time: a driver that is being
        loaded creates its nodes before the links to them."""
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
    occupied_ratio: float | None  # fraction of the compute units that run work of the process


class ComputeDriver:
    def __init__(self, sys: Path) -> None:
        self._root = f"{sys}/class/kfd/kfd"
        self._drm = f"{sys}/class/drm"
        self._generation: str | None = None
        self._nodes: Mapping[str, tuple[KfdNode, ...]] = {}

    def nodes(self) -> Mapping[str, tuple[KfdNode, ...]]:
        """By slot, in the order of partitions. Read again when the kernel's generation number changes."""
        generation = read_optional(f"{self._root}/topology/generation_id")
        if generation is None or generation != self._generation:
            self._nodes = self._read_nodes()
            self._generation = generation
        return self._nodes

    def pids(self) -> tuple[int, ...]:
        """Processes that have the compute driver open, with pids of the host."""
        return tuple(int(name) for name in entries(f"{self._root}/proc") if _PID.fullmatch(name))

    def use(self, pid: int, node: KfdNode) -> ComputeUse | None:
        """None if the process does not use the GPU: a compute process is listed under every GPU. It cannot
        run anything on a GPU without memory there, which its queues need."""
        folder = f"{self._root}/proc/{pid}"
        memory = quantities.count(read_optional(f"{folder}/vram_{node.gpu_id}") or "")
        if not memory:
            return None
        occupied = quantities.count(read_optional(f"{folder}/stats_{node.gpu_id}/cu_occupancy") or "")
        ratio = None
        if occupied is not None and node.compute_units:
            ratio = round(min(1.0, occupied / node.compute_units), 9)
        return ComputeUse(memory, ratio)

    def _read_nodes(self) -> Mapping[str, tuple[KfdNode, ...]]:
        found: dict[str, list[KfdNode]] = {}
        folder = f"{self._root}/topology/nodes"
        for name in sorted(filter(str.isdecimal, entries(folder)), key=int):
            node = _read_node(f"{folder}/{name}", self._drm)
            if node is not None:
                found.setdefault(node.slot, []).append(node)
        return {slot: tuple(sorted(nodes, key=lambda n: n.partition)) for slot, nodes in found.items()}


def slot_of(pci_address: str) -> str:
    return pci_address.rpartition(".")[0]


def _read_node(folder: str, drm: str) -> KfdNode | None:
    gpu_id = quantities.count(read_optional(f"{folder}/gpu_id") or "")
    if not gpu_id:
        return None  # a CPU, or a node that this container may not see
    properties = _properties(read_optional(f"{folder}/properties") or "")
    location = properties.get("location_id")
    if location is None:
        return None
    minor = properties.get("drm_render_minor")
    simds, per_unit = properties.get("simd_count"), properties.get("simd_per_cu")
    return KfdNode(
        folder=folder,
        gpu_id=gpu_id,
        slot=f"{properties.get('domain', 0):04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}",
        # New kernels have the partition's number in the top bits, older ones in the function.
        partition=(location >> 28 & 0xF) or (location & 0x7),
        render_node=f"renderD{minor}" if minor else None,
        render_link=f"{drm}/renderD{minor}" if minor else None,
        compute_units=simds // per_unit if simds and per_unit else None,
        architecture=_architecture(properties.get("gfx_target_version")),
    )


def _properties(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _PROPERTY.findall(text)}


def _architecture(version: int | None) -> str | None:
    """90402 is gfx942, 90010 is gfx90a: two digits each of major, minor and stepping."""
    if not version:
        return None
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
