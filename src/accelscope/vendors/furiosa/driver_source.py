"""All cards of a node: the driver's classes in /sys and its sensors, and values that only the tools have.

Without the driver in /sys, as in a container with the device files and a tool, the tools are the only source.
"""

from collections import Counter
from dataclasses import replace

from accelscope.model import AbsenceReason, Device, HealthState, Reading, Rejection
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.files import PROCESSING_CLASS, pci_devices
from accelscope.vendors.common.files import entries as names_in
from accelscope.vendors.furiosa.card import CardReader, find_problems, health_of, reading
from accelscope.vendors.furiosa.draft import card_files, folder_of, is_identified, stable_id
from accelscope.vendors.furiosa.sysfs import Attributes, Entries, Entry
from accelscope.vendors.furiosa.tools import ToolCard, ToolPass, Tools, merge_cards

PCI_CODES = (0x1ED2, PROCESSING_CLASS)  # FuriosaAI's vendor id, processing accelerators


class DriverSource:
    def __init__(self, options: ReaderOptions) -> None:
        self._sys = options.paths.sys
        self._dev = options.paths.dev
        self._clock = options.clock
        self._entries = Entries(self._sys)
        self._cards = CardReader(self._sys)
        self._tools = Tools(options)
        self._shown: dict[str, Entry] = {}
        self._file_names: dict[str, list[str]] = {}  # in /dev, by family
        self._device_files: dict[str, tuple[str, ...]] = {}  # by key, made from `_file_names`
        # By key: a card as the driver identifies it, and with its id and files, which are the same each time.
        self._identified_cards: dict[str, tuple[Device, Device]] = {}
        self._tool_cards: dict[str, ToolCard] = {}  # by key, without the driver in /sys
        self._outcome = ToolPass()
        self._uuids: dict[str, str | None] = {}  # by key, as the last survey read them
        self._shared_uuids: set[str] = set()  # reported by several cards, now or earlier
        self._without_sensors: set[str] | None = None  # keys; None: not read yet
        self._without_use: set[str] | None = None  # likewise, of cards whose status only the tool has
        self._driver_version: str | None = None

    def survey(self) -> Survey:
        entries = self._entries.listed()
        if entries is None:
            self._shown = {}
            return self._survey_with_tools()
        self._shown = {entry.key: entry for entry in entries}
        self._tool_cards = {}
        self._uuids = self._entries.uuids(entries)
        counts = Counter(self._uuids.values())
        self._shared_uuids |= {uuid for uuid, count in counts.items() if uuid is not None and count > 1}
        families = {entry.architecture for entry in entries}
        file_names = {family: names_in(str(folder_of(self._dev, family))) for family in families}
        if file_names != self._file_names:
            self._file_names, self._device_files = file_names, {}
        found = self._tools.found() if entries else ()
        warboys = frozenset(entry.name for entry in entries if entry.architecture == "warboy")
        needs_info = self._without_sensors is None or bool(self._without_sensors & self._shown.keys())
        needs_status = self._without_use is None or bool(self._without_use & self._shown.keys())
        self._outcome = self._tools.run(found, warboys, info=needs_info, status=needs_status or bool(warboys))
        self._without_sensors = self._without_sensors or set()
        self._without_use = self._without_use or set()
        return Survey(
            "sysfs",
            tuple(self._shown),
            self._entries.driver_version(entries),
            tuple(self._outcome.rejected),
            warnings=tuple(self._outcome.warnings),
        )

    def read(self, key: str) -> Reading:
        entry = self._shown.get(key)
        return self._read_tool_card(key) if entry is None else self._read_card(key, entry)

    def close(self) -> None:
        """No files stay open."""

    def _read_card(self, key: str, entry: Entry) -> Reading:
        attributes = Attributes()
        card = self._identity(entry, attributes)
        found = [view.find(card) for view in self._outcome.views]
        tool_card = _merged([each for each in found if each is not None], self._outcome.missing)
        sensors = self._cards.sensors(entry, card, attributes)
        if self._without_sensors is not None:
            if sensors.sensors and sensors.power_watts is not None:
                self._without_sensors.discard(key)
            else:
                self._without_sensors.add(key)
        result = self._cards.read(entry, card, sensors, attributes, tool_card=tool_card, now=self._clock())
        if self._without_use is not None:
            if self._cards.has_use(card.id):
                self._without_use.discard(key)
            else:
                self._without_use.add(key)
        return result

    def _identity(self, entry: Entry, attributes: Attributes) -> Device:
        found = self._cards.identity(entry, attributes, self._uuids.get(entry.key))
        id_, files = self._id(found), self._files(entry)
        known, card = self._identified_cards.get(entry.key, (None, found))
        if known is not found or card.id != id_ or card.device_files != files:
            card = replace(found, id=id_, device_files=files)
            self._identified_cards[entry.key] = found, card
        return card

    def _files(self, entry: Entry) -> tuple[str, ...]:
        files = self._device_files.get(entry.key)
        if files is None:
            found = card_files(self._file_names[entry.architecture], entry.index).cores
            files = self._device_files[entry.key] = tuple(file.name for file in found)
        return files

    def _id(self, card: Device) -> str:
        """A uuid that several cards reported is not used for the id, also when only one of them is left."""
        uuid = None if card.uuid in self._shared_uuids else card.uuid
        return stable_id(uuid, card.serial, card.pci_address, card.index)

    def _identified(self, card: Device) -> Device:
        return replace(card, id=self._id(card))

    def _survey_with_tools(self) -> Survey:
        found = self._tools.found()
        self._outcome = outcome = self._tools.run(found, frozenset(), info=True)
        rejected = list(outcome.rejected)
        self._tool_cards = {}
        shown = [card for view in outcome.views for card in view.cards]
        # Both tools may show the same card.
        cards = {(c.device.architecture, c.device.device_name, c.device.uuid) for c in shown}
        counts = Counter(uuid for _, _, uuid in cards)
        self._shared_uuids |= {uuid for uuid, count in counts.items() if uuid is not None and count > 1}
        identified = {
            (c.device.architecture, c.device.device_name): self._identified(c.device) for c in shown
        }
        cards_with_id = Counter(card.id for card in identified.values())
        for card in shown:
            device = self._identified(card.device)
            if cards_with_id[device.id] > 1 or not is_identified(device):
                rejected.append(Rejection(f"{device.device_name}", "unidentified"))
            else:
                self._tool_cards[device.id] = card
        if not self._tool_cards:
            self._explain_missing_cards(outcome)
        if self._driver_version is None:
            self._driver_version = self._tools.driver_version(found, outcome)
        return Survey(
            " and ".join(found),
            tuple(self._tool_cards),
            self._driver_version,
            tuple(rejected),
            warnings=tuple(outcome.warnings),
        )

    def _explain_missing_cards(self, outcome: ToolPass) -> None:
        """Raises the reason why the tools list no card; returns if there is none to explain."""
        on_bus = pci_devices(self._sys, *PCI_CODES)
        if on_bus == ():
            raise DriverAbsent("a tool is installed, but there is neither a driver nor a card")
        if outcome.error is not None and outcome.error.reason != "no_devices":
            raise outcome.error
        if on_bus:
            raise ReaderError("driver_not_loaded", "there are cards on PCI, but their driver is not loaded")

    def _read_tool_card(self, key: str) -> Reading:
        tool_card = self._tool_cards.get(key)
        if tool_card is None:
            raise DeviceLost("no tool lists this card any more", reason="not_shown")
        device = tool_card.device
        now = self._clock()
        answered = device.temperature_celsius is not None or device.power_watts is not None
        # The tool prints no liveness, but it read values from the card.
        alive = True if device.health.state is HealthState.UNKNOWN and answered else None
        problems = find_problems(alive=alive, reported=device.health)
        values = {
            "health": health_of(problems, device.health),
            "read_at": now,
            "driver_version": device.driver_version or self._driver_version,
        }
        return reading(replace(device, id=key), values, tool_card, Attributes(), problems)


def _merged(cards: list[ToolCard], missing: AbsenceReason) -> ToolCard:
    """One card from the outputs of all tools."""
    if not cards:
        return ToolCard(missing=missing)
    device = cards[0].device
    for other in cards[1:]:
        device = merge_cards(device, other.device)
    processes = {process.pid: process for each in reversed(cards) for process in each.processes}
    return ToolCard(device, tuple(processes.values()), missing)
