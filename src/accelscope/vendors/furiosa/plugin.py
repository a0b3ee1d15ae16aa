"""Furiosa's cards in device plugins: whole, by the core, or in partitions; and the device ids of Furiosa's
plugins.

The kernel assigns names (npu0) at each boot, and they move up when a card fails. The kubelet therefore gets a
card's uuid as its id, and the plugin looks up the name when a container gets the card.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, whole
from accelscope.deviceplugin.vendor import (
    AllocatedDevice,
    ContainerEdits,
    DeviceNode,
    DeviceUnavailable,
    Division,
    DivisionError,
    Mount,
    NamedCores,
    Roots,
    Unit,
    comma_separated,
)
from accelscope.model import Device, Vendor
from accelscope.vendors.common.contract import DeviceLost
from accelscope.vendors.furiosa import DEFAULT_PE, PARTITION
from accelscope.vendors.furiosa.card import CardReader
from accelscope.vendors.furiosa.draft import CardFiles, CoreFile, card_files, core_file, folder_of, own_uuid
from accelscope.vendors.furiosa.sysfs import CLASSES, Attributes, Entries

LEGACY = "beta.furiosa.ai/npu"
_PARTITION_RESOURCES = {
    1: "furiosa.ai/rngd-1core.6gb",
    2: "furiosa.ai/rngd-2core.12gb",
    4: "furiosa.ai/rngd-4core.24gb",
}
_CORES_OF_PARTITION = {"none": 0, "single-core": 1, "dual-core": 2, "quad-core": 4}
_FAMILIES = ("rngd", "warboy")
_WARBOY_SUPPORT = re.compile(r"npu[0-9]+(_mgmt|ch[0-9]+)", re.ASCII)
_CDI_KIND = "furiosa.ai/npu"
# Set by the first Warboy plugins. No reader of it is known; it stays for programs that may use it.
_DEPRECATED_ANNOTATION = "alpha.furiosa.ai/npu.devname"


def division(values: Mapping[str, str]) -> Division:
    partition_cores = _CORES_OF_PARTITION[PARTITION.of(values)]
    single = DEFAULT_PE.of(values) == "Single"
    if partition_cores and single:
        raise DivisionError("--partition and --default-pe Single exclude each other: give one of them")
    return Division(1 if single else partition_cores, partition_cores)


def named_cores(name: str) -> NamedCores | None:
    """`npu0pe1` is core 1 of card 0."""
    file = core_file(name)
    return None if file is None else NamedCores(file.index, file.cores)


class FuriosaPlugin:
    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def default_resource(self, devices: Sequence[Device], partition_cores: int) -> str:  # noqa: ARG002
        return _PARTITION_RESOURCES.get(partition_cores, LEGACY)

    def serves(self, device: Device, resource: str, partition_cores: int) -> bool:
        """A resource with the name of a family is for that family's cards. Only RNGD has partitions."""
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
        """Not unique: a Warboy and an RNGD on one node may both be npu0."""
        return None if device.device_name is None else f"{_CDI_KIND}={device.device_name}"

    def container_edits(self, allocated: Sequence[AllocatedDevice], *, cdi: bool) -> ContainerEdits:
        current = [(each, self._current(each.device)) for each in allocated]
        if cdi:
            cdi_names = (self.cdi_name(card) for _, card in current)
            return ContainerEdits(cdi=tuple(dict.fromkeys(name for name in cdi_names if name is not None)))
        nodes: dict[DeviceNode, None] = {}
        mounts: dict[Mount, None] = {}
        names: list[str] = []
        warboys: list[str] = []
        for each, card in current:
            files = self._files(card)
            own = [file for file in files.cores if _opens_only(file, each.cores)]
            if not own:
                raise DeviceUnavailable(
                    f"{card.device_name}: its device files are not in {self._folder(card)}"
                )
            covering = _covering(own)
            names += covering
            if card.architecture == "warboy":
                warboys += covering
            support = [name for name in files.support if _is_for_containers(name, card)]
            nodes |= dict.fromkeys(self._node(name, card) for name in (*support, *(f.name for f in own)))
            mounts |= dict.fromkeys(self._mounts(card))
        return ContainerEdits(
            nodes=tuple(nodes),
            mounts=tuple(mounts),
            environment={
                "NPU_DEVNAME": comma_separated(names),
                "NPU_NPUNAME": comma_separated(card.device_name or "" for _, card in current),
                "NPU_PENAME": comma_separated(name[name.index("pe") :] for name in names if "pe" in name),
            },
            annotations={_DEPRECATED_ANNOTATION: comma_separated(warboys)} if warboys else {},
        )

    def _current(self, device: Device) -> Device:
        """The same card with its current name."""
        entries = Entries(self._roots.sys).listed()
        if entries is None:
            return device  # only a tool shows the card: there is nothing newer than the last reading
        reader = CardReader(self._roots.sys)
        cards: list[Device] = []
        for entry in entries:
            try:
                cards.append(reader.identity(entry, Attributes()))
            except DeviceLost:
                continue  # another card, or one that cannot be allocated
        same = [card for card in cards if device.uuid is not None and card.uuid == device.uuid]
        if len(same) != 1:  # no uuid, or a uuid that several cards have
            same = [card for card in same or cards if _may_be_same(card, device)]
        if len(same) != 1:
            raise DeviceUnavailable(
                f"{device.uuid or device.pci_address}: the driver does not list this card now"
            )
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

    def _node(self, name: str, card: Device) -> DeviceNode:
        below = folder_of(self._roots.dev, card.architecture or "warboy").relative_to(self._roots.dev) / name
        return DeviceNode(f"{self._roots.container_dev}/{below}", f"{self._roots.host_dev}/{below}")

    def _mounts(self, card: Device) -> Iterable[Mount]:
        """The folder of the driver's class, and the folders of this card that it links to."""
        own = re.compile(rf"([a-z]+!)?npu{card.index}(?![0-9]).*", re.ASCII)
        for name, family in CLASSES:
            real = self._roots.sys / "devices/virtual" / name
            if family != card.architecture or not real.is_dir():
                continue
            folders = sorted(path.name for path in real.iterdir() if own.fullmatch(path.name))
            below = [f"class/{name}", *(f"devices/virtual/{name}/{folder}" for folder in folders)]
            for path in below:
                yield Mount(f"{self._roots.container_sys}/{path}", f"{self._roots.host_sys}/{path}")


