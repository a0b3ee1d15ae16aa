"""NVIDIA GPUs of nodes without an agent: `nvidia-smi` in the driver pods of the GPU Operator."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from accelscope.model import (
    Absence,
    AbsenceReason,
    AgentState,
    Process,
    ReaderState,
    Snapshot,
    Vendor,
)
from accelscope.parsing import ParseError, ParseResult
from accelscope.vendors.common.contract import CommandOutput, ToolReading
from accelscope.vendors.nvidia import parse_csv, parse_text
from accelscope.vendors.nvidia.cells import unknown_field
from accelscope.vendors.nvidia.gpu import with_health, with_known_id

_DRIVER, _VGPU_MANAGER = "nvidia-driver-ctr", "nvidia-vgpu-manager-ctr"

# The name comes last: it may contain commas.
QUERY_FIELDS = (
    "index",
    "uuid",
    "serial",
    "pci.bus_id",
    "driver_version",
    "vbios_version",
    "temperature.gpu",
    "utilization.gpu",
    "utilization.memory",
    "memory.total",
    "memory.used",
    "memory.free",
    "power.draw",
    "power.limit",
    "pcie.link.gen.current",
    "pcie.link.width.current",
    "fan.speed",
    "pstate",
    "clocks.sm",
    "clocks.mem",
    "mig.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "name",
)
_PMON_SELECTIONS = ("um", "u")  # utilisation and memory; older tools have utilisation only
# Errors of a tool that does not support the requested option.
_UNSUPPORTED = frozenset({"unknown_option", "not_supported", "unrecognized"})
_UNLISTED = Absence("processes.compute", AbsenceReason.DRIVER_ERROR)


def containers(labels: Mapping[str, str]) -> Sequence[str]:
    """The containers that have nvidia-smi, by the labels of the pod.

    The operator sets the component label since v23.9. Before that it set `app`, which ends in a version on
    OpenShift. Init containers and those that build the driver have no nvidia-smi.
    """
    component, app = labels.get("app.kubernetes.io/component"), labels.get("app", "")
    if component == "nvidia-driver" or app.startswith(("nvidia-driver-daemonset", "nvidia-gpu-driver-")):
        return (_DRIVER,)
    if component == "nvidia-vgpu-host-manager" or app.startswith("nvidia-vgpu-manager-"):
        return (_VGPU_MANAGER, _DRIVER)
    return ()


class NvidiaSmi:
    name = "nvidia-smi"

    def __init__(self) -> None:
        # Fields and selections that the tool has not rejected.
        self._fields = list(QUERY_FIELDS)
        self._selections = list(_PMON_SELECTIONS)

    def questions(self) -> Generator[Sequence[str], CommandOutput, ToolReading]:
        devices = yield from self._query()
        processes = (yield from self._processes()) if devices.devices else ParseResult()
        return ToolReading(devices, processes)

    def snapshot(
        self,
        node: str,
        reading: ToolReading,
        *,
        taken_at: float,
        interval_seconds: float,
        ids_by_address: dict[str, str],
    ) -> Snapshot:
        """Without an agent there is no information about the agent, pods and owners of processes."""
        devices = tuple(
            with_health(replace(with_known_id(device, ids_by_address), read_at=taken_at))
            for device in reading.devices.devices
        )
        if reading.processes.error is not None:  # an empty list alone would mean that no process runs
            devices = tuple(replace(device, absent=(*device.absent, _UNLISTED)) for device in devices)
        by_index = {device.index: device.id for device in devices if device.index is not None}
        reader = ReaderState(
            vendor=Vendor("nvidia"),
            found=True,
            up=True,
            source=self.name,
            driver_version=next((d.driver_version for d in devices if d.driver_version), None),
            devices_expected=len(devices),
            devices_seen=len(devices),
        )
        return Snapshot(
            node=node,
            taken_at=taken_at,
            agent=AgentState(version="", started_at=taken_at),
            interval_seconds=interval_seconds,
            readers=(reader,),
            devices=devices,
            processes=tuple(
                _with_device(process, by_index)
                for process in reading.processes.processes
                if process.device_index in by_index
            ),
        )

    def _query(self) -> Generator[Sequence[str], CommandOutput, ParseResult]:
        """Query the GPUs. One unknown field fails the whole query, so it is omitted from then on."""
        for _ in QUERY_FIELDS:
            output = yield (
                "nvidia-smi",
                f"--query-gpu={','.join(self._fields)}",
                "--format=csv,noheader,nounits",
            )
            unknown = unknown_field(output.text)
            if unknown not in self._fields:
                break
            self._fields.remove(unknown)
        parsed = parse_csv.parse_query_gpu(output.text, self._fields)
        return replace(parsed, error=_with_exit_code(parsed.error, output))

    def _processes(self) -> Generator[Sequence[str], CommandOutput, ParseResult]:
        """Processes on the GPUs, without memory for an older tool. Without a process list the rest of the
        snapshot is still valid, and the list is marked as absent."""
        while True:
            output = yield ("nvidia-smi", "pmon", "-s", self._selections[0], "-c", "1")
            parsed = parse_text.parse_pmon(output.text)
            error = parsed.error
            if error is None or error.reason not in _UNSUPPORTED or len(self._selections) == 1:
                return replace(parsed, error=_with_exit_code(error, output))
            del self._selections[0]


def _with_exit_code(error: ParseError | None, output: CommandOutput) -> ParseError | None:
    """Report the exit code of a tool that printed nothing."""
    if error is None or error.reason != "empty":
        return error
    return ParseError("tool_failed", f"no output, exit code {output.exit_code}")


def _with_device(process: Process, by_index: dict[int, str]) -> Process:
    assert process.device_index is not None
    return replace(process, device=by_index[process.device_index])
