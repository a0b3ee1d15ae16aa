"""One GPU, read from the files of its driver, and its health."""

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
from accelscope.model.device import UNKNOWN_HEALTH
from accelscope.vendors.amd import quantities
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.drm import Card, KfdNode
from accelscope.vendors.amd.gpu_files import BadPages, ErrorCounters, Sensors, energy_joules, reason_of
from accelscope.vendors.amd.processes import ProcessCandidates, ProcessLister
from accelscope.vendors.amd.tools import fill_gaps
from accelscope.vendors.common.contract import DeviceLost
from accelscope.vendors.common.files import read_bytes, read_optional, read_text

RECENT_ERROR_SECONDS = 600.0

SUSPENDED = Health(
    HealthState.OK, "suspended to save power; reading it would wake it", vendor_word="suspended"
)


def assess_health(
    device: Device, bad_pages: BadPages | None = None, *, now: float, refused: bool = False
) -> Health:
    """The worst problem, or OK. `refused`: the driver refused to read the GPU."""
    return next(_find_problems(device, bad_pages, now, refused=refused), Health(HealthState.OK))


def _find_problems(
    device: Device, bad_pages: BadPages | None, now: float, *, refused: bool
) -> Iterator[Health]:
    """All problems of the GPU, the worst first."""
    if bad_pages is not None and bad_pages.failed:
        yield Health(
            HealthState.CRITICAL,
            f"{_count_pages(bad_pages.failed)} could not be retired; the board must be replaced",
        )
    shutdown = _exceeded_limit(device, device.temperature_shutdown_celsius, "shutdown")
    if shutdown is not None:
        yield Health(HealthState.CRITICAL, shutdown)
    recent = sorted(
        error.code
        for error in device.errors
        if error.kind == "ras"
        and error.code.endswith(".ue")
        and error.last_seen is not None
        and now - error.last_seen < RECENT_ERROR_SECONDS
    )
    if recent:
        yield Health(
            HealthState.CRITICAL, f"uncorrectable errors in the last 10 minutes: {', '.join(recent)}"
        )
    if refused:
        yield Health(
            HealthState.WARNING,
            "the driver returns no data; the GPU is being reset or is changing its power state",
        )
    if device.health != UNKNOWN_HEALTH:
        yield device.health  # as a tool reports it
    if bad_pages is not None and bad_pages.pending:
        yield Health(
            HealthState.WARNING, f"{_count_pages(bad_pages.pending)} to be retired at the next GPU reset"
        )
    if any(count.severity == "uncorrected" and count.block is None and count.count for count in device.ecc):
        yield Health(HealthState.WARNING, "uncorrectable errors since the driver was loaded")
    throttles = sorted(t.reason for t in device.throttles if t.active and t.reason in FAULT_THROTTLES)
    if throttles:
        yield Health(HealthState.WARNING, f"throttled by heat or power supply: {', '.join(throttles)}")
    slowdown = _exceeded_limit(device, device.temperature_slowdown_celsius, "slowdown")
    if slowdown is not None:
        yield Health(HealthState.WARNING, slowdown)


def _count_pages(count: int) -> str:
    return f"{count} bad memory page{'' if count == 1 else 's'}"


def _exceeded_limit(device: Device, limit: float | None, name: str) -> str | None:
    celsius = device.temperature_celsius
    if celsius is None or limit is None or not celsius >= limit > 0:
        return None
    return f"{celsius:g} °C, {'at' if celsius == limit else 'above'} the {name} limit of {limit:g} °C"


_SUSPENDED_STATES = ("suspended", "suspending")