def open_part(roots: Roots) -> FuriosaPlugin:
    return FuriosaPlugin(roots)


def _may_be_same(card: Device, device: Device) -> bool:
    """At the same PCI address, and without another uuid."""
    same_address = device.pci_address is not None and card.pci_address == device.pci_address
    return same_address and (card.uuid == device.uuid or None in (card.uuid, device.uuid))


def _span(file: CoreFile) -> str:
    return f"{file.first}" if file.first == file.last else f"{file.first}-{file.last}"


def _opens_only(file: CoreFile, cores: tuple[int, ...]) -> bool:
    """Whether the file opens no other cores than these; no cores: all of the card."""
    return not cores or (bool(file.cores) and set(file.cores) <= set(cores))


def _covering(files: Sequence[CoreFile]) -> list[str]:
    """The fewest files that open each core once: the largest fusions first, then the remaining cores."""
    covered: set[int] = set()
    chosen: list[CoreFile] = []
    for file in sorted(files, key=lambda file: (-len(file.cores), file.first or 0)):
        if file.cores and covered.isdisjoint(file.cores):
            covered.update(file.cores)
            chosen.append(file)
    chosen.sort(key=lambda file: file.first or 0)
    return [file.name for file in chosen] or [files[0].name]


def _is_for_containers(name: str, card: Device) -> bool:
    """Warboy's containers do not get the files of the card's registers."""
    return card.architecture != "warboy" or _WARBOY_SUPPORT.fullmatch(name) is not None


# --- device ids -----------------------------------------------------------


_CORES = re.compile(r"(.+)_cores_[0-9]+(?:-[0-9]+)?", re.ASCII)
_FILE = re.compile(r"(npu[0-9]{1,4})(?:pe[0-9]{1,2}(?:-[0-9]{1,2})?)?", re.ASCII)


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    if cores := _CORES.fullmatch(bare):
        found = devices.by_uuid(cores[1], Vendor("furiosa"))
        # Cards without a unique uuid are identified by their address.
        return found if found.device is not None else whole(devices.by_pci(cores[1], Vendor("furiosa")))
    file = _FILE.fullmatch(bare)
    if resource is None or file is None:
        return UNRESOLVED
    # A Warboy and an RNGD of one node may both be npu0.
    family = next((family for family in _FAMILIES if family in resource.partition("/")[2]), None)
    return whole(devices.by_file(file[1], Vendor("furiosa"), family))
