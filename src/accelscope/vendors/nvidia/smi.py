"""The nvidia-smi source, for a node that has the tool but no NVML library.

The tool prints all GPUs at once, so it runs in the survey; `read` returns one device of that output.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from accelscope.model import (
    Absence,
    AbsenceReason,
    Device,
    HealthState,
    Process,
    Reading,
    Rejection,
    Vendor,
    device_id,
)
from accelscope.parsing import ParseResult
from accelscope.vendors.common.contract import DeviceLost, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.files import numa_node_of
from accelscope.vendors.common.tool import Tool, ToolOutput
from accelscope.vendors.nvidia import NVIDIA_SMI, parse_csv, parse_text
from accelscope.vendors.nvidia.cells import unknown_field
from accelscope.vendors.nvidia.gpu import LOST_TEXT, problems_of, with_health, with_known_id

# Rejections of a whole line: the line may have been the row of a GPU.
_ROW_REJECTIONS = frozenset({"truncated", "not_a_row", "unidentified"})
# Fields of all known driver versions, for a tool that does not list the fields it supports.
_STABLE_FIELDS = (
    "index",
    "uuid",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.used",
    "memory.free",
    "utilization.gpu",
    "utilization.memory",
    "temperature.gpu",
    "power.draw",
    "power.limit",
    "clocks.sm",
    "clocks.mem",
    "pstate",
    "fan.speed",
    "mig.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "name",
)
_MAX_UNKNOWN_FIELDS = 20
_SHORTEST_RUN_SECONDS = 0.1
_QUOTED_FIELD = re.compile(r'"([a-z0-9_.]+)"', re.IGNORECASE)
# Drivers before 535 use the second pair of names.
_THROTTLE_MASKS = (
    "clocks_event_reasons.active",
    "clocks_event_reasons.supported",
    "clocks_throttle_reasons.active",
    "clocks_throttle_reasons.supported",
)
_COMPUTE_APPS_FIELDS = ("gpu_uuid", "pid", "used_memory", "process_name")


class SmiSource:
    name = "nvidia-smi"

    def __init__(self, options: ReaderOptions) -> None:
        environment = os.environ if options.environment is None else options.environment
        self._tool = Tool(
            options.value(NVIDIA_SMI),
            timeout_seconds=options.tool_timeout_seconds,
            # Up to about driver 450, pmon shows only four GPUs without this.
            environment={**environment, "NVSMI_SHOW_ALL_DEVICES": "1"},
        )
        self._budget = options.tool_timeout_seconds
        self._deadline = 0.0
        self._clock = options.clock
        self._sys = options.paths.sys
        self._fields: list[str] | None = None
        self._readings: dict[str, Reading] = {}
        # Processes of the XML output, which has their MIG instances, by device and pid.
        self._xml_processes: dict[tuple[str | None, int], Process] = {}
        self._ids_by_address: dict[str, str] = {}

    def survey(self) -> Survey:
        """All runs share one time budget. The first run is enough for a page. Each further run may use half
        of the remaining time, so that a run that hangs costs only its own values."""
        self._deadline = time.monotonic() + self._budget
        parsed, output = self._query()
        exit_code = output.exit_code
        warnings = ["tool_exit_code"] if exit_code and parsed.devices else []
        rejected = list(parsed.rejected)
        self._xml_processes = {}
        devices = []
        for device in map(self._locate, parsed.devices):
            if device.id == device_id(Vendor("nvidia"), index=device.index):  # a damaged row
                rejected.append(Rejection(f"GPU {device.index}", "unidentified"))
            else:
                devices.append(device)
        if any(device.mig_enabled for device in devices):
            devices = self._with_partitions(devices, rejected, warnings)
        rejected_rows = tuple(rejected)
        earlier_warnings = len(warnings)
        processes = self._processes(devices, rejected, warnings)
        if len(warnings) > earlier_warnings:  # an empty list alone would mean that no process uses the GPU
            unlisted = Absence("processes.compute", AbsenceReason.DRIVER_ERROR)
            devices = [replace(device, absent=(*device.absent, unlisted)) for device in devices]
        now = self._clock()
        self._readings = {
            device.id: Reading(
                with_health(replace(device, read_at=now)),
                tuple(p for p in processes if p.device == device.id),
                problems=problems_of(device),
            )
            for device in devices
        }
        version = next((d.driver_version for d in devices if d.driver_version), None)
        return Survey(
            self.name,
            tuple(self._readings),
            version,
            tuple(rejected),
            warnings=tuple(warnings),
            complete=output.text.endswith("\n")
            and not any(r.reason in _ROW_REJECTIONS for r in rejected_rows),
        )

    def read(self, key: str) -> Reading:
        reading = self._readings[key]
        if reading.device.health.state is HealthState.LOST:
            raise DeviceLost(reading.device.health.reason or LOST_TEXT)
        return reading

    def _query(self) -> tuple[ParseResult, ToolOutput]:
        fields = self._fields if self._fields is not None else self._wanted_fields()
        for _ in range(_MAX_UNKNOWN_FIELDS):
            output = self._run([f"--query-gpu={','.join(fields)}", "--format=csv"])
            unknown = unknown_field(output.text)
            if unknown not in fields:
                break
            fields.remove(unknown)  # one unknown field fails the whole query
        self._fields = fields
        parsed = parse_csv.parse_query_gpu(output.text, fields)
        if parsed.error is not None and not parsed.devices:
            self._fields = None
            if parsed.error.reason == "no_devices":
                return ParseResult(), replace(output, exit_code=0)  # the driver works and has no devices
            raise ReaderError(parsed.error.reason, f"nvidia-smi: {parsed.error.text}")
        return parsed, output

    def _wanted_fields(self) -> list[str]:
        """The fields of the model that this driver supports. The name comes last: it may contain commas."""
        supported = set(_QUOTED_FIELD.findall(self._run(["--help-query-gpu"]).text))
        if "uuid" not in supported:
            return list(_STABLE_FIELDS)
        wanted = [field for field, _, _ in parse_csv.FIELDS if field in supported and field != "name"]
        masks = [field for field in _THROTTLE_MASKS if field in supported][:2]
        further = [field for field in ("gpu_recovery_action",) if field in supported]
        return [*wanted, *masks, *further, "name"]

    def _locate(self, device: Device) -> Device:
        """Add the id of earlier readings and the NUMA node."""
        device = with_known_id(device, self._ids_by_address)
        if device.pci_address is None:
            return device
        return replace(device, numa_node=numa_node_of(f"{self._sys}/bus/pci/devices/{device.pci_address}"))

    def _with_partitions(
        self, devices: list[Device], rejected: list[Rejection], warnings: list[str]
    ) -> list[Device]:
        from accelscope.vendors.nvidia import parse_xml  # noqa: PLC0415 - imports expat, needed only with MIG

        measured = self._run_and_parse(["-q", "-x"], parse_xml.parse, warnings)
        self._xml_processes = {(p.device, p.pid): p for p in measured.processes}
        listed = self._run_and_parse(["-L"], parse_text.parse_list, warnings)
        rejected += [*measured.rejected, *listed.rejected]
        joined = {d.id: d.partitions for d in parse_text.join_partitions(measured, listed).devices}
        return [replace(device, partitions=joined.get(device.id, ())) for device in devices]

    def _processes(
        self, devices: list[Device], rejected: list[Rejection], warnings: list[str]
    ) -> list[Process]:
        """Combine pmon (type and utilisation) with compute-apps (memory of compute processes)."""
        by_index = {device.index: device.id for device in devices}
        monitored = self._run_and_parse(["pmon", "-s", "um", "-c", "1"], parse_text.parse_pmon, warnings)
        listed = self._run_and_parse(
            [f"--query-compute-apps={','.join(_COMPUTE_APPS_FIELDS)}", "--format=csv"],
            lambda text: parse_csv.parse_compute_apps(text, _COMPUTE_APPS_FIELDS),
            warnings,
        )
        rejected += [*monitored.rejected, *listed.rejected]
        found: dict[tuple[str, int], Process] = {}
        for process in monitored.processes:
            device = by_index.get(process.device_index)
            if device is not None:
                found[device, process.pid] = replace(process, device=device)
        found.update(_idle_processes(found, devices))
        indices = {device.id: device.index for device in devices}
        for process in listed.processes:
            if process.device not in indices:
                continue
            key = (process.device, process.pid)
            sampled = found.get(key)
            if sampled is None:
                found[key] = replace(process, device_index=indices[process.device])
            else:
                memory = sampled.memory_bytes if process.memory_bytes is None else process.memory_bytes
                found[key] = replace(sampled, name=process.name or sampled.name, memory_bytes=memory)
        return [self._with_mig_instance(process, devices) for process in found.values()]

    def _with_mig_instance(self, process: Process, devices: list[Device]) -> Process:
        """Add the MIG instance of a process from the XML output."""
        in_xml = self._xml_processes.get((process.device, process.pid))
        if in_xml is None or in_xml.gpu_instance_id is None:
            return process
        partition = next(
            (
                p.id
                for d in devices
                if d.id == process.device
                for p in d.partitions
                if (p.gpu_instance_id, p.compute_instance_id)
                == (in_xml.gpu_instance_id, in_xml.compute_instance_id)
            ),
            None,
        )
        return replace(
            process,
            partition=partition,
            gpu_instance_id=in_xml.gpu_instance_id,
            compute_instance_id=in_xml.compute_instance_id,
        )

    def _run(self, arguments: list[str], share: float = 1.0) -> ToolOutput:
        left = share * (self._deadline - time.monotonic())
        return self._tool.run(arguments, timeout_seconds=max(left, _SHORTEST_RUN_SECONDS))

    def _run_and_parse(
        self, arguments: list[str], parse: Callable[[str], ParseResult], warnings: list[str]
    ) -> ParseResult:
        """Output of a further run. If the run fails, nothing and a warning."""
        try:
            output = self._run(arguments, share=0.5)
        except ReaderError as error:
            warnings.append(error.reason)
            return ParseResult()
        parsed = parse(output.text)
        if parsed.error is not None and parsed.error.reason != "not_supported":
            warnings.append(parsed.error.reason)
        return parsed


def _idle_processes(
    monitored: Mapping[tuple[str, int], Process], devices: Iterable[Device]
) -> dict[tuple[str, int], Process]:
    """The processes without a sample of pmon that were idle, with a utilisation of 0.

    pmon also prints `-` for a process that it cannot sample, as in MIG mode. So a process counts as idle only
    if its GPU was idle, or if pmon has a sample of another process on the same GPU.
    """
    sampled = {device for (device, _), process in monitored.items() if process.utilization_ratio is not None}
    sampled |= {device.id for device in devices if device.utilization_ratio == 0}
    sampled -= {device.id for device in devices if device.mig_enabled}
    return {
        key: replace(process, utilization_ratio=0.0, memory_utilization_ratio=0.0)
        for key, process in monitored.items()
        if process.utilization_ratio is None and key[0] in sampled
    }
