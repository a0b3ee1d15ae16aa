"""A Furiosa card: its device files, its id, and the draft that outputs of the tools are read into."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from accelscope.model import AbsenceReason, Core, Device, Health, Vendor, device_id, pci_address
from accelscope.model.device import UNKNOWN_HEALTH
from accelscope.vendors.common.draft import TEXT_LIMIT, DeviceDraft
from accelscope.vendors.common.values import between, digits_and_unit, identifier, scaled, words

# --- device files ---------------------------------------------------------
# The name of a file contains the cores that it opens.
#
# Warboy's are in /dev: `npu0` (all cores), `npu0pe0` (one), `npu0pe0-1` (two, fused), `npu0_mgmt`, `npu0ch0`,
# `npu0_bar0`. RNGD's are in /dev/rngd: `npu0pe0`, fusions of two and four, `npu0mgmt`, `npu0ch0`, `npu0ch0r`,
# `npu0dmar`, `npu0bar0`; it has no `npu0`. Both may be npu0 on one host, and numbers change at boot.


_CORES = re.compile(r"npu([0-9]{1,4})(?:pe([0-9]{1,3})(?:-([0-9]{1,3}))?)?", re.ASCII)
_SUPPORT = re.compile(r"npu([0-9]{1,4})_?(?:mgmt|ch[0-9]{1,2}r?|dmar|bar[0-9])", re.ASCII)
_FOLDERS = {"warboy": "", "rngd": "rngd"}


@dataclass(frozen=True, slots=True)
class CoreFile:
    name: str  # within the card's folder of /dev
    index: int  # of the card
    first: int | None = None  # core; None: the file opens all of them
    last: int | None = None

    @property
    def cores(self) -> tuple[int, ...]:
        """Empty: all cores of the card."""
        return () if self.first is None or self.last is None else tuple(range(self.first, self.last + 1))


@dataclass(frozen=True, slots=True)
class CardFiles:
    cores: tuple[CoreFile, ...] = ()
    support: tuple[str, ...] = ()  # management, channels, DMA and registers


def core_file(name: str) -> CoreFile | None:
    """`npu0pe0-1`, with or without the folders before it; None: not a file of cores."""
    bare = name.rpartition("/")[2]
    match = _CORES.fullmatch(bare)
    if match is None:
        return None
    index = int(match[1])
    if match[2] is None:
        return CoreFile(bare, index)
    first = int(match[2])
    last = first if match[3] is None else int(match[3])
    return CoreFile(bare, index, first, last) if first <= last else None


def card_index(name: str) -> int | None:
    """The number of a card by its name: `npu0`."""
    file = core_file(name)
    return file.index if file is not None and file.first is None else None


def card_files(names: Iterable[str], index: int) -> CardFiles:
    """The files of one card, among the names in its folder. Fusions come after single cores."""
    cores, support = [], []
    for name in names:
        file = core_file(name) if "/" not in name else None
        if file is not None and file.index == index:
            cores.append(file)
            continue
        other = _SUPPORT.fullmatch(name)
        if other is not None and int(other[1]) == index:
            support.append(name)
    cores.sort(key=lambda file: (len(file.cores), file.first or 0))
    return CardFiles(tuple(cores), tuple(sorted(support)))


def folder_of(dev: Path, architecture: str) -> Path:
    """The folder of a family's device files."""
    return dev / _FOLDERS[architecture]


# --- values of the tools --------------------------------------------------
# Readers of the cells of furiosa-smi and furiosactl. `absence` recognises a marker; `celsius`, `watts` and
# the others return a value in the model's base unit, or None for another text.

Value = float | int | bool | str
Read = Callable[[str], Value | None]

_CELL_LIMIT = 80  # characters of a marker; none is longer

_MARKERS: Mapping[str, AbsenceReason] = {
    "": AbsenceReason.NO_SAMPLE,
    "-": AbsenceReason.NO_SAMPLE,
    "none": AbsenceReason.NO_SAMPLE,
    "null": AbsenceReason.NO_SAMPLE,
    "n/a": AbsenceReason.NOT_SUPPORTED,
    "not supported": AbsenceReason.NOT_SUPPORTED,
    "not available": AbsenceReason.NOT_SUPPORTED,
    "unsupported": AbsenceReason.NOT_SUPPORTED,
    "unknown": AbsenceReason.NOT_KNOWN,
    "permission denied": AbsenceReason.NO_PERMISSION,
    "timeout": AbsenceReason.TIMEOUT,
    "error": AbsenceReason.DRIVER_ERROR,
    "failed": AbsenceReason.DRIVER_ERROR,
}

