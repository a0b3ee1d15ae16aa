"""The nvidia-smi source, for a node that has the tool but no NVML library.

The tool tells of all GPUs at once, so it runs in the survey; reading a device only hands out its part.
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
from accelscope.parsing import Parsed
from accelscope.vendors.common.contract import DeviceLost, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.files import numa_node_of
from accelscope.vendors.common.tool import Tool, ToolOutput
from accelscope.vendors.nvidia import NVIDIA_SMI, parse_csv, parse_text
from accelscope.vendors.nvidia.cells import unknown_field
from accelscope.vendors.nvidia.gpu import with_health, with_known_id

# Reasons to reject a whole line of the table of GPUs: one of them may stand in it.
_A_ROW_IS_MISSING = frozenset({"truncated", "not_a_row", "unidentified"})
# Known to every driver seen; asked for when the tool does not tell which fields it knows.
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
_MOST_UNKNOWN_FIELDS = 20
_SHORTEST_RUN_SECONDS = 0.1
_QUOTED_FIELD = re.compile(r'"([a-z0-9_.]+)"', re.IGNORECASE)
# The second pair is what drivers before 535 call the first.
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
        given = os.environ if options.environment is None else options.environment
        self._tool = Tool(
            options.value(NVIDIA_SMI),
            timeout_seconds=options.tool_timeout_seconds,
            # Before driver 450 or so, pmon watches four GPUs unless it is told otherwise.
            environment={**given, "NVSMI_SHOW_ALL_DEVICES": "1"},
        )
        self._budget = options.tool_timeout_seconds
        self._deadline = 0.0
        self._clock = options.clock
        self._sys = options.paths.sys
        self._fields: list[str] | None = None
        self._readings: dict[str, Reading] = {}
        # Processes as the XML has them, with their MIG instances, by device and pid.
        self._instances: dict[tuple[str | None, int], Process] = {}
        self._ids_by_address: dict[str, str] = {}

    def survey(self) -> Survey:
        """All runs share one budget of time. What the first tells is enough for a page; each further run may
        use half of what is left, so that one that hangs costs what it would have added."""
        self._deadline = time.monotonic() + self._budget
        parsed, output = self._query()
        exit_code = output.exit_code
        warnings = ["tool_exit_code"] if exit_code and parsed.devices else []
        rejected = list(parsed.rejected)
        self._instances = {}
        devices = []
        for device in map(self._placed, parsed.devices):
            if device.id == device_id(Vendor("nvidia"), index=device.index):
                rejected.append(Rejection(f"GPU {device.index}", "unidentified"))  # a damaged row
            else:
                devices.append(device)
        if any(device.mig_enabled for device in devices):
            devices = self._with_partitions(devices, rejected, warnings)
        rejected_rows = tuple(rejected)
        failed_before = len(warnings)
        processes = self._processes(devices, rejected, warnings)
        if len(warnings) > failed_before:  # an empty list would pass for "nobody uses it"
            unlisted = Absence("processes.compute", AbsenceReason.DRIVER_ERROR)
            devices = [replace(device, absent=(*device.absent, unlisted)) for device in devices]
        now = self._clock()
        self._readings = {
            device.id: Reading(
                with_health(replace(device, read_at=now), now),
                tuple(p for p in processes if p.device == device.id),
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
            and not any(r.reason in _A_ROW_IS_MISSING for r in rejected_rows),
        )

    def read(self, key: str) -> Reading:
        reading = self._readings[key]
        if reading.device.health.state is HealthState.LOST:
            raise DeviceLost(reading.device.health.reason or "GPU is lost")
        return reading

    def _query(self) -> tuple[Parsed, ToolOutput]:
        fields = self._fields if self._fields is not None else self._wanted_fields()
        for _ in range(_MOST_UNKNOWN_FIELDS):
            output = self._run([f"--query-gpu={','.join(fields)}", "--format=csv"])
            unknown = unknown_field(output.text)
            if unknown not in fields:
                break
            fields.remove(unknown)  # it costs itself only
        self._fields = fields
        parsed = parse_csv.parse_query_gpu(output.text, fields)
        if parsed.error is not None and not parsed.devices:
            self._fields = None
            if parsed.error.reason == "no_devices":
                return Parsed(), replace(output, exit_code=0)  # the driver is up and shows none
            raise ReaderError(parsed.error.reason, f"nvidia-smi: {parsed.error.text}")
        return parsed, output

    def _wanted_fields(self) -> list[str]:
        """What the model has a place for and this driver knows. The name comes last: it may hold commas."""
        known = set(_QUOTED_FIELD.findall(self._run(["--help-query-gpu"]).text))
        if "uuid" not in known:
            return list(_STABLE_FIELDS)
        wanted = [field for field, _, _ in parse_csv.FIELDS if field in known and field != "name"]
        masks = [field for field in _THROTTLE_MASKS if field in known][:2]
        further = [field for field in ("gpu_recovery_action",) if field in known]
        return [*wanted, *masks, *further, "name"]

    def _placed(self, device: Device) -> Device:
        """Known again, and where it sits."""
        device = with_known_id(device, self._ids_by_address)
        if device.pci_address is None:
            return device
        return replace(device, numa_node=numa_node_of(f"{self._sys}/bus/pci/devices/{device.pci_address}"))

    def _with_partitions(
        self, devices: list[Device], rejected: list[Rejection], warnings: list[str]
    ) -> list[Device]:
        from accelscope.vendors.nvidia import parse_xml  # noqa: PLC0415 - expat, for nodes with MIG only

        measured = self._parsed(["-q", "-x"], parse_xml.parse, warnings)
        self._instances = {(p.device, p.pid): p for p in measured.processes}
        listed = self._parsed(["-L"], parse_text.parse_list, warnings)
        rejected += [*measured.rejected, *listed.rejected]
        joined = {d.id: d.partitions for d in parse_text.join_partitions(measured, listed).devices}
        return [replace(device, partitions=joined.get(device.id, ())) for device in devices]

    def _processes(
        self, devices: list[Device], rejected: list[Rejection], warnings: list[str]
    ) -> list[Process]:
        """pmon tells who ran and of what type, compute-apps how much memory compute processes hold."""
        by_index = {device.index: device.id for device in devices}
        monitored = self._parsed(["pmon", "-s", "um", "-c", "1"], parse_text.parse_pmon, warnings)
        listed = self._parsed(
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
        found.update(_idle(found, devices))
        indices = {device.id: device.index for device in devices}
        for process in listed.processes:
            if process.device not in indices:
                continue
            key = (process.device, process.pid)
            before = found.get(key)
            if before is None:
                found[key] = replace(process, device_index=indices[process.device])
            else:
                memory = before.memory_bytes if process.memory_bytes is None else process.memory_bytes
                found[key] = replace(before, name=process.name or before.name, memory_bytes=memory)
        return [self._in_instance(process, devices) for process in found.values()]

    def _in_instance(self, process: Process, devices: list[Device]) -> Process:
        """Which MIG instance a process is in, where the XML told."""
        told = self._instances.get((process.device, process.pid))
        if told is None or told.gpu_instance_id is None:
            return process
        partition = next(
            (
                p.id
                for d in devices
                if d.id == process.device
                for p in d.partitions
                if (p.gpu_instance_id, p.compute_instance_id)
                == (told.gpu_instance_id, told.compute_instance_id)
            ),
            None,
        )
        return replace(
            process,
            partition=partition,
            gpu_instance_id=told.gpu_instance_id,
            compute_instance_id=told.compute_instance_id,
        )

    def _run(self, arguments: list[str], share: float = 1.0) -> ToolOutput:
        left = share * (self._deadline - time.monotonic())
        return self._tool.run(arguments, timeout_seconds=max(left, _SHORTEST_RUN_SECONDS))

    def _parsed(self, arguments: list[str], parse: Callable[[str], Parsed], warnings: list[str]) -> Parsed:
        """What a further run adds. Its failure costs what it would have added, and is counted."""
        try:
            output = self._run(arguments, share=0.5)
        except ReaderError as error:
            warnings.append(error.reason)
            return Parsed()
        parsed = parse(output.text)
        if parsed.error is not None and parsed.error.reason != "not_supported":
            warnings.append(parsed.error.reason)
        return parsed


def _idle(
    monitored: Mapping[tuple[str, int], Process], devices: Iterable[Device]
) -> dict[tuple[str, int], Process]:
    """The processes that pmon has no sample of because they did not run, with 0.

    pmon prints the same `-` for what it cannot sample, as in MIG mode. So a process counts as idle only where
    its GPU ran nothing at all, or where pmon has a sample of another process on that GPU."""
    sampled = {device for (device, _), process in monitored.items() if process.utilization_ratio is not None}
    sampled |= {device.id for device in devices if device.utilization_ratio == 0}
    sampled -= {device.id for device in devices if device.mig_enabled}
    return {
        key: replace(process, utilization_ratio=0.0, memory_utilization_ratio=0.0)
        for key, process in monitored.items()
        if process.utilization_ratio is None and key[0] in sampled
    }
