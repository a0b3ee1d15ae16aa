"""All AMD GPUs of a node: the files of the amdgpu driver, completed with the output of AMD's tools."""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from accelscope.model import Device, Process, Reading
from accelscope.model.device import UNKNOWN_HEALTH
from accelscope.vendors.amd.drm import Card, Cards, ComputeDriver, driver_version, slot_of
from accelscope.vendors.amd.gpu import Gpu, GpuContext, find_problems, worst_problem
from accelscope.vendors.amd.processes import OpenFiles, ProcessCandidates, ProcessLister
from accelscope.vendors.amd.tools import AmdTools, SmiReport
from accelscope.vendors.common.contract import ReaderOptions, Survey

# Each of the two dies of an MI250 module is a GPU to the driver. Depending on the driver's version, both dies
# or only the first report the power of the whole module. It is published at one of them.


def group_by_module(cards: Iterable[Card]) -> tuple[tuple[Card, ...], ...]:
    """The dies of each module: by the board's serial number, else by their positions in the XGMI hive, else
    in pairs in the order of the PCI bus."""
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


def find_dies_sharing_power(cards: Iterable[Card], without_power: Collection[str]) -> frozenset[str]:
    """Ids of the dies whose module reports its power at another die. `without_power` are the ids of dies that
    reported none."""
    sharing: set[str] = set()
    for module in group_by_module(cards):
        carrier = next((card for card in module if card.id not in without_power), module[0])
        sharing.update(card.id for card in module if card is not carrier)
    return frozenset(sharing)


class DriverSource:
    def __init__(self, options: ReaderOptions) -> None:
        self._paths = options.paths
        self._clock = options.clock
        self._monotonic = options.monotonic
        self._cards = Cards(options.paths.sys)
        self._compute = ComputeDriver(options.paths.sys)
        self._open_files = OpenFiles(options.paths.proc, options.monotonic)
        self._tools = AmdTools(options)
        self._first_answer_seconds = options.first_answer_seconds
        self._gpus: dict[str, Gpu] = {}
        self._contexts: dict[str, GpuContext] = {}
        self._readings: dict[str, Reading] = {}  # of devices that only a tool reports

    def survey(self) -> Survey:
        until = time.monotonic() + self._first_answer_seconds
        cards = self._cards.find()
        if not cards:
            return self._survey_without_files(until)
        self._readings = {}
        version = driver_version(self._paths.sys, self._paths.proc)
        nodes = self._compute.nodes()
        candidates = ProcessCandidates(self._compute.pids(), self._open_files.find())
        sharing = find_dies_sharing_power(
            cards, {key for key, gpu in self._gpus.items() if not gpu.shows_power}
        )
        slots = {card.id: slot_of(card.pci_address or "") for card in cards}
        measures = any(card.id not in self._gpus or self._gpus[card.id].needs_tool for card in cards)
        self._tools.expect(frozenset(slots.values()), measures=measures)
        report, failures = self._tools.latest(alone=False, until=until)
        tool_devices: Mapping[str, Device] = {}
        if report is not None:
            tool_devices = report.by_slot if measures else report.static_by_slot
        gpus, contexts = {}, {}
        for index, card in enumerate(cards):
            gpu = self._gpus.get(card.id)
            if gpu is None or gpu.card is not card:
                lister = ProcessLister(self._compute, self._open_files, self._monotonic)
                gpu = Gpu(card, lister, self._clock)
            gpus[card.id] = gpu
            slot = slots[card.id]
            contexts[card.id] = GpuContext(
                index=index,
                driver_version=version,
                nodes=nodes.get(slot, ()),
                shares_power=card.id in sharing,
                candidates=candidates,
                tool_device=tool_devices.get(slot),
            )
        self._gpus, self._contexts = gpus, contexts
        source = "sysfs" if report is None else f"sysfs+{report.source}"
        return Survey(source, tuple(gpus), version, warnings=failures)

    def read(self, key: str) -> Reading:
        if key in self._readings:
            return self._readings[key]
        return self._gpus[key].read(self._contexts[key])

    def close(self) -> None:
        self._tools.close()

    def _survey_without_files(self, until: float) -> Survey:
        self._gpus, self._contexts = {}, {}
        report, failures = self._tools.latest(alone=True, until=until)
        self._readings = self._readings_of(report) if report is not None else {}
        version = next(
            (r.device.driver_version for r in self._readings.values() if r.device.driver_version), None
        )
        return Survey(
            report.source if report is not None else "sysfs",
            tuple(self._readings),
            version or driver_version(self._paths.sys, self._paths.proc),
            warnings=failures,
        )

    def _readings_of(self, report: SmiReport) -> dict[str, Reading]:
        """Devices and processes as a tool reports them. A process without a GPU is attributed to the GPU only
        if there is no other."""
        now = self._clock()
        readings = {}
        for device in report.devices:
            problems = find_problems(device) if device.health == UNKNOWN_HEALTH else (device.health,)
            own = tuple(
                replace(process, device=device.id, device_index=device.index)
                for process in report.processes
                if _runs_on(process, device, only_device=len(report.devices) == 1)
            )
            readings[device.id] = Reading(
                replace(device, read_at=now, health=worst_problem(problems)), own, problems=problems
            )
        return readings


def _runs_on(process: Process, device: Device, *, only_device: bool) -> bool:
    return only_device if process.device_index is None else process.device_index == device.index