# The degree sign in several encodings, and as replacement characters.
_CELSIUS = dict.fromkeys(("", "c", "°c", "ºc", "℃", "â°c", "\ufffdc", "\ufffd\ufffdc"), 1.0)
_WATTS = {"": 1.0, "w": 1.0, "mw": 1e-3, "kw": 1e3}
_HERTZ = {"": 1e6, "mhz": 1e6, "khz": 1e3, "ghz": 1e9, "hz": 1.0}
_PERCENT = {"": 1.0, "%": 1.0}
# Binary multiples, also where the tool writes MB: 47.50 GiB of a card are exactly its 51002736640 bytes.
_BYTES = {
    "b": 1,
    **dict.fromkeys(("k", "kb", "kib"), 2**10),
    **dict.fromkeys(("m", "mb", "mib"), 2**20),
    **dict.fromkeys(("g", "gb", "gib"), 2**30),
    **dict.fromkeys(("t", "tb", "tib"), 2**40),
}

# Past these a number is a wrapped or uninitialised register, not a measurement.
_MAX_RATIO = 10.0
_MAX_WATTS = 1e5
_MAX_HERTZ = 1e12
_MIN_CELSIUS, _MAX_CELSIUS = -273.15, 1000.0
_MAX_INTEGER = 2**63 - 1


def absence(text: str) -> AbsenceReason | None:
    """The reason that a marker gives, or None if the text is not a marker."""
    return None if len(text) > _CELL_LIMIT else _MARKERS.get(text.strip().casefold())


def architecture(text: str) -> str | None:
    """The family of a model: `FuriosaAI Warboy`, `warboy`, `RNGD`, `rngd-max`, and RNGD's former name."""
    folded = text.casefold()[:256]
    if "warboy" in folded:
        return "warboy"
    return "rngd" if "rngd" in folded or "renegade" in folded else None


def device_number(text: str) -> str | None:
    """`511:0`, the major and minor number of a device file."""
    match = re.fullmatch(r"\s*([0-9]{1,10}:[0-9]{1,10})\s*", text, re.ASCII)
    return match and match[1]


def governor(text: str) -> str | None:
    """As the driver writes it: `performance`, where furiosa-smi has `Performance`."""
    found = words(text)
    return found and found.casefold()


def count(text: str) -> int | None:
    parts = digits_and_unit(text)
    if parts is None or parts[1] or "." in parts[0]:
        return None
    number = int(parts[0])
    return number if 0 <= number <= _MAX_INTEGER else None


def ratio(text: str) -> float | None:
    """From percent, with or without the sign."""
    percent = scaled(text, _PERCENT)
    return None if percent is None else between(round(percent / 100, 9), 0, _MAX_RATIO)


def watts(text: str) -> float | None:
    return between(scaled(text, _WATTS), 0, _MAX_WATTS)


def hertz(text: str) -> float | None:
    """Hertz; a bare number is MHz."""
    return between(scaled(text, _HERTZ), 0, _MAX_HERTZ)


def celsius(text: str) -> float | None:
    return between(scaled(text, _CELSIUS), _MIN_CELSIUS, _MAX_CELSIUS)


def memory(text: str) -> int | None:
    """Bytes, from a number with a unit."""
    parts = digits_and_unit(text)
    if parts is None or parts[1] not in _BYTES:
        return None
    number = round(float(parts[0]) * _BYTES[parts[1]])
    return number if 0 <= number <= _MAX_INTEGER else None


