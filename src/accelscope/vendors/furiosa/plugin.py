"""Furiosa's cards: whole, by the core, or in partitions.

Names (npu0) are given anew at each boot, and move up when a card drops out. So the kubelet keeps a card's
uuid, and the name is looked up when a container gets it.
"""

import re
from collections.abc import Iterable, Sequence

from accelscope.deviceplugin.vendor import Edits, Given, Mount, Node, NotAvailable, Roots, Unit, once
from accelscope.model import Device
from accelscope.vendors.common.contract import DeviceLost
from accelscope.vendors.furiosa.card import CardReader
from accelscope.vendors.furiosa.devfiles import CardFiles, CoreFile, card_files, folder_of
from accelscope.vendors.furiosa.draft import own_uuid
from accelscope.vendors.furiosa.sysfs import CLASSES, Attributes, Entries

LEGACY = "beta.furiosa.ai/npu"
_PARTITION_RESOURCES = {
    1: "furiosa.ai/rngd-1core.6gb",
    2: "furiosa.ai/rngd-2core.12gb",
    4: "furiosa.ai/rngd-4core.24gb",
}
_FAMILIES = ("warboy", "rngd")
_WARBOY_SUPPORT = re.compile(r"npu[0-9]+(_mgmt|ch[0-9]+)", re.ASCII)
_CDI_KIND = "furiosa.ai/npu"
# Of Warboy's first plugins; nothing is known to read it, and whoever does keeps it.
_DEPRECATED_ANNOTATION = "alpha.furiosa.ai/npu.devname"


