"""The setting `disabledDevices`: devices that are not to be offered, by node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelscope.config import BadValue, Kind, Node, quoted
from accelscope.model import Device
from accelscope.vendors.furiosa.devfiles import core_file

_KEYS = ("devName", "nodeName")


@dataclass(frozen=True, slots=True)
class DisabledDevice:
    name: str  # of a device or of a file of its cores, an uuid, serial number, PCI address or offered id
    node: str | None = None  # None: on every node


class _DisabledDevices(Kind[tuple[DisabledDevice, ...]]):
    metavar = "NAME,..."
    allowed = (
        "a list of devices: names with commas between, or in the file entries of devName and nodeName "
        "(without nodeName: on every node)"
    )
    repeatable = True

    def parse(self, text: str) -> tuple[DisabledDevice, ...]:
        names = (name.strip() for name in text.split(","))
        return tuple(DisabledDevice(name) for name in names if name)

    def parse_node(self, node: Node) -> tuple[DisabledDevice, ...]:
        if isinstance(node, str):
            return self.parse(node)
        if not isinstance(node, Sequence):
            raise BadValue
        return tuple(_entry(item) for item in node)

    def text(self, value: tuple[DisabledDevice, ...]) -> str:
        return ",".join(each.name for each in value)


def _entry(item: Node) -> DisabledDevice:
    if isinstance(item, str) and item.strip():
        return DisabledDevice(item.strip())
    if not isinstance(item, Mapping):
        raise BadValue("an entry is neither a name nor devName with nodeName")
    unknown = sorted(set(item) - set(_KEYS))
    if unknown:
        raise BadValue(f"{quoted(unknown[0])} is none of {' and '.join(_KEYS)}")
    name, node = item.get("devName"), item.get("nodeName")
    if not isinstance(name, str) or not name.strip():
        raise BadValue("an entry has no devName")
    if node is not None and (not isinstance(node, str) or not node.strip()):
        raise BadValue(f"nodeName of {quoted(name)} is not a name")
    return DisabledDevice(name.strip(), node and node.strip())


DISABLED_DEVICES = _DisabledDevices()


class Disabled:
    """Those of one node, and the question whether something is one of them."""

    def __init__(self, devices: Iterable[DisabledDevice], node: str) -> None:
        self._spelling = {each.name.casefold(): each.name for each in devices if each.node in (None, node)}
        self._names = frozenset(self._spelling)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Disabled) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def whole(self, device: Device) -> bool:
        return not self._names.isdisjoint(_names(device))

    def unit(self, unit_id: str) -> bool:
        return unit_id.casefold() in self._names

    def cores(self, device: Device) -> frozenset[int]:
        """Of a card whose cores have device files of their own (npu0pe1)."""
        files = (core_file(name) for name in self._names)
        return frozenset(
            core for file in files if file is not None and file.index == device.index for core in file.cores
        )

    def unfitting(self, devices: Sequence[Device], unit_ids: Iterable[str]) -> tuple[str, ...]:
        """Names that are of nothing here, as they were written."""
        here = {name for device in devices for name in _names(device)}
        here.update(unit_id.casefold() for unit_id in unit_ids)
        indices = {device.index for device in devices}
        files = {name: core_file(name) for name in self._names - here}
        return tuple(
            written
            for name, written in self._spelling.items()
            if name in files and not ((file := files[name]) and file.cores and file.index in indices)
        )


def _names(device: Device) -> Iterable[str]:
    names = (device.device_name, device.uuid, device.serial, device.pci_address, device.id)
    return (name.casefold() for name in names if name is not None)