def plain_number(value: object) -> float | None:
    """A number of a JSON document, without a unit; None for another value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= _MAX_INTEGER and math.isfinite(value) else None


# Identifiers of zeros, or hidden by a person before passing the output on.
_MASKED = re.compile(r"[*<>]|x{4}", re.IGNORECASE)
_MASKED_SERIAL = re.compile(r".*([*<>]|x{4}|0{8}).*|[0-]+", re.IGNORECASE | re.DOTALL)


def card_name(text: str) -> str | None:
    bare = text.strip().rpartition("/")[2]
    return bare if card_index(bare) is not None else None


# Columns of tables and keys of documents, by the names of `column_name`. Of several for one place, the first
# in the output counts.
PLACES: Mapping[str, tuple[str, Read]] = {
    "device": ("device_name", card_name),
    "dev_name": ("device_name", card_name),
    "npu": ("device_name", card_name),
    "index": ("index", count),
    "product_name": ("model", words),
    "name": ("model", words),
    "arch": ("model", words),
    "uuid": ("uuid", identifier),
    "device_uuid": ("uuid", identifier),
    "s_n": ("serial", identifier),
    "sn": ("serial", identifier),
    "device_sn": ("serial", identifier),
    "serial": ("serial", identifier),
    "firmware": ("firmware_version", words),
    "firmware_version": ("firmware_version", words),
    "pert": ("runtime_version", words),
    "governor": ("governor", governor),
    "pci_dev": ("device_number", device_number),
    "temp": ("temperature_celsius", celsius),
    "temperature": ("temperature_celsius", celsius),
    "power": ("power_watts", watts),
    "core_clock": ("clocks.npu", hertz),
    "clock": ("clocks.npu", hertz),
    "memory_clock": ("clocks.memory", hertz),
    "pci_bdf": ("pci_address", pci_address),
    "bdf": ("pci_address", pci_address),
}


def stable_id(uuid: str | None, serial: str | None, pci: str | None, index: int | None = None) -> str:
    """The id of a card. Masked identifiers do not count: other cards may have the same. The address goes
    before the serial number: a card without a valid uuid often has no valid serial number either, and two
    cards of a node cannot have the same address."""
    own_serial = None if serial and _MASKED_SERIAL.fullmatch(serial) else serial
    facts: dict[str, str | None] = {"pci": pci} if pci else {"serial": own_serial}
    return device_id(Vendor("furiosa"), uuid=own_uuid(uuid), index=index, **facts)


def own_uuid(uuid: str | None) -> str | None:
    """None also for a masked uuid, or one whose digits are all the same."""
    if uuid is None or _MASKED.search(uuid) or len(set(uuid.casefold()) - {"-"}) < 2:
        return None
    return uuid


def with_unique_ids(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Cards that report the same uuid get ids from other values. The same applies to serial numbers of cards
    without an address."""
    uuids = Counter(device.uuid for device in devices)
    found = [
        replace(each, id=stable_id(None, each.serial, each.pci_address, each.index))
        if each.uuid and uuids[each.uuid] > 1
        else each
        for each in devices
    ]
    ids = Counter(device.id for device in found)
    return tuple(
        replace(each, id=stable_id(None, None, each.pci_address, each.index)) if ids[each.id] > 1 else each
        for each in found
    )


def is_identified(card: Device) -> bool:
    """Whether the id of a card is more than its index."""
    return card.id != device_id(Vendor("furiosa"), index=card.index)


@dataclass(slots=True)
class FuriosaDraft(DeviceDraft):
    vendor: ClassVar[Vendor] = Vendor("furiosa")

    cores: dict[int, Core] = field(default_factory=dict)
    health: Health = UNKNOWN_HEALTH

    def absence(self, place: str, text: str) -> AbsenceReason | None:
        del place
        return absence(text)

    def take_all(self, cells: Mapping[str, object]) -> None:
        """Every cell that has a place."""
        for name, (place, read) in PLACES.items():
            if name in cells:
                self.take(place, text_of(cells[name]), read, name)

    @property
    def identified(self) -> bool:
        return any(place in self.values for place in ("device_name", "uuid", "pci_address"))

    def device(self) -> Device:
        values = self.values
        model = values.get("model")
        # The vendor's tools and files use the number in the name.
        named = card_index(values.get("device_name", ""))
        index = values.get("index") if named is None else named
        return self.build(
            stable_id(values.get("uuid"), values.get("serial"), values.get("pci_address"), index),
            index=index,
            architecture=architecture(model) if model else None,
            health=self.health,
            cores=tuple(self.cores[number] for number in sorted(self.cores)),
        )


def text_of(value: object) -> str:
    """A value of a document as the text of a cell: the same readers serve both."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    number = plain_number(value)
    if number is None:
        return repr(value)[:TEXT_LIMIT]
    return str(number) if isinstance(number, int) else f"{number:.9f}"
