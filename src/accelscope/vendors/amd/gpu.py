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
from accelscope.vendors.amd.gpu_files import RARELY_SECONDS, BadPages, ErrorCounters, Sensors, reason_of
from accelscope.vendors.amd.gpu_metrics import GpuMetrics
from accelscope.vendors.amd.processes import ProcessCandidates, ProcessLister
from accelscope.vendors.amd.tools import fill_gaps
from accelscope.vendors.common.contract import DeviceLost
from accelscope.vendors.common.files import read_optional, read_text

_COOLING = "Check fans, airflow and inlet temperature"

_HEALTHY = Health(HealthState.OK)
SUSPENDED = Health(
    HealthState.OK, "suspended to save power; reading it would wake it", vendor_word="suspended"
)


def find_problems(
    device: Device, bad_pages: BadPages | None = None, *, refused: bool = False
) -> tuple[Health, ...]:
    """The problems that the driver reports now, the worst first. `refused`: the driver refused to read the
    GPU."""
    return tuple(_problems(device, bad_pages, refused=refused))


def worst_problem(problems: tuple[Health, ...]) -> Health:
    return problems[0] if problems else _HEALTHY


def _problems(device: Device, bad_pages: BadPages | None, *, refused: bool) -> Iterator[Health]:
    if bad_pages is not None and bad_pages.failed:
        yield Health(
            HealthState.CRITICAL,
            f"memory pages could not be retired: {_count_pages(bad_pages.failed)}",
            cause="page_retirement_failed",
            action="Drain the node and have the board replaced",
            origin="hardware",
            until="replacement",
        )
    shutdown = _exceeded_limit(device, device.temperature_shutdown_celsius, "shutdown")
    if shutdown is not None:
        yield Health(
            HealthState.CRITICAL,
            shutdown,
            cause="temperature_shutdown",
            action=_COOLING,
            origin="environment",
            until="condition",
        )
    if refused:
        yield Health(
            HealthState.WARNING,
            "the driver returns no data; the GPU is being reset or is changing its power state",
            cause="driver_error",
            action="Wait a minute; if it stays, see the kernel log and reset the GPU",
            origin="driver",
            until="condition",
        )
    if device.health != UNKNOWN_HEALTH:
        yield device.health  # as a tool reports it
    if bad_pages is not None and bad_pages.pending:
        yield Health(
            HealthState.WARNING,
            f"memory pages wait for retirement at the next GPU reset: {_count_pages(bad_pages.pending)}",
            cause="page_retirement_pending",
            action="Drain the GPU when possible and reset it",
            origin="hardware",
            until="reset",
        )
    if any(count.severity == "uncorrected" and count.block is None and count.count for count in device.ecc):
        yield Health(
            HealthState.WARNING,
            "uncorrectable errors since the driver was loaded",
            cause="ecc_uncorrected",
            action="Jobs may have failed: reload the driver at the next maintenance; replace the board if "
            "errors continue",
            origin="hardware",
            until="driver_reload",
        )
    throttles = sorted(t.reason for t in device.throttles if t.active and t.reason in FAULT_THROTTLES)
    if throttles:
        yield Health(
            HealthState.WARNING,
            f"throttled by heat or power supply: {', '.join(throttles)}",
            cause="throttled",
            action="Check fans, airflow and power supply",
            origin="environment",
            until="condition",
        )
    slowdown = _exceeded_limit(device, device.temperature_slowdown_celsius, "slowdown")
    if slowdown is not None:
        yield Health(
            HealthState.WARNING,
            slowdown,
            cause="temperature_slowdown",
            action=_COOLING,
            origin="environment",
            until="condition",
        )


def _count_pages(count: int) -> str:
    return f"{count} bad memory page{'' if count == 1 else 's'}"