class FuriosaPart:
    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def usual_resource(self, devices: Sequence[Device], partition_cores: int) -> str:  # noqa: ARG002
        return _PARTITION_RESOURCES.get(partition_cores, LEGACY)

    def belongs(self, device: Device, resource: str, partition_cores: int) -> bool:
        """A resource that names a family is of that family's cards; only RNGD has partitions."""
        name = resource.partition("/")[2]
        family = next((family for family in _FAMILIES if name.startswith(family)), None)
        if partition_cores:
            return device.architecture == "rngd"
        return device.architecture in _FAMILIES and family in (None, device.architecture)

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:  # noqa: ARG002
        stable = own_uuid(device.uuid) or device.pci_address
        files = self._files(device).cores
        if stable is None or not files:
            return ()
        if not cores_per_unit:
            return (Unit(stable),)
        return tuple(
            Unit(f"{stable}_cores_{_span(file)}", file.cores)
            for file in files
            if len(file.cores) == cores_per_unit
        )

    def cdi_name(self, device: Device) -> str | None:
        """Of either family: a Warboy and an RNGD may have the same."""
        return None if device.device_name is None else f"{_CDI_KIND}={device.device_name}"

    def edits(self, given: Sequence[Given], *, cdi: bool) -> Edits:
        placed = [(each, self._now(each.device)) for each in given]
        if cdi:
            cdi_names = (self.cdi_name(card) for _, card in placed)
            return Edits(cdi=tuple(dict.fromkeys(name for name in cdi_names if name is not None)))
        nodes: dict[Node, None] = {}
        mounts: dict[Mount, None] = {}
        names: list[str] = []
        warboys: list[str] = []
        for each, card in placed:
            files = self._files(card)
            own = [file for file in files.cores if _within(file, each.cores)]
            if not own:
                raise NotAvailable(f"{card.device_name}: its device files are not in {self._folder(card)}")
            covering = _covering(own)
            names += covering
            if card.architecture == "warboy":
                warboys += covering
            support = [name for name in files.support if _is_given(name, card)]
            nodes |= dict.fromkeys(self._node(name, card) for name in (*support, *(f.name for f in own)))
            mounts |= dict.fromkeys(self._mounts(card))
        return Edits(
            nodes=tuple(nodes),
            mounts=tuple(mounts),
            environment={
                "NPU_DEVNAME": once(names),
                "NPU_NPUNAME": once(card.device_name or "" for _, card in placed),
                "NPU_PENAME": once(name[name.index("pe") :] for name in names if "pe" in name),
            },
            annotations={_DEPRECATED_ANNOTATION: once(warboys)} if warboys else {},
        )

    def _now(self, device: Device) -> Device:
        """The same card under the name that it has now."""
        entries = Entries(self._roots.sys).listed()
        if entries is None:
            return device  # only a tool shows it here: its last word
        reader = CardReader(self._roots.sys)
        cards: list[Device] = []
        for entry in entries:
            try:
                cards.append(reader.identity(entry, Attributes()))
            except DeviceLost:
                continue  # not the one that is looked for, or it cannot be given
        same = [card for card in cards if device.uuid is not None and card.uuid == device.uuid]
        if len(same) != 1:  # no uuid, or none just now, or the same one given to several cards
            same = [card for card in same or cards if _could_be(card, device)]
        if len(same) != 1:
            raise NotAvailable(f"{device.uuid or device.pci_address}: the driver does not show this card now")
        return same[0]

    def _folder(self, card: Device) -> str:
        return str(folder_of(self._roots.dev, card.architecture or "warboy"))

    def _files(self, card: Device) -> CardFiles:
        folder = folder_of(self._roots.dev, card.architecture or "warboy")
        try:
            names = [path.name for path in folder.iterdir()]
        except OSError:
            return CardFiles()
        return CardFiles() if card.index is None else card_files(names, card.index)

    def _node(self, name: str, card: Device) -> Node:
        below = folder_of(self._roots.dev, card.architecture or "warboy").relative_to(self._roots.dev) / name
        return Node(f"{self._roots.container_dev}/{below}", f"{self._roots.host_dev}/{below}")

    def _mounts(self, card: Device) -> Iterable[Mount]:
        """The driver's class, and of the folders that it links to those of this card."""
        own = re.compile(rf"([a-z]+!)?npu{card.index}(?![0-9]).*", re.ASCII)
        for name, family in CLASSES:
            real = self._roots.sys / "devices/virtual" / name
            if family != card.architecture or not real.is_dir():
                continue
            folders = sorted(path.name for path in real.iterdir() if own.fullmatch(path.name))
            below = [f"class/{name}", *(f"devices/virtual/{name}/{folder}" for folder in folders)]
            for path in below:
                yield Mount(f"{self._roots.container_sys}/{path}", f"{self._roots.host_sys}/{path}")


def open_part(roots: Roots) -> FuriosaPart:
    return FuriosaPart(roots)


def _could_be(card: Device, device: Device) -> bool:
    """In its place, and not known to be another."""
    in_place = device.pci_address is not None and card.pci_address == device.pci_address
    return in_place and (card.uuid == device.uuid or None in (card.uuid, device.uuid))


def _span(file: CoreFile) -> str:
    return f"{file.first}" if file.first == file.last else f"{file.first}-{file.last}"


def _within(file: CoreFile, cores: tuple[int, ...]) -> bool:
    """Whether the file opens these cores only; all may be opened where all are given."""
    return not cores or (bool(file.cores) and set(file.cores) <= set(cores))


def _covering(files: Sequence[CoreFile]) -> list[str]:
    """The fewest files that open all cores, each once: the largest fusions, then what they leave."""
    covered: set[int] = set()
    chosen: list[CoreFile] = []
    for file in sorted(files, key=lambda file: (-len(file.cores), file.first or 0)):
        if file.cores and covered.isdisjoint(file.cores):
            covered.update(file.cores)
            chosen.append(file)
    chosen.sort(key=lambda file: file.first or 0)
    return [file.name for file in chosen] or [files[0].name]


def _is_given(name: str, card: Device) -> bool:
    """Warboy's containers had no use for the card's registers."""
    return card.architecture != "warboy" or _WARBOY_SUPPORT.fullmatch(name) is not None
