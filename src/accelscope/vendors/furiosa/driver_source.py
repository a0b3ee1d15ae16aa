"""All cards of a node: the driver's classes in /sys and its sensors, with what only the tools tell.

Where /sys does not show the driver (a container that has the device files and a tool), the tools alone do.
"""

from collections import Counter
from dataclasses import replace

from accelscope.model import AbsenceReason, Device, HealthState, Reading, Rejection
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.files import PROCESSING_CLASS, pci_devices
from accelscope.vendors.common.files import entries as names_in
from accelscope.vendors.furiosa.card import CardReader, health_of, reading
from accelscope.vendors.furiosa.devfiles import card_files, folder_of
from accelscope.vendors.furiosa.draft import is_identified, stable_id
from accelscope.vendors.furiosa.sysfs import Attributes, Entries, Entry
from accelscope.vendors.furiosa.tools import Heard, Told, Tools, joined

PCI_CODES = (0x1ED2, PROCESSING_CLASS)  # FuriosaAI's vendor number, processing accelerators


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
        self._told: dict[str, Told] = {}  # by key, where there are only tools
        self._heard = Heard()
        self._shared_uuids: set[str] = set()  # seen at several cards, now or earlier: nobody's own
        self._without_sensors: set[str] | None = None  # keys; None: nobody has looked yet
        self._driver_version: str | None = None

    def survey(self) -> Survey:
        entries = self._entries.listed()
        if entries is None:
            self._shown = {}
            return self._survey_with_tools()
        self._shown = {entry.key: entry for entry in entries}
        self._told = {}
        self._shared_uuids |= self._entries.shared_uuids(entries)
        families = {entry.architecture for entry in entries}
        self._file_names = {family: names_in(str(folder_of(self._dev, family))) for family in families}
        found = self._tools.found() if entries else ()
        warboys = frozenset(entry.name for entry in entries if entry.architecture == "warboy")
        wanting = self._without_sensors is None or bool(self._without_sensors & self._shown.keys())
        self._heard = self._tools.look(found, warboys, info=wanting)
        self._without_sensors = self._without_sensors or set()
        return Survey(
            "sysfs",
            tuple(self._shown),
            self._entries.driver_version(entries),
            tuple(self._heard.rejected),
            warnings=tuple(self._heard.warnings),
        )

    def read(self, key: str) -> Reading:
        entry = self._shown.get(key)
        return self._read_told(key) if entry is None else self._read_card(key, entry)

    def close(self) -> None:
        """Nothing is held open."""

    def _read_card(self, key: str, entry: Entry) -> Reading:
        attributes = Attributes()
        card = self._identified(self._cards.identity(entry, attributes))
        files = card_files(self._file_names[entry.architecture], entry.index).cores
        card = replace(card, device_files=tuple(file.name for file in files))
        told = [view.of(card) for view in self._heard.views]
        one = _one([each for each in told if each is not None], self._heard.missing)
        sensors = self._cards.sensors(card, attributes)
        if self._without_sensors is not None:
            if sensors.sensors and sensors.power_watts is not None:
                self._without_sensors.discard(key)
            else:
                self._without_sensors.add(key)
        return self._cards.read(entry, card, sensors, attributes, told=one, now=self._clock())

    def _identified(self, card: Device) -> Device:
        """Cards that were given the same uuid have ids of their own, also when only one of them is left."""
        uuid = None if card.uuid in self._shared_uuids else card.uuid
        return replace(card, id=stable_id(uuid, card.serial, card.pci_address, card.index))

    def _survey_with_tools(self) -> Survey:
        found = self._tools.found()
        self._heard = heard = self._tools.look(found, frozenset(), info=True)
        rejected = list(heard.rejected)
        self._told = {}
        shown = [told for view in heard.views for told in view.cards]
        # Both tools may show the same card.
        cards = {(t.device.architecture, t.device.device_name, t.device.uuid) for t in shown}
        counts = Counter(uuid for _, _, uuid in cards)
        self._shared_uuids |= {uuid for uuid, count in counts.items() if uuid is not None and count > 1}
        identified = {
            (t.device.architecture, t.device.device_name): self._identified(t.device) for t in shown
        }
        cards_with_id = Counter(card.id for card in identified.values())
        for told in shown:
            device = self._identified(told.device)
            if cards_with_id[device.id] > 1 or not is_identified(device):
                rejected.append(Rejection(f"{device.device_name}", "unidentified"))
            else:
                self._told[device.id] = told
        if not self._told:
            self._explain_nothing(heard)
        if self._driver_version is None:
            self._driver_version = self._tools.driver_version(found, heard)
        return Survey(
            " and ".join(found),
            tuple(self._told),
            self._driver_version,
            tuple(rejected),
            warnings=tuple(heard.warnings),
        )

    def _explain_nothing(self, heard: Heard) -> None:
        """Raises what explains that the tools show no card; returns where all is well but there is none."""
        on_bus = pci_devices(self._sys, *PCI_CODES)
        if on_bus == ():
            raise DriverAbsent("a tool is here, but neither a driver nor a card")
        if heard.error is not None and heard.error.reason != "no_devices":
            raise heard.error
        if on_bus:
            raise ReaderError("driver_not_loaded", "there are cards on PCI, but their driver is not loaded")

    def _read_told(self, key: str) -> Reading:
        told = self._told.get(key)
        if told is None:
            raise DeviceLost("no tool shows this card any more", reason="not_shown")
        device = told.device
        now = self._clock()
        answered = device.temperature_celsius is not None or device.power_watts is not None
        # A tool without a word for liveness asked the card all the same, and it answered.
        alive = True if device.health.state is HealthState.UNKNOWN and answered else None
        values = {
            "health": health_of(now=now, alive=alive, told=device.health),
            "read_at": now,
            "driver_version": device.driver_version or self._driver_version,
        }
        return reading(replace(device, id=key), values, told, Attributes())


def _one(told: list[Told], missing: AbsenceReason) -> Told:
    """What all tools said of a card."""
    if not told:
        return Told(missing=missing)
    device = told[0].device
    for other in told[1:]:
        device = joined(device, other.device)
    processes = {process.pid: process for each in reversed(told) for process in each.processes}
    return Told(device, tuple(processes.values()), missing)