def _exceeded_limit(device: Device, limit: float | None, name: str) -> str | None:
    celsius = device.temperature_celsius
    if celsius is None or limit is None or not celsius >= limit > 0:
        return None
    where = "at" if celsius == limit else "above"
    return f"{where} the {name} temperature: {celsius:g} °C, limit {limit:g} °C"


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
# Constant while the driver is loaded.
_CONSTANT_FILES = ("mem_info_vram_total", "max_link_speed", "max_link_width")
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
        self.needs_tool = True  # for measured values that the driver's files do not contain
        self.shows_power = True  # False for a die whose module reports power at the other die
        self.metrics = GpuMetrics(card.folder, linked=card.xgmi_hive not in (None, "0"))
        self._missing: set[str] = set()  # files that this GPU does not have; they are not tried again
        self._constants: dict[str, str] = {}  # contents of files
        self._max_clocks: dict[str, float] = {}  # by domain
        self._max_clocks_until = 0.0

    def read(self, context: GpuContext) -> Reading:
        """Raises DeviceLost."""
        draft = self._identity(context)
        self.needs_tool = False  # for a GPU that is suspended or lost
        if read_optional(f"{self.card.folder}/power/runtime_status") in _SUSPENDED_STATES:
            return Reading(self._suspended_device(draft, context))
        now = self._clock()
        self.metrics.take(draft)
        self._take_files(draft)
        self.metrics.take_replays(draft)
        self._take_levels(draft, now)
        self._sensors.take(draft, self.metrics.places, now)
        refused = self._reads_refused(draft)
        self.needs_tool = not self.metrics.replaces_tool
        draft.chip_errors = self._errors.take(draft, now)
        self._share_power(draft, context)
        draft.partitions = self._partitions(context, draft)
        draft.put("read_at", now)
        device = draft.device(self.card.id)
        device = fill_gaps(device, self.metrics.without_own_values(context.tool_device))
        problems = find_problems(device, self._errors.bad_pages, refused=refused)
        return Reading(
            replace(device, health=worst_problem(problems)),
            self._read_processes(context, device.partitions),
            tuple(draft.rejected),
            problems,
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
            if place in self.metrics.places:
                continue
            text = self._constants.get(name)
            if text is None:
                text = self._text(draft, name, place, expected=expected)
                if text is not None and name in _CONSTANT_FILES:
                    self._constants[name] = text
            if text is not None and text.strip() != "Unknown":
                draft.take(place, text.strip(), read, name)
        total, used = (draft.values.get(f"memory_{what}_bytes") for what in ("total", "used"))
        if total is not None and used is not None and used <= total:
            draft.put("memory_free_bytes", total - used)

    def _take_levels(self, draft: AmdDraft, now: float) -> None:
        """Lines are `1: 1138Mhz *`, with a star at the current level; `S` is the clock in deep sleep. If the
        current clock is in `gpu_metrics`, the levels are read once a minute for the highest one."""
        if not self._max_clocks_until - RARELY_SECONDS <= now < self._max_clocks_until:
            self._max_clocks, self._max_clocks_until = {}, now + RARELY_SECONDS
        for name, domain in _CLOCK_LEVEL_FILES.items():
            measured = f"clocks.{domain}" in self.metrics.places
            if measured and domain in self._max_clocks:
                draft.put(f"clocks.{domain}.max", self._max_clocks[domain])
                continue
            text = self._text(draft, name, f"clocks.{domain}", expected=False)
            if text is None:
                continue
            levels = [match for match in map(_LEVEL.fullmatch, text.splitlines()) if match]
            current = next((int(match[1]) for match in levels if match[2]), None)
            top = max((int(match[1]) for match in levels), default=0)
            if current is not None and not measured:
                draft.put(f"clocks.{domain}", current * 1e6)
            if top:
                draft.put(f"clocks.{domain}.max", top * 1e6)
                self._max_clocks[domain] = top * 1e6

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
        cores = draft.cores
        if not cores and context.tool_device is not None:
            cores = context.tool_device.cores
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
