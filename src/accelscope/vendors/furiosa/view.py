"""What one tool told in one pass: its cards, each with its processes.

A card is found by PCI address, else by uuid, else by family and name. Names are good for one pass only, and
not where address or uuid say otherwise.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

from accelscope.model import AbsenceReason, Core, Device, Process, Rejection, Vendor

_WARBOY_CORES = 2
_OF_CORES = tuple(field.name for field in fields(Core) if field.name != "index")
NO_DEVICE = Device(vendor=Vendor("furiosa"), id="")

# What one source tells where another does not; cores and health are joined by themselves.
JOINED = (
    "model",
    "uuid",
    "serial",
    "pci_address",
    "driver_version",
    "firmware_version",
    "runtime_version",
    "device_number",
    "device_files",
    "governor",
    "memory_total_bytes",
    "memory_used_bytes",
    "temperature_celsius",
    "power_watts",
    "clocks",
    "rails",
)


@dataclass(frozen=True, slots=True)
class Told:
    """Of one card. `missing` is why the tools did not tell what only they know."""

    device: Device = NO_DEVICE
    processes: tuple[Process, ...] = ()
    missing: AbsenceReason = AbsenceReason.NOT_KNOWN


@dataclass(frozen=True, slots=True)
class View:
    cards: tuple[Told, ...] = ()
    rejected: tuple[Rejection, ...] = field(default=())

    def of(self, card: Device) -> Told | None:
        for fits in (_same_place, _same_uuid, _same_name):
            for told in self.cards:
                if fits(told.device, card):
                    return told
        return None


def view_of(
    family: str, info: Iterable[Device], state: Iterable[Device], processes: Iterable[Process]
) -> View:
    """`info` and `state` are two outputs of one tool about the same cards; `family` is that of cards of which
    it does not say it."""
    cards: dict[tuple[str, str | None], Device] = {}
    for device in (*info, *state):
        architecture = device.architecture or family
        key = (architecture, device.device_name)
        device = replace(device, architecture=architecture)  # noqa: PLW2901 - the same card, more known
        cards[key] = joined(cards[key], device) if key in cards else device
    held: dict[tuple[str, str | None], list[Process]] = {}
    rejected: list[Rejection] = []
    for process in processes:
        owners = [key for key, device in cards.items() if device.index == process.device_index]
        if len(owners) > 1:
            owners = [key for key in owners if _fits(cards[key], process)]
        if not owners and not any(d.index == process.device_index for d in cards.values()):
            name = f"npu{process.device_index}"
            stub = replace(NO_DEVICE, architecture=family, device_name=name, index=process.device_index)
            cards[family, name] = stub
            owners = [(family, name)]
        if len(owners) == 1:
            held.setdefault(owners[0], []).append(process)
        else:
            rejected.append(Rejection(f"pid {process.pid}: npu{process.device_index}", "ambiguous_card"))
    return View(
        tuple(Told(device, tuple(held.get(key, ()))) for key, device in cards.items()), tuple(rejected)
    )


def joined(first: Device, second: Device) -> Device:
    """Two views of one card: the first's values, and the second's where it has none."""
    added = {
        name: getattr(second, name)
        for name in JOINED
        if getattr(first, name) in (None, ()) and getattr(second, name) not in (None, ())
    }
    health = first.health if first.health != NO_DEVICE.health else second.health
    absent = {absence.field: absence for absence in (*second.absent, *first.absent)}
    return replace(
        first,
        **added,
        health=health,
        cores=joined_cores(first.cores, second.cores),
        absent=tuple(absent.values()),
    )


def joined_cores(first: tuple[Core, ...], second: tuple[Core, ...]) -> tuple[Core, ...]:
    cores = {core.index: core for core in first}
    for other in second:
        core = cores.get(other.index, other)
        added = {name: getattr(other, name) for name in _OF_CORES if getattr(core, name) is None}
        cores[other.index] = replace(core, **added)
    return tuple(cores[index] for index in sorted(cores))


def _fits(device: Device, process: Process) -> bool:
    cores = len(device.cores) or (_WARBOY_CORES if device.architecture == "warboy" else 0)
    needed = max(process.cores, default=0)
    # A process that needs more cores than a Warboy has is not on one; one that needs fewer could be on both.
    return not cores or needed < cores


def _same_place(told: Device, card: Device) -> bool:
    return told.pci_address is not None and told.pci_address == card.pci_address


def _same_uuid(told: Device, card: Device) -> bool:
    """Cards may have been given the same one: their places tell them apart."""
    return told.uuid is not None and told.uuid == card.uuid and not _elsewhere(told, card)


def _same_name(told: Device, card: Device) -> bool:
    if (told.architecture, told.device_name) != (card.architecture, card.device_name):
        return False
    other = told.uuid is not None and card.uuid is not None and told.uuid != card.uuid
    return not other and not _elsewhere(told, card)


def _elsewhere(told: Device, card: Device) -> bool:
    return None not in (told.pci_address, card.pci_address) and told.pci_address != card.pci_address
