"""What `nvidia-smi` is asked for in a driver pod, and a node's snapshot from its answers."""

from collections.abc import Sequence
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
from accelscope.parsing.parsed import Parsed
from accelscope.readers.nvidia.health import judged
from accelscope.readers.nvidia.identity import identified

# The name comes last: it may hold commas.
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
MOST_UNKNOWN_FIELDS = len(QUERY_FIELDS)
PMON_SELECTIONS = ("um", "u")  # utilisation and memory; tools that cannot give both give the first

_SOURCE = "nvidia-smi"
_UNLISTED = Absence("processes.compute", AbsenceReason.DRIVER_ERROR)


def query_command(fields: Sequence[str]) -> tuple[str, ...]:
    return ("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


def pmon_command(selection: str) -> tuple[str, ...]:
    return ("nvidia-smi", "pmon", "-s", selection, "-c", "1")


def snapshot_of(
    node: str,
    devices: Parsed,
    processes: Parsed,
    *,
    taken_at: float,
    interval_seconds: float,
    ids_by_address: dict[str, str],
) -> Snapshot:
    """There is no agent: what it would say of itself, of pods and of owners is absent. `ids_by_address` is
    kept from one reading of the node to the next."""
    read = tuple(
        judged(replace(identified(device, ids_by_address), read_at=taken_at), taken_at)
        for device in devices.devices
    )
    if processes.error is not None:  # an empty list would pass for "nobody uses it"
        read = tuple(replace(device, absent=(*device.absent, _UNLISTED)) for device in read)
    by_index = {device.index: device.id for device in read if device.index is not None}
    reader = ReaderState(
        vendor=Vendor.NVIDIA,
        found=True,
        up=True,
        source=_SOURCE,
        driver_version=next((d.driver_version for d in read if d.driver_version), None),
        devices_expected=len(read),
        devices_seen=len(read),
    )
    return Snapshot(
        node=node,
        taken_at=taken_at,
        agent=AgentState(version="", started_at=taken_at),
        interval_seconds=interval_seconds,
        readers=(reader,),
        devices=read,
        processes=tuple(
            _placed(process, by_index) for process in processes.processes if process.device_index in by_index
        ),
    )


def _placed(process: Process, by_index: dict[int, str]) -> Process:
    assert process.device_index is not None
    return replace(process, device=by_index[process.device_index])
