"""A card while its cells are read: what each gave, and why others gave nothing.

A *place* is where a value goes in the model, as a path: `power_watts`, `clocks.npu`. The same paths name what
is absent.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from accelscope.model import (
    Absence,
    AbsenceReason,
    Clock,
    Core,
    Device,
    Health,
    Rejection,
    Vendor,
    device_id,
    pci_address,
)
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.readers.furiosa import cells
from accelscope.readers.furiosa.devfiles import card_index

_CELL_LIMIT = 200  # characters of a rejected cell that are kept
# Of a card that was never given one (zeros), or that somebody hid before passing the output on.
_MASKED = re.compile(r"[*<>]|x{4}", re.IGNORECASE)
_MASKED_SERIAL = re.compile(r".*([*<>]|x{4}|0{8}).*|[0-]+", re.IGNORECASE | re.DOTALL)


def card_name(text: str) -> str | None:
    bare = text.strip().rpartition("/")[2]
    return bare if card_index(bare) is not None else None


# Columns of tables and keys of documents, by the names of `tables.column_name`. Of several for one place the
# first that the output has is taken.
PLACES: Mapping[str, tuple[str, cells.Read]] = {
    "device": ("device_name", card_name),
    "dev_name": ("device_name", card_name),
    "npu": ("device_name", card_name),
    "index": ("index", cells.count),
    "product_name": ("model", cells.words),
    "name": ("model", cells.words),
    "arch": ("model", cells.words),
    "uuid": ("uuid", cells.identifier),
    "device_uuid": ("uuid", cells.identifier),
    "s_n": ("serial", cells.identifier),
    "sn": ("serial", cells.identifier),
    "device_sn": ("serial", cells.identifier),
    "serial": ("serial", cells.identifier),
    "firmware": ("firmware_version", cells.words),
    "firmware_version": ("firmware_version", cells.words),
    "pert": ("runtime_version", cells.words),
    "governor": ("governor", cells.governor),
    "pci_dev": ("device_number", cells.device_number),
    "temp": ("temperature_celsius", cells.celsius),
    "temperature": ("temperature_celsius", cells.celsius),
    "power": ("power_watts", cells.watts),
    "core_clock": ("clocks.npu", cells.hertz),
    "clock": ("clocks.npu", cells.hertz),
    "memory_clock": ("clocks.memory", cells.hertz),
    "pci_bdf": ("pci_address", pci_address),
    "bdf": ("pci_address", pci_address),
}


def stable_id(uuid: str | None, serial: str | None, pci: str | None, index: int | None = None) -> str:
    """Of a card. Masked identifiers do not count: other cards may have the same. The address goes before the
    serial number: a card without a uuid of its own often has no serial number of its own either, and two
    cards of a node cannot have the same address."""
    own_serial = None if serial and _MASKED_SERIAL.fullmatch(serial) else serial
    facts: dict[str, str | None] = {"pci": pci} if pci else {"serial": own_serial}
    return device_id(Vendor.FURIOSA, uuid=own_uuid(uuid), index=index, **facts)


def own_uuid(uuid: str | None) -> str | None:
    """None also for one that is masked, or whose digits are all the same."""
    if uuid is None or _MASKED.search(uuid) or len(set(uuid.casefold()) - {"-"}) < 2:
        return None
    return uuid


def with_unique_ids(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Cards that were given the same uuid get ids of their own: none of them has it. The same for serial
    numbers of cards without an address."""
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
    return card.id != device_id(Vendor.FURIOSA, index=card.index)


@dataclass(slots=True)
class Draft:
    values: dict[str, Any] = field(default_factory=dict)
    absences: dict[str, AbsenceReason] = field(default_factory=dict)
    rejected: list[Rejection] = field(default_factory=list)
    cores: dict[int, Core] = field(default_factory=dict)
    health: Health = UNKNOWN_HEALTH

    def take(self, place: str, text: str, read: cells.Read, source: str) -> None:
        """Read one cell into its place, unless a preferred cell is there already."""
        if place in self.values:
            return
        reason = cells.absence(text)
        if reason is None:
            value = read(text)
            if value is not None:
                self.values[place] = value
                self.absences.pop(place, None)
                return
            self.reject(source, text)
            reason = AbsenceReason.UNREADABLE
        self.absences.setdefault(place, reason)

    def take_all(self, told: Mapping[str, object]) -> None:
        """Every cell that has a place."""
        for name, (place, read) in PLACES.items():
            if name in told:
                self.take(place, text_of(told[name]), read, name)

    def reject(self, source: str, text: str) -> None:
        self.rejected.append(Rejection(f"{source}: {text.strip()[:_CELL_LIMIT]}", "unreadable"))

    @property
    def identified(self) -> bool:
        return any(place in self.values for place in ("device_name", "uuid", "pci_address"))

    def device(self) -> Device:
        told = {place: value for place, value in self.values.items() if "." not in place}
        model = told.get("model")
        named = card_index(told.get("device_name", ""))
        if named is not None:
            told["index"] = named  # the number by which all of the vendor's tools and files know the card
        return Device(
            vendor=Vendor.FURIOSA,
            id=stable_id(told.get("uuid"), told.get("serial"), told.get("pci_address"), told.get("index")),
            architecture=cells.architecture(model) if model else None,
            health=self.health,
            cores=tuple(self.cores[index] for index in sorted(self.cores)),
            clocks=tuple(
                Clock(place.partition(".")[2], hertz=value)
                for place, value in self.values.items()
                if place.startswith("clocks.")
            ),
            absent=tuple(Absence(place, reason) for place, reason in self.absences.items()),
            **told,
        )


def text_of(value: object) -> str:
    """A value of a document as the text of a cell: the same readers serve both."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    number = cells.plain_number(value)
    if number is None:
        return repr(value)[:_CELL_LIMIT]
    return str(number) if isinstance(number, int) else f"{number:.9f}"
