"""What only AMD's tools report: names, throttling, links, and values that the driver has no file for.

amd-smi takes seconds for a server's GPUs, so it runs in the background, and it measures only if the driver's
files do not contain all that it measures. Without amd-smi, rocm-smi is used. If the driver's files are not
visible (a container without the node's /sys, a fork of the driver), the tools are the only source.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from accelscope.model import Absence, AbsenceReason, Device, Pcie, Process
from accelscope.model.device import UNKNOWN_HEALTH
from accelscope.parsing import ParseResult
from accelscope.vendors.amd import AMD_SMI, ROCM_SMI
from accelscope.vendors.amd.documents import find_error
from accelscope.vendors.amd.drm import slot_of
from accelscope.vendors.common.contract import ReaderError, ReaderOptions
from accelscope.vendors.common.tool import LastResult, PeriodicRunner, Tool, find_program

_STATIC_EVERY = 10  # intervals: names and limits of the GPUs change rarely
_SERVER_NAME = re.compile(r"Instinct|\bMI[0-9]{2,3}", re.IGNORECASE)
_SERVER_CHIP = re.compile(r"gfx9(?:06|08|0a|4|5)")
_NO_DEVICES = frozenset({"no_devices", "nothing_to_report"})  # reasons that either tool reports
# Without the NUMA node: the tools report 0 for a GPU that has none according to the kernel.
_IDENTITY = (
    "model",
    "serial",
    "architecture",
    "firmware_version",
    "vbios_version",
    "part_number",
    "pci_device_id",
)
# In the order of Device. Measured values are included: if the driver has no file for one, it comes from the
# tool and is as old as the tool's last run.
_FILLABLE = (
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
class SmiReport:
    """The result of one round of runs of amd-smi or rocm-smi."""

    source: str
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    # By PCI slot, the first device of each GPU: further devices are partitions of it.
    by_slot: Mapping[str, Device] = field(default_factory=dict)
    static_by_slot: Mapping[str, Device] = field(default_factory=dict)  # the same without measured values
    failures: tuple[str, ...] = ()  # reasons of failed runs without which the report is still usable


class AmdTools:
    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._amd_smi = self._tool(options.value(AMD_SMI))
        self._rocm_smi = self._tool(options.value(ROCM_SMI))
        self._background = PeriodicRunner(self._run, options.tool_interval_seconds, name="amd-smi")
        self._alone = False
        self._last_report: SmiReport | None = None
        self._static: tuple[Device, ...] = ()
        self._static_slots: frozenset[str] = frozenset()  # GPUs of the driver when `_static` was read
        self._intervals = 0
        # As the driver shows the GPUs. The background thread reads these.
        self._slots: frozenset[str] = frozenset()
        self._measures = True

    @property
    def found(self) -> bool:
        return any(find_program(self._options.value(tool)) is not None for tool in (AMD_SMI, ROCM_SMI))

    def expect(self, slots: frozenset[str], *, measures: bool) -> None:
        """The PCI slots of the driver's GPUs, and whether the tool must measure, too, because their files do
        not contain everything."""
        self._slots = slots
        self._measures = measures

    def latest(self, *, alone: bool, until: float) -> tuple[SmiReport | None, tuple[str, ...]]:
        """The last report unless it is too old, and the reasons of failed runs since the last call. Waits
        only for the first report, at most until `until`.

        `alone`: the driver's files are not visible, so the tool must report everything. Then this raises
        ReaderError if a tool is installed and does not list the devices."""
        self._alone = alone
        had_report = alone and self._last_report is not None  # then a missing tool is an error
        if not self.found and not had_report:
            return None, ()
        latest = self._background.latest(until)
        report, failures = latest.value, latest.failures
        if report is None:
            failure = latest.failure or self._no_report_error(latest)
            if alone and failure.reason not in _NO_DEVICES:
                raise ReaderError(failure.reason, str(failure))
            if latest.failure is None and failure.reason == "tool_timeout":
                failures += (failure.reason,)
        elif report is not self._last_report:
            self._last_report = report
            failures += report.failures
        return report, failures

    def close(self) -> None:
        self._background.close()

    def _no_report_error(self, latest: LastResult[SmiReport]) -> ReaderError:
        """The error if there is no report although no run failed."""
        if seconds := self._options.first_answer_seconds:
            return ReaderError("tool_timeout", f"the tool returned no result within {seconds:.3g} s")
        if latest.age_seconds is None:
            return ReaderError("not_ready", "the first run of the tool has not finished yet")
        return ReaderError("not_ready", "the last result of the tool is too old")

    def _tool(self, program: str) -> Tool:
        return Tool(
            program,
            # No collection waits for it, and it takes seconds on a large node.
            timeout_seconds=max(self._options.tool_timeout_seconds, self._options.tool_interval_seconds / 2),
            environment=self._options.environment,
        )

    def _run(self) -> SmiReport:
        return self._run_amd_smi() if self._amd_smi.find() is not None else self._run_rocm_smi()

    def _run_amd_smi(self) -> SmiReport:
        from accelscope.vendors.amd import parse_amd_smi  # noqa: PLC0415

        self._update_static(self._amd_smi, ["static", "--json"], parse_amd_smi.parse_static)
        if not (self._alone or self._measures):
            return _make_report("amd-smi", self._static, self._static)
        static = {device.index: device for device in self._static}
        measured = _run_and_parse(self._amd_smi, ["metric", "--json"], parse_amd_smi.parse_metric).devices
        if not all(device.index in static for device in measured):
            self._static = ()  # GPUs were added or removed: read their names again at the next run
        devices = [_join(device, static.get(device.index)) for device in measured]
        failures: list[str] = []
        if any(map(_has_links, devices)):
            linked = parse_amd_smi.parse_links(self._run_optional(["xgmi", "--json"], failures)).devices
            links = {device.index: device.links for device in linked}
            devices = [replace(device, links=links.get(device.index, ())) for device in devices]
        processes: tuple[Process, ...] = ()
        if self._alone:
            # The error is ignored: the messages for "no processes" differ between versions.
            output = self._run_optional(["process", "--json"], failures)
            processes = parse_amd_smi.parse_process(output).processes
        return _make_report("amd-smi", self._static, devices, processes, failures)

    def _run_optional(self, arguments: list[str], failures: list[str]) -> str:
        """The output of a run without which the report is still usable. A failure is added to `failures`."""
        try:
            return self._amd_smi.run(arguments).text
        except ReaderError as error:
            failures.append(error.reason)
            return ""

    def _run_rocm_smi(self) -> SmiReport:
        from accelscope.vendors.amd import parse_rocm_smi  # noqa: PLC0415 - as above

        if not self._alone:
            arguments = ["--showproductname", "--showbus", "--showuniqueid", "--showserial", "--json"]
            self._update_static(self._rocm_smi, arguments, parse_rocm_smi.parse_rocm_json)
            return _make_report("rocm-smi", self._static, self._static)
        arguments = ["-a", "--showmeminfo", "vram", "--showpids", "--json"]
        parsed = _run_and_parse(self._rocm_smi, arguments, parse_rocm_smi.parse_rocm_json)
        return _make_report("rocm-smi", (), parsed.devices, parsed.processes)

    def _update_static(self, tool: Tool, arguments: list[str], parse: Callable[[str], ParseResult]) -> None:
        """Names and limits: every ten intervals, and after GPUs were added or removed."""
        slots = self._slots
        if self._intervals % _STATIC_EVERY == 0 or not self._static or slots != self._static_slots:
            self._static = _run_and_parse(tool, arguments, parse).devices
            self._static_slots = slots
        self._intervals += 1


def _run_and_parse(tool: Tool, arguments: list[str], parse: Callable[[str], ParseResult]) -> ParseResult:
    """Raises ReaderError if the output has no values."""
    output = tool.run(arguments)
    parsed = parse(output.text)
    if parsed.error is not None:
        # Both tools report errors through Python's logging, which writes to standard error.
        error = find_error(f"{output.text}\n{output.complaint}") or parsed.error
        raise ReaderError(error.reason, f"{' '.join(arguments)}: {error.text}")
    return parsed


def fill_gaps(device: Device, tool_device: Device | None, *, only_identity: bool = False) -> Device:
    """The device, with the values that it lacks taken from a tool."""
    if tool_device is None:
        return device
    changes: dict[str, object] = {}
    for name in _IDENTITY if only_identity else _FILLABLE:
        shared = any(absence.field == name and absence.reason == "shared" for absence in device.absent)
        value = getattr(tool_device, name)
        if getattr(device, name) in (None, ()) and value not in (None, ()) and not shared:
            changes[name] = value
    if not only_identity:
        pcie = _join_pcie(device.pcie, tool_device.pcie)
        if pcie != device.pcie:
            changes["pcie"] = pcie
        errors = tuple(error for error in tool_device.errors if error.kind == "pcie")
        if errors:
            changes["errors"] = (*device.errors, *errors)
        if device.health == UNKNOWN_HEALTH:
            changes["health"] = tool_device.health
    absent = tuple(absence for absence in device.absent if absence.field.split(".")[0] not in changes)
    return replace(device, absent=absent, **changes)  # type: ignore[arg-type]


def _join(measured: Device, static: Device | None) -> Device:
    """One GPU from the output of `amd-smi metric` and `amd-smi static`; the latter has the stable id."""
    if static is None:
        return measured
    identity = {
        name: getattr(static, name) for name in ("id", "uuid", "pci_address", "numa_node", "driver_version")
    }
    return replace(fill_gaps(measured, static), **identity)


def _join_pcie(one: Pcie | None, other: Pcie | None) -> Pcie | None:
    if one is None or other is None:
        return one or other
    missing = {
        field.name: getattr(other, field.name) for field in fields(one) if getattr(one, field.name) is None
    }
    return replace(one, **missing)


def _make_report(
    source: str,
    static: Sequence[Device],
    devices: Sequence[Device],
    processes: tuple[Process, ...] = (),
    failures: Iterable[str] = (),
) -> SmiReport:
    names = _first_by_slot(static)
    by_slot = _first_by_slot(devices)
    listed = []
    for device in devices:
        first = device if device.pci_address is None else by_slot[slot_of(device.pci_address)]
        listed.append(device if first is device else _without_shared_values(device, first))
    return SmiReport(source, tuple(listed), processes, by_slot, names, tuple(failures))


def _first_by_slot(devices: Iterable[Device]) -> dict[str, Device]:
    found: dict[str, Device] = {}
    for device in devices:
        if device.pci_address is not None:
            found.setdefault(slot_of(device.pci_address), device)
    return found


def _has_links(device: Device) -> bool:
    """Server GPUs have XGMI links. Older versions of the tool print their names without "Instinct"."""
    return bool(_SERVER_NAME.search(device.model or "") or _SERVER_CHIP.match(device.architecture or ""))


def _without_shared_values(partition: Device, first: Device) -> Device:
    """Each partition shows the power of its GPU, and its memory is that of the GPU or a part of it. The first
    partition shows the whole GPU, so these values are kept only there. Newer versions print no name for
    further partitions."""
    shared = ["power_watts", "power_limit_watts", "energy_joules"]
    if (partition.memory_total_bytes or 0) <= (first.memory_total_bytes or 0):
        shared += ["memory_total_bytes", "memory_used_bytes", "memory_free_bytes"]
    removed: dict[str, Any] = {name: None for name in shared if getattr(partition, name) is not None}
    absences = (Absence(name, AbsenceReason.SHARED) for name in removed)
    return replace(partition, model=first.model, absent=(*partition.absent, *absences), **removed)
