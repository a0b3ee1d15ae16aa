"""All AMD GPUs of a node: the files of the amdgpu driver, and beside them what only its tools tell."""

import time
from collections.abc import Collection, Iterable
from dataclasses import replace

from accelscope.model import Device, Process, Reading
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.vendors.amd.drm import Card, Cards, ComputeDriver, driver_version, slot_of
from accelscope.vendors.amd.gpu import Gpu, Place, health_of
from accelscope.vendors.amd.processes import Holders, OpenFiles, ProcessLister
from accelscope.vendors.amd.tools import Answer, Tools
from accelscope.vendors.common.contract import ReaderOptions, Survey

# Dies that share a module, and with it one measurement of power.
#
# An MI250 shows each of its two dies as a GPU. Both, or the first only, show the power of the whole module,
# by the version of the driver. It is counted at one of them.


def modules(cards: Iterable[Card]) -> tuple[tuple[Card, ...], ...]:
    """Dies of the same module together, by the board's serial number, else by their places in the hive of
    links, else in pairs as they come on the bus."""
    dies = [card for card in cards if card.dual_die]
    groups: dict[object, list[Card]] = {}
    for number, card in enumerate(dies):
        key: object = ("pair", number // 2)
        if card.serial is not None:
            key = ("serial", card.serial)
        elif card.xgmi_hive is not None and card.xgmi_place is not None:
            key = ("hive", card.xgmi_hive, card.xgmi_place // 2)
        groups.setdefault(key, []).append(card)
    return tuple(tuple(group) for group in groups.values())


def sharing_power(cards: Iterable[Card], dark: Collection[str]) -> frozenset[str]:
    """Ids of dies whose module's power is counted at another one. `dark` are those that showed none."""
    shared: set[str] = set()
    for module in modules(cards):
        carrier = next((card for card in module if card.id not in dark), module[0])
        shared.update(card.id for card in module if card is not carrier)
    return frozenset(shared)


class DriverSource:
    def __init__(self, options: ReaderOptions) -> None:
        self._paths = options.paths
        self._clock = options.clock
        self._monotonic = options.monotonic
        self._cards = Cards(options.paths.sys)
        self._compute = ComputeDriver(options.paths.sys)
        self._open_files = OpenFiles(options.paths.proc, options.monotonic)
        self._tools = Tools(options)
        self._first_answer_seconds = options.first_answer_seconds
        self._gpus: dict[str, Gpu] = {}
        self._places: dict[str, Place] = {}
        self._readings: dict[str, Reading] = {}  # of devices that only a tool shows

    def survey(self) -> Survey:
        until = time.monotonic() + self._first_answer_seconds
        cards = self._cards.find()
        if not cards:
            return self._survey_without_files(until)
        self._readings = {}
        version = driver_version(self._paths.sys, self._paths.proc)
        nodes = self._compute.nodes()
        holders = Holders(self._compute.pids(), self._open_files.find())
        sharing = sharing_power(cards, {key for key, gpu in self._gpus.items() if not gpu.shows_power})
        answer, failures = self._tools.latest(alone=False, until=until)
        gpus, places = {}, {}
        for index, card in enumerate(cards):
            known = self._gpus.get(card.id)
            if known is None or known.card is not card:
                lister = ProcessLister(self._compute, self._open_files, self._monotonic)
                known = Gpu(card, lister, self._clock)
            gpus[card.id] = known
            slot = slot_of(card.pci_address or "")
            places[card.id] = Place(
                index=index,
                driver_version=version,
                nodes=nodes.get(slot, ()),
                shares_power=card.id in sharing,
                holders=holders,
                told=answer.by_slot.get(slot) if answer is not None else None,
            )
        self._gpus, self._places = gpus, places
        source = "sysfs" if answer is None else f"sysfs+{answer.source}"
        return Survey(source, tuple(gpus), version, warnings=failures)

    def read(self, key: str) -> Reading:
        if key in self._readings:
            return self._readings[key]
        return self._gpus[key].read(self._places[key])

    def close(self) -> None:
        self._tools.close()

    def _survey_without_files(self, until: float) -> Survey:
        self._gpus, self._places = {}, {}
        answer, failures = self._tools.latest(alone=True, until=until)
        self._readings = self._told_alone(answer) if answer is not None else {}
        version = next(
            (r.device.driver_version for r in self._readings.values() if r.device.driver_version), None
        )
        return Survey(
            answer.source if answer is not None else "sysfs",
            tuple(self._readings),
            version or driver_version(self._paths.sys, self._paths.proc),
            warnings=failures,
        )

    def _told_alone(self, answer: Answer) -> dict[str, Reading]:
        """Devices and processes as a tool shows them. A process that it names without a GPU is of the only
        one there is, or of none that could be told."""
        now = self._clock()
        readings = {}
        for device in answer.devices:
            health = device.health
            if health == UNKNOWN_HEALTH:
                health = health_of(device, now=now)
            own = tuple(
                replace(process, device=device.id, device_index=device.index)
                for process in answer.processes
                if _is_on(process, device, alone=len(answer.devices) == 1)
            )
            readings[device.id] = Reading(replace(device, read_at=now, health=health), own)
        return readings


def _is_on(process: Process, device: Device, *, alone: bool) -> bool:
    return alone if process.device_index is None else process.device_index == device.index
