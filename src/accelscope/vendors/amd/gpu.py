"""One GPU through the files of its driver."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from accelscope.model import (
    FAULT_THROTTLES,
    AbsenceReason,
    Core,
    Device,
    Health,
    HealthState,
    Partition,
    Process,
    Reading,
)
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.vendors.amd import draft as quantities
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.drm import Card, KfdNode
from accelscope.vendors.amd.gpu_files import BadPages, ErrorCounters, Sensors, energy_joules, reason_of
from accelscope.vendors.amd.processes import Holders, ProcessLister
from accelscope.vendors.amd.tools import filled
from accelscope.vendors.common.contract import DeviceLost
from accelscope.vendors.common.files import read_bytes, read_text, told

# --- health ------------------------------------------------------------
# From what the amdgpu driver and its tools tell of a GPU to its health.


ERROR_IS_RECENT_SECONDS = 600.0

SUSPENDED = Health(
    HealthState.OK, "asleep to save power: it is not woken to be read", vendor_word="suspended"
)


def health_of(
    device: Device, bad_pages: BadPages | None = None, *, now: float, refused: bool = False
) -> Health:
    """The worst that holds. A GPU that answered and shows none of it is OK. `refused`: its driver would not
    ask it just now."""
    return next(_troubles(device, bad_pages, now, refused=refused), Health(HealthState.OK))


def _troubles(device: Device, bad_pages: BadPages | None, now: float, *, refused: bool) -> Iterator[Health]:
    """Everything that is wrong, worst first."""
    if bad_pages is not None and bad_pages.failed:
        yield Health(
            HealthState.CRITICAL,
            f"{bad_pages.failed} bad pages of memory could not be retired: the board needs replacing",
        )
    hot, bound = device.temperature_celsius, device.temperature_shutdown_celsius
    if hot is not None and bound is not None and hot >= bound > 0:
        yield Health(HealthState.CRITICAL, f"{hot:g} °C: at {bound:g} °C it shuts itself down")
    recent = sorted(
        error.code
        for error in device.errors
        if error.kind == "ras"
        and error.code.endswith(".ue")
        and error.last_seen is not None
        and now - error.last_seen < ERROR_IS_RECENT_SECONDS
    )
    if recent:
        yield Health(
            HealthState.CRITICAL, f"uncorrectable errors in the last ten minutes: {', '.join(recent)}"
        )
    if refused:
        yield Health(
            HealthState.WARNING,
            "the driver answers nothing for now: it is resetting the GPU or changing its power state",
        )
    if device.health != UNKNOWN_HEALTH:
        yield device.health  # what a tool said
    if bad_pages is not None and bad_pages.pending:
        yield Health(
            HealthState.WARNING, f"{bad_pages.pending} bad pages of memory wait for a reset to be retired"
        )
    if any(count.severity == "uncorrected" and count.block is None and count.count for count in device.ecc):
        yield Health(HealthState.WARNING, "uncorrectable errors since the driver was loaded")
    slowed = sorted(t.reason for t in device.throttles if t.active and t.reason in FAULT_THROTTLES)
    if slowed:
        yield Health(HealthState.WARNING, f"slowed down by heat or its supply: {', '.join(slowed)}")
    limit = device.temperature_slowdown_celsius
    if hot is not None and limit is not None and hot >= limit > 0:
        yield Health(HealthState.WARNING, f"{hot:g} °C: at {limit:g} °C it slows itself down")


_ASLEEP = ("suspended", "suspending")

# File, place, how to read it, whether a GPU that has it not misses it.
_FILES: tuple[tuple[str, str, quantities.Read, bool], ...] = (
    ("gpu_busy_percent", "utilization_ratio", quantities.ratio, True),
    ("mem_busy_percent", "memory_utilization_ratio", quantities.ratio, True),
    ("vcn_busy_percent", "decoder_utilization_ratio", quantities.ratio, False),
    ("mem_info_vram_total", "memory_total_bytes", quantities.memory, True),
    ("mem_info_vram_used", "memory_used_bytes", quantities.memory, True),
    ("current_link_speed", "pcie.generation", quantities.generation, False),
    ("current_link_width", "pcie.width", quantities.lanes, False),
    ("max_link_speed", "pcie.max_generation", quantities.generation, False),
    ("max_link_width", "pcie.max_width", quantities.lanes, False),
    ("pcie_replay_count", "pcie.replays_total", quantities.count, False),
    ("current_compute_partition", "compute_partition", quantities.partition, False),
    ("current_memory_partition", "memory_partition", quantities.partition, False),
)
_METRICS = "gpu_metrics"
_LEVELS = {
    "pp_dpm_sclk": "graphics",
    "pp_dpm_mclk": "memory",
    "pp_dpm_fclk": "fabric",
    "pp_dpm_socclk": "soc",
    "pp_dpm_vclk": "video",
    "pp_dpm_dclk": "data",
}
_LEVEL = re.compile(r"\s*[0-9S]{1,3}:\s*([0-9]{1,6})\s*MHz\s*(\*?)\s*", re.IGNORECASE | re.ASCII)
_OF_THE_MODULE = (
    "power_watts",
    "power_limit_watts",
    "power_limit_default_watts",
    "power_limit_min_watts",
    "power_limit_max_watts",
    "energy_joules",
)
MEASURED: Final = (
    "utilization_ratio",
    "memory_utilization_ratio",
    "memory_total_bytes",
    "memory_used_bytes",
    "temperature_celsius",
    "power_watts",
)
_ASKED_FOR = ("utilization_ratio", "memory_utilization_ratio", "power_watts")
_UNREACHABLE = (AbsenceReason.LOST, AbsenceReason.DRIVER_ERROR)


@dataclass(frozen=True, slots=True)
class Place:
    """What the last survey says of a GPU beside who it is."""

    index: int
    driver_version: str | None
    nodes: tuple[KfdNode, ...]
    shares_power: bool  # the power of its module is counted at another die
    holders: Holders
    told: Device | None  # by a tool


class Gpu:
    def __init__(self, card: Card, processes: ProcessLister, clock: Callable[[], float] = time.time) -> None:
        self.card = card
        self._processes = processes
        self._clock = clock
        self._sensors = Sensors(card.folder)
        self._errors = ErrorCounters(card.folder)
        self.shows_power = True  # False: a die that leaves it to the other die of its module
        self._counts_energy = False  # in gpu_metrics
        self._missing: set[str] = set()  # files that this GPU does not have: not asked for again

    def read(self, place: Place) -> Reading:
        """Raises DeviceLost."""
        draft = self._identity(place)
        if told(f"{self.card.folder}/power/runtime_status") in _ASLEEP:
            return Reading(self._asleep(draft, place))
        now = self._clock()
        self._take_files(draft)
        self._take_levels(draft)
        self._take_energy(draft)
        self._sensors.take(draft)
        refused = self._is_refused(draft)
        errors = self._errors.take(draft, now)
        self._share_power(draft, place)
        draft.partitions = self._partitions(place, draft)
        device = draft.device(self.card.id)
        device = replace(device, read_at=now, errors=(*device.errors, *errors))
        device = filled(device, self._without_second_counter(place.told))
        health = health_of(device, self._errors.bad_pages, now=now, refused=refused)
        return Reading(
            replace(device, health=health),
            self._read_processes(place, device.partitions),
            tuple(draft.rejected),
        )

    def _asleep(self, draft: AmdDraft, place: Place) -> Device:
        """Reading its files would wake it."""
        for field in MEASURED:
            draft.miss(field, AbsenceReason.SUSPENDED)
        draft.health = SUSPENDED
        device = replace(draft.device(self.card.id), read_at=self._clock())
        return filled(device, place.told, only_identity=True)

    def _read_processes(self, place: Place, parts: tuple[Partition, ...]) -> tuple[Process, ...]:
        partitions = {
            node.render_node: part.id
            for node, part in zip(place.nodes, parts, strict=False)
            if node.render_node is not None
        }
        return self._processes.read(
            device=self.card.id,
            index=place.index,
            nodes=place.nodes,
            partitions=partitions,
            device_files=dict.fromkeys((*self.card.nodes, *partitions)),
            holders=place.holders,
        )

    def _identity(self, place: Place) -> AmdDraft:
        card = self.card
        draft = AmdDraft()
        facts = {
            "index": place.index,
            "model": card.product_name,
            "uuid": card.uuid,
            "serial": card.serial,
            "pci_address": card.pci_address,
            "numa_node": card.numa_node,
            "device_name": card.render_node,
            "driver_version": place.driver_version,
            "firmware_version": card.firmware_version,
            "part_number": card.part_number,
            "pci_device_id": None if card.code is None else f"0x{card.code:04x}",
            "architecture": place.nodes[0].architecture if place.nodes else None,
        }
        for name, fact in facts.items():
            if fact is not None:
                draft.put(name, fact)
        if card.product_name is None:
            draft.miss("model", AbsenceReason.NOT_KNOWN)
        return draft

    def _take_files(self, draft: AmdDraft) -> None:
        for name, place, read, missed in _FILES:
            text = self._text(draft, name, place, missed=missed)
            if text is not None and text.strip() != "Unknown":
                draft.take(place, text.strip(), read, name)
        total, used = (draft.values.get(f"memory_{what}_bytes") for what in ("total", "used"))
        if total is not None and used is not None and used <= total:
            draft.put("memory_free_bytes", total - used)

    def _take_levels(self, draft: AmdDraft) -> None:
        """Lines `1: 1138Mhz *`, the star at the level that it is at; `S` is the clock of deep sleep."""
        for name, domain in _LEVELS.items():
            text = self._text(draft, name, f"clocks.{domain}", missed=False)
            if text is None:
                continue
            levels = [match for match in map(_LEVEL.fullmatch, text.splitlines()) if match]
            now = next((int(match[1]) for match in levels if match[2]), None)
            top = max((int(match[1]) for match in levels), default=0)
            if now is not None:
                draft.put(f"clocks.{domain}", now * 1e6)
            if top:
                draft.put(f"clocks.{domain}.max", top * 1e6)

    def _take_energy(self, draft: AmdDraft) -> None:
        if _METRICS in self._missing:
            return
        try:
            joules = energy_joules(read_bytes(f"{self.card.folder}/{_METRICS}"))
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._missing.add(_METRICS)
            if self._counts_energy:
                draft.miss("energy_joules", reason_of(error))
            return
        if joules is not None:
            draft.put("energy_joules", joules)
            self._counts_energy = True

    def _without_second_counter(self, told: Device | None) -> Device | None:
        """A tool counts energy in a rounded unit and reads it less often. Changing from one counter to the
        other would look like a jump."""
        return replace(told, energy_joules=None) if told is not None and self._counts_energy else told

    def _text(self, draft: AmdDraft, name: str, place: str, *, missed: bool) -> str | None:
        if name in self._missing:
            if missed:
                draft.miss(place, AbsenceReason.NOT_SUPPORTED)
            return None
        try:
            return read_text(f"{self.card.folder}/{name}")
        except OSError as error:
            reason = reason_of(error)
            if isinstance(error, FileNotFoundError):
                self._missing.add(name)
            if missed or reason is not AbsenceReason.NOT_SUPPORTED:
                draft.miss(place, reason)
            return None

    def _is_refused(self, draft: AmdDraft) -> bool:
        """Whether the driver answers nothing for now. A GPU that is gone is still shown, but whatever the
        driver would ask it for ends in an error: then this raises DeviceLost."""
        if any(map(_is_asked_for, draft.values)):
            return False
        reasons = {reason for place, reason in draft.absences.items() if _is_asked_for(place)}
        if not reasons.isdisjoint(_UNREACHABLE):
            raise DeviceLost(
                f"the driver no longer reaches the GPU at {self.card.pci_address or self.card.name}"
            )
        return AbsenceReason.NO_SAMPLE in reasons

    def _share_power(self, draft: AmdDraft, place: Place) -> None:
        if self.card.dual_die:
            self.shows_power = bool(draft.values.get("power_watts"))
        if place.shares_power or not self.shows_power:
            draft.share(*_OF_THE_MODULE)
            draft.miss("energy_joules", AbsenceReason.SHARED)

    def _partitions(self, place: Place, draft: AmdDraft) -> tuple[Partition, ...]:
        """Each node of the compute driver is one, if there are several."""
        if len(place.nodes) < 2:
            return ()
        profile = draft.values.get("compute_partition")
        use = _uses(place.told.cores if place.told is not None else (), len(place.nodes))
        made = []
        for number, node in enumerate(place.nodes):
            total, used = node.memory()
            free = total - used if total is not None and used is not None and used <= total else None
            made.append(
                Partition(
                    id=f"{self.card.id}/{node.partition}",
                    index=node.partition,
                    device_name=node.device_name(),
                    profile=profile,
                    utilization_ratio=use[number],
                    memory_total_bytes=total,
                    memory_used_bytes=used,
                    memory_free_bytes=free,
                    multiprocessors=node.compute_units,
                )
            )
        return tuple(made)


def _uses(cores: tuple[Core, ...], partitions: int) -> list[float | None]:
    """Compute dies are numbered in the order of partitions, as many for each."""
    each = len(cores) // partitions
    uses = [core.utilization_ratio for core in cores]
    complete = [core.index for core in cores] == list(range(len(cores)))
    if not each or len(cores) % partitions or None in uses or not complete:
        return [None] * partitions
    told = [use for use in uses if use is not None]
    return [round(sum(told[n * each : (n + 1) * each]) / each, 9) for n in range(partitions)]


def _is_asked_for(place: str) -> bool:
    """Whether the driver asks the device for it, instead of its own memory."""
    return place in _ASKED_FOR or place.startswith("sensors.")
