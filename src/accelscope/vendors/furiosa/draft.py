"""The draft of a Furiosa card, and the id of a card."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from accelscope.model import AbsenceReason, Core, Device, Health, Vendor, device_id, pci_address
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.vendors.common.draft import TEXT_LIMIT, DeviceDraft
from accelscope.vendors.furiosa import cells
from accelscope.vendors.furiosa.devfiles import card_index

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
    return device_id(Vendor("furiosa"), uuid=own_uuid(uuid), index=index, **facts)


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
    return card.id != device_id(Vendor("furiosa"), index=card.index)


@dataclass(slots=True)
class FuriosaDraft(DeviceDraft):
    vendor: ClassVar[Vendor] = Vendor("furiosa")

    cores: dict[int, Core] = field(default_factory=dict)
    health: Health = UNKNOWN_HEALTH

    def absence(self, place: str, text: str) -> AbsenceReason | None:
        del place
        return cells.absence(text)

    def take_all(self, told: Mapping[str, object]) -> None:
        """Every cell that has a place."""
        for name, (place, read) in PLACES.items():
            if name in told:
                self.take(place, text_of(told[name]), read, name)

    @property
    def identified(self) -> bool:
        return any(place in self.values for place in ("device_name", "uuid", "pci_address"))

    def device(self) -> Device:
        told = self.values
        model = told.get("model")
        # The number in the name is the one by which all of the vendor's tools and files know the card.
        named = card_index(told.get("device_name", ""))
        index = told.get("index") if named is None else named
        return self.build(
            stable_id(told.get("uuid"), told.get("serial"), told.get("pci_address"), index),
            index=index,
            architecture=cells.architecture(model) if model else None,
            health=self.health,
            cores=tuple(self.cores[number] for number in sorted(self.cores)),
        )


def text_of(value: object) -> str:
    """A value of a document as the text of a cell: the same readers serve both."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    number = cells.plain_number(value)
    if number is None:
        return repr(value)[:TEXT_LIMIT]
    return str(number) if isinstance(number, int) else f"{number:.9f}"
