"""All AMD GPUs of a node: the files of the amdgpu driver, and beside them what only its tools tell."""

import time
from dataclasses import replace

from accelscope.model import Device, Process, Reading
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.readers.amd.drm import Cards, driver_version
from accelscope.readers.amd.fdinfo import OpenFiles
from accelscope.readers.amd.gpu import Gpu, Place
from accelscope.readers.amd.health import health_of
from accelscope.readers.amd.kfd import ComputeDriver, slot_of
from accelscope.readers.amd.modules import sharing_power
from accelscope.readers.amd.processes import Holders, ProcessLister
from accelscope.readers.amd.tools import Answer, Tools
from accelscope.readers.contract import ReaderOptions, Survey


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