# File, place in the draft, how to read it, and whether a missing file is reported as an absent value.
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
_CLOCK_LEVEL_FILES = {
    "pp_dpm_sclk": "graphics",
    "pp_dpm_mclk": "memory",
    "pp_dpm_fclk": "fabric",
    "pp_dpm_socclk": "soc",
    "pp_dpm_vclk": "video",
    "pp_dpm_dclk": "data",
}
_LEVEL = re.compile(r"\s*[0-9S]{1,3}:\s*([0-9]{1,6})\s*MHz\s*(\*?)\s*", re.IGNORECASE | re.ASCII)
_MODULE_VALUES = (
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
_DEVICE_VALUES = ("utilization_ratio", "memory_utilization_ratio", "power_watts")
_UNREACHABLE = (AbsenceReason.LOST, AbsenceReason.DRIVER_ERROR)


@dataclass(frozen=True, slots=True)
class GpuContext:
    """What the last survey found about a GPU besides its card."""

    index: int
    driver_version: str | None
    nodes: tuple[KfdNode, ...]
    shares_power: bool  # the power of its module is reported at another die
    candidates: ProcessCandidates
    tool_device: Device | None  # as amd-smi or rocm-smi reports it


class Gpu:
    def __init__(self, card: Card, processes: ProcessLister, clock: Callable[[], float] = time.time) -> None:
        self.card = card
        self._processes = processes
        self._clock = clock
        self._sensors = Sensors(card.folder)
        self._errors = ErrorCounters(card.folder)
        self.shows_power = True  # False for a die whose module reports power at the other die
        self._has_energy_counter = False  # in gpu_metrics
        self._missing: set[str] = set()  # files that this GPU does not have; they are not tried again

    def read(self, context: GpuContext) -> Reading:
        """Raises DeviceLost."""
        draft = self._identity(context)
        if read_optional(f"{self.card.folder}/power/runtime_status") in _SUSPENDED_STATES:
            return Reading(self._suspended_device(draft, context))
        now = self._clock()
        self._take_files(draft)
        self._take_levels(draft)
        self._take_energy(draft)
        self._sensors.take(draft)
        refused = self._reads_refused(draft)
        errors = self._errors.take(draft, now)
        self._share_power(draft, context)
        draft.partitions = self._partitions(context, draft)
        device = draft.device(self.card.id)
        device = replace(device, read_at=now, errors=(*device.errors, *errors))
        device = fill_gaps(device, self._without_second_counter(context.tool_device))
        health = assess_health(device, self._errors.bad_pages, now=now, refused=refused)
        return Reading(
            replace(device, health=health),
            self._read_processes(context, device.partitions),
            tuple(draft.rejected),
        )

    def _suspended_device(self, draft: AmdDraft, context: GpuContext) -> Device:
        """Only its identity: reading the other files would wake it."""
        for field in MEASURED:
            draft.miss(field, AbsenceReason.SUSPENDED)
        draft.health = SUSPENDED
        device = replace(draft.device(self.card.id), read_at=self._clock())
        return fill_gaps(device, context.tool_device, only_identity=True)

    def _read_processes(self, context: GpuContext, parts: tuple[Partition, ...]) -> tuple[Process, ...]:
        partitions = {
            node.render_node: part.id
            for node, part in zip(context.nodes, parts, strict=False)
            if node.render_node is not None
        }
        return self._processes.read(
            device=self.card.id,
            index=context.index,
            nodes=context.nodes,
            partitions=partitions,
            device_files=dict.fromkeys((*self.card.nodes, *partitions)),
            candidates=context.candidates,
        )

    def _identity(self, context: GpuContext) -> AmdDraft:
        card = self.card
        draft = AmdDraft()
        facts = {
            "index": context.index,
            "model": card.product_name,
            "uuid": card.uuid,
            "serial": card.serial,
            "pci_address": card.pci_address,
            "numa_node": card.numa_node,
            "device_name": card.render_node,
            "driver_version": context.driver_version,
            "firmware_version": card.firmware_version,
            "part_number": card.part_number,
            "pci_device_id": None if card.code is None else f"0x{card.code:04x}",
            "architecture": context.nodes[0].architecture if context.nodes else None,
        }
        for name, fact in facts.items():
            if fact is not None:
                draft.put(name, fact)
        if card.product_name is None:
            draft.miss("model", AbsenceReason.NOT_KNOWN)
        return draft

    def _take_files(self, draft: AmdDraft) -> None:
        for name, place, read, expected in _FILES:
            text = self._text(draft, name, place, expected=expected)
            if text is not None and text.strip() != "Unknown":
                draft.take(place, text.strip(), read, name)
        total, used = (draft.values.get(f"memory_{what}_bytes") for what in ("total", "used"))
        if total is not None and used is not None and used <= total:
            draft.put("memory_free_bytes", total - used)

    def _take_levels(self, draft: AmdDraft) -> None:
        """Lines are `1: 1138Mhz *`, with a star at the current level; `S` is the clock in deep sleep."""
        for name, domain in _CLOCK_LEVEL_FILES.items():
            text = self._text(draft, name, f"clocks.{domain}", expected=False)
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
            if self._has_energy_counter:
                draft.miss("energy_joules", reason_of(error))
            return
        if joules is not None:
            draft.put("energy_joules", joules)
            self._has_energy_counter = True

    def _without_second_counter(self, tool_device: Device | None) -> Device | None:
        """The tool's energy counter has a rounded unit and is read less often. Switching between the counters
        would look like a jump."""
        if tool_device is None or not self._has_energy_counter:
            return tool_device
        return replace(tool_device, energy_joules=None)

    def _text(self, draft: AmdDraft, name: str, place: str, *, expected: bool) -> str | None:
        if name in self._missing:
            if expected:
                draft.miss(place, AbsenceReason.NOT_SUPPORTED)
            return None
        try:
            return read_text(f"{self.card.folder}/{name}")
        except OSError as error:
            reason = reason_of(error)
            if isinstance(error, FileNotFoundError):
                self._missing.add(name)
            if expected or reason is not AbsenceReason.NOT_SUPPORTED:
                draft.miss(place, reason)
            return None

    def _reads_refused(self, draft: AmdDraft) -> bool:
        """Whether the driver currently returns no value of the GPU. The driver still lists a GPU that fell
        off the bus, but every value that it must read from the GPU is an error: then this raises
        DeviceLost."""
        if any(map(_comes_from_device, draft.values)):
            return False
        reasons = {reason for place, reason in draft.absences.items() if _comes_from_device(place)}
        if not reasons.isdisjoint(_UNREACHABLE):
            raise DeviceLost(
                f"GPU lost: {self.card.pci_address or self.card.name} does not respond to amdgpu"
            )
        return AbsenceReason.NO_SAMPLE in reasons

    def _share_power(self, draft: AmdDraft, context: GpuContext) -> None:
        if self.card.dual_die:
            self.shows_power = bool(draft.values.get("power_watts"))
        if context.shares_power or not self.shows_power:
            draft.share(*_MODULE_VALUES)
            draft.miss("energy_joules", AbsenceReason.SHARED)

    def _partitions(self, context: GpuContext, draft: AmdDraft) -> tuple[Partition, ...]:
        """If the compute driver has several nodes for the GPU, each is a partition."""
        if len(context.nodes) < 2:
            return ()
        profile = draft.values.get("compute_partition")
        cores = context.tool_device.cores if context.tool_device is not None else ()
        utilizations = _utilization_by_partition(cores, len(context.nodes))
        partitions = []
        for number, node in enumerate(context.nodes):
            total, used = node.memory()
            free = total - used if total is not None and used is not None and used <= total else None
            partitions.append(
                Partition(
                    id=f"{self.card.id}/{node.partition}",
                    index=node.partition,
                    device_name=node.device_name(),
                    profile=profile,
                    utilization_ratio=utilizations[number],
                    memory_total_bytes=total,
                    memory_used_bytes=used,
                    memory_free_bytes=free,
                    multiprocessors=node.compute_units,
                )
            )
        return tuple(partitions)


def _utilization_by_partition(cores: tuple[Core, ...], partitions: int) -> list[float | None]:
    """Compute dies are numbered in the order of partitions, and all partitions have the same number of
    dies."""
    each = len(cores) // partitions
    ratios = [core.utilization_ratio for core in cores if core.utilization_ratio is not None]
    complete = len(ratios) == len(cores) and [core.index for core in cores] == list(range(len(cores)))
    if not each or len(cores) % partitions or not complete:
        return [None] * partitions
    return [round(sum(ratios[n * each : (n + 1) * each]) / each, 9) for n in range(partitions)]


def _comes_from_device(place: str) -> bool:
    """Whether the driver reads the value from the GPU instead of its own memory."""
    return place in _DEVICE_VALUES or place.startswith("sensors.")
