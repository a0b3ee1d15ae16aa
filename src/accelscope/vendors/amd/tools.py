"""What only AMD's tools report: names, throttling, links, and whatever the driver has no file for.

amd-smi takes seconds for a server's GPUs, so it runs in the background; rocm-smi stands in where it is
absent. Where the driver shows no files at all (a container without the node's /sys, a fork of the driver),
the tools are all there is.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from accelscope.model import Absence, AbsenceReason, Device, Pcie, Process
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.parsing import Parsed
from accelscope.vendors.amd import AMD_SMI, ROCM_SMI
from accelscope.vendors.amd.documents import error_of
from accelscope.vendors.amd.drm import slot_of
from accelscope.vendors.common.contract import ReaderError, ReaderOptions
from accelscope.vendors.common.tool import Background, Latest, Tool, find_program

_STATIC_EVERY = 10  # runs: who the GPUs are and what bounds them changes rarely
_SERVER_NAME = re.compile(r"Instinct|\bMI[0-9]{2,3}", re.IGNORECASE)
_SERVER_CHIP = re.compile(r"gfx9(?:06|08|0a|4|5)")
_THERE_IS_NONE = frozenset({"no_devices", "nothing_to_report"})  # in the words of either tool
# Not the NUMA node: of a GPU that the kernel says is at none, the tools say 0.
_IDENTITY = (
    "model",
    "serial",
    "architecture",
    "firmware_version",
    "vbios_version",
    "part_number",
    "pci_device_id",
)
# In the order of Device. What is measured is there too: a driver that shows no file of it leaves it to the
# tool, and then it is as old as the tool's last run.
_FILLED = (
    *_IDENTITY,
    "ecc_enabled",
    "compute_partition",
    "memory_partition",
    "utilization_ratio",
    "memory_utilization_ratio",
    "encoder_utilization_ratio",
    "decoder_utilization_ratio",
    "jpeg_utilization_ratio",
    "cores",
    "memory_total_bytes",
    "memory_used_bytes",
    "memory_free_bytes",
    "temperature_celsius",
    "sensors",
    "temperature_slowdown_celsius",
    "temperature_shutdown_celsius",
    "power_watts",
    "power_limit_watts",
    "power_limit_min_watts",
    "power_limit_max_watts",
    "energy_joules",
    "rails",
    "fans",
    "clocks",
    "throttles",
    "links",
    "ecc",
)


@dataclass(frozen=True, slots=True)
class Answer:
    source: str
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    # By PCI slot, the first of each GPU: further ones are its partitions.
    by_slot: Mapping[str, Device] = field(default_factory=dict)
    failures: tuple[str, ...] = ()  # reasons of runs that failed and cost only what they would have added


class Tools:
    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._amd_smi = self._tool(options.value(AMD_SMI))
        self._rocm_smi = self._tool(options.value(ROCM_SMI))
        self._background = Background(self._ask, options.tool_interval_seconds, name="amd-smi")
        self._alone = False
        self._noted: Answer | None = None  # whose failures were told
        self._static: tuple[Device, ...] = ()
        self._runs = 0

    @property
    def found(self) -> bool:
        return any(find_program(self._options.value(tool)) is not None for tool in (AMD_SMI, ROCM_SMI))

    def latest(self, *, alone: bool, until: float) -> tuple[Answer | None, tuple[str, ...]]:
        """The last answer unless it is too old, and reasons of runs that failed since. Waits for none but the
        first, `until` then. `alone`: the driver's files tell nothing, so everything is asked for; raises
        ReaderError where there is a tool and it does not tell which devices there are."""
        self._alone = alone
        has_told = alone and self._noted is not None  # one that is gone since is missed
        if not self.found and not has_told:
            return None, ()
        latest = self._background.latest(until)
        answer, failures = latest.value, latest.failures
        if answer is None:
            failure = latest.failure or self._silence(latest)
            if alone and failure.reason not in _THERE_IS_NONE:
                raise ReaderError(failure.reason, str(failure))
            if latest.failure is None and failure.reason == "tool_timeout":
                failures += (failure.reason,)
        elif answer is not self._noted:
            self._noted = answer
            failures += answer.failures
        return answer, failures

    def close(self) -> None:
        self._background.close()

    def _silence(self, latest: Latest[Answer]) -> ReaderError:
        """What is wrong where no run has failed."""
        if seconds := self._options.first_answer_seconds:
            return ReaderError("tool_timeout", f"the tool gave no answer within {seconds:.3g} s")
        when = "yet" if latest.age_seconds is None else "for too long"
        return ReaderError("not_ready", f"the tool has not answered {when}")

    def _tool(self, program: str) -> Tool:
        return Tool(
            program,
            # No collection waits for it, and it takes seconds on a big node.
            timeout_seconds=max(self._options.tool_timeout_seconds, self._options.tool_interval_seconds / 2),
            environment=self._options.environment,
        )

    def _ask(self) -> Answer:
        return self._ask_amd_smi() if self._amd_smi.find() is not None else self._ask_rocm_smi()

    def _ask_amd_smi(self) -> Answer:
        from accelscope.vendors.amd import parse_amd_smi  # noqa: PLC0415

        if self._runs % _STATIC_EVERY == 0 or not self._static:
            self._static = self._parsed(
                self._amd_smi, ["static", "--json"], parse_amd_smi.parse_static
            ).devices
        self._runs += 1
        who = {device.index: device for device in self._static}
        measured = self._parsed(self._amd_smi, ["metric", "--json"], parse_amd_smi.parse_metric).devices
        if not all(device.index in who for device in measured):
            self._static = ()  # GPUs came or went: ask again who they are at the next run
        devices = [_joined(device, who.get(device.index)) for device in measured]
        failures: list[str] = []
        if any(map(_has_links, devices)):
            links = parse_amd_smi.parse_links(self._further(["xgmi", "--json"], failures))
            devices = [replace(d, links=() if d.index is None else links.get(d.index, ())) for d in devices]
        processes: tuple[Process, ...] = ()
        if self._alone:
            # A tool that finds nobody may say so in many ways.
            processes = parse_amd_smi.parse_process(self._further(["process", "--json"], failures)).processes
        return _answer("amd-smi", devices, processes, failures)

    def _further(self, arguments: list[str], failures: list[str]) -> str:
        """What a further run prints. Its failure costs what it would have added, and is counted."""
        try:
            return self._amd_smi.run(arguments).text
        except ReaderError as error:
            failures.append(error.reason)
            return ""

    def _ask_rocm_smi(self) -> Answer:
        from accelscope.vendors.amd import parse_rocm_smi  # noqa: PLC0415 - as above

        if self._alone:
            everything = ["-a", "--showmeminfo", "vram", "--showpids", "--json"]
            parsed = self._parsed(self._rocm_smi, everything, parse_rocm_smi.parse_rocm_json)
        else:
            names = ["--showproductname", "--showbus", "--showuniqueid", "--showserial", "--json"]
            parsed = self._parsed(self._rocm_smi, names, parse_rocm_smi.parse_rocm_json)
        return _answer("rocm-smi", list(parsed.devices), parsed.processes)

    def _parsed(self, tool: Tool, arguments: list[str], parse: Callable[[str], Parsed]) -> Parsed:
        """Raises ReaderError for an answer that is none."""
        output = tool.run(arguments)
        parsed = parse(output.text)
        if parsed.error is not None:
            # Both tools complain through Python's logging, which writes to standard error.
            error = error_of(f"{output.text}\n{output.complaint}") or parsed.error
            raise ReaderError(error.reason, f"{' '.join(arguments)}: {error.text}")
        return parsed


def filled(device: Device, told: Device | None, *, only_identity: bool = False) -> Device:
    """The device with what it lacks and a tool knows."""
    if told is None:
        return device
    changes: dict[str, object] = {}
    for name in _IDENTITY if only_identity else _FILLED:
        shared = any(absence.field == name and absence.reason == "shared" for absence in device.absent)
        value = getattr(told, name)
        if getattr(device, name) in (None, ()) and value not in (None, ()) and not shared:
            changes[name] = value
    if not only_identity:
        pcie = _joined_pcie(device.pcie, told.pcie)
        if pcie != device.pcie:
            changes["pcie"] = pcie
        errors = tuple(error for error in told.errors if error.kind == "pcie")
        if errors:
            changes["errors"] = (*device.errors, *errors)
        if device.health == UNKNOWN_HEALTH:
            changes["health"] = told.health
    absent = tuple(absence for absence in device.absent if absence.field.split(".")[0] not in changes)
    return replace(device, absent=absent, **changes)  # type: ignore[arg-type]


def _joined(measured: Device, who: Device | None) -> Device:
    """What the two commands of amd-smi say of one GPU, under the id that tells who it is."""
    if who is None:
        return measured
    joined = filled(measured, who)
    facts = {
        name: getattr(who, name) for name in ("id", "uuid", "pci_address", "numa_node", "driver_version")
    }
    return replace(joined, **facts)


def _joined_pcie(one: Pcie | None, other: Pcie | None) -> Pcie | None:
    if one is None or other is None:
        return one or other
    missing = {
        field.name: getattr(other, field.name) for field in fields(one) if getattr(one, field.name) is None
    }
    return replace(one, **missing)


def _answer(
    source: str, devices: list[Device], processes: tuple[Process, ...], failures: Iterable[str] = ()
) -> Answer:
    by_slot: dict[str, Device] = {}
    counted = []
    for device in devices:
        whole = device
        if device.pci_address is not None:
            whole = by_slot.setdefault(slot_of(device.pci_address), device)
        counted.append(device if whole is device else _part_of(whole, device))
    return Answer(source, tuple(counted), processes, by_slot, tuple(failures))


def _has_links(device: Device) -> bool:
    """XGMI is on AMD's chips for servers. Older versions of the tool leave "Instinct" out of the name."""
    return bool(_SERVER_NAME.search(device.model or "") or _SERVER_CHIP.match(device.architecture or ""))


def _part_of(whole: Device, part: Device) -> Device:
    """Partitions show the power of their GPU. Their memory is that of the GPU or a part of it: the first
    partition shows the whole. Both are counted at the first. Newer versions do not know the partition's
    name."""
    shared = ["power_watts", "power_limit_watts", "energy_joules"]
    if (part.memory_total_bytes or 0) <= (whole.memory_total_bytes or 0):
        shared += ["memory_total_bytes", "memory_used_bytes", "memory_free_bytes"]
    gone: dict[str, Any] = {name: None for name in shared if getattr(part, name) is not None}
    absences = (Absence(name, AbsenceReason.SHARED) for name in gone)
    return replace(part, model=whole.model, absent=(*part.absent, *absences), **gone)
