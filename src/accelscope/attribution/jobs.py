"""Batch jobs by device, from the folder that HPC sites let their scheduler write."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from accelscope.attribution.options import SourceLog
from accelscope.files import open_regular
from accelscope.model import AttributionSourceState, Device
from accelscope.vendors import declarations

# --- job mapping ------------------------------------------------------------
# The folder in which a batch system's prolog and epilog note the jobs of each GPU: one file per GPU, one job
# id per line. dcgm-exporter reads the same files.


_FILE_NAME = re.compile(  # 0, of a MIG instance 0.7, or a uuid
    r"[0-9]{1,5}(?:\.[0-9]{1,5})?|(?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
_MOST_FILES = 1024
_FILE_BYTES = 64 * 1024
_LONGEST_ID = 64


def read_job_mapping(folder: Path) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Job ids by name of the file, without GPUs that have no job, and what could not be read. Raises OSError
    if the folder cannot be listed."""
    with os.scandir(folder) as entries:
        names = sorted(
            entry.name for entry in entries if _FILE_NAME.fullmatch(entry.name) and entry.is_file()
        )
    found, unread = {}, []
    for name in names[:_MOST_FILES]:
        try:
            with open_regular(folder / name) as file:
                content = file.read(_FILE_BYTES + 1)
        except FileNotFoundError:  # the job has ended since
            continue
        except OSError as error:
            unread.append(f"{folder / name} cannot be read: {error.strerror}")
            continue
        jobs = _jobs(content)
        if jobs:
            found[name] = jobs
    return found, unread


def _jobs(content: bytes) -> tuple[str, ...]:
    if len(content) > _FILE_BYTES:
        content = content[:_FILE_BYTES].rpartition(b"\n")[0]  # the last line is cut
    lines = content.decode("utf-8-sig", errors="replace").split("\n")
    ids = (line.strip() for line in lines)
    return tuple(dict.fromkeys(i for i in ids if 0 < len(i) <= _LONGEST_ID and i.isprintable()))


Part = tuple[str, str | None]  # Device.id, and Partition.id where a part of it is meant


class Jobs:
    def __init__(self, folder: Path | None, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._log = SourceLog("job-mapping", clock, detail=None if folder is None else str(folder))

    def by_part(self, devices: Sequence[Device]) -> Mapping[Part, tuple[str, ...]]:
        """A file is named by the device's index or uuid; of a MIG instance `index.instance` or its uuid."""
        if self._folder is None:
            return {}
        try:
            mapping, unread = read_job_mapping(self._folder)
        except OSError as error:
            self._log.failed("unreadable", f"{self._folder} cannot be listed: {error.strerror}")
            return {}
        if unread:
            self._log.failed("unreadable", unread[0])
        else:
            self._log.succeeded()
        names = _names(devices)
        found: dict[Part, dict[str, None]] = {}
        for name, jobs in mapping.items():
            if name in names:
                found.setdefault(names[name], {}).update(dict.fromkeys(jobs))
        return {part: tuple(jobs) for part, jobs in found.items()}

    def state(self) -> AttributionSourceState | None:
        return None if self._folder is None else self._log.state()


def _names(devices: Iterable[Device]) -> dict[str, Part]:
    """What a file may be called. Where several vendors are on the node, an index is a device of the one
    that declares `indexes_job_files`."""
    devices = list(devices)
    vendors = {device.vendor for device in devices}
    if len(vendors) > 1:
        vendors = {vendor for vendor in vendors if declarations()[vendor].indexes_job_files}
    counted = vendors.pop() if len(vendors) == 1 else None
    names: dict[str, Part] = {}
    for device in devices:
        whole = device.id, None
        if device.uuid is not None:
            names[device.uuid] = whole
        if device.vendor is counted and device.index is not None:
            names[str(device.index)] = whole
        for part in device.partitions:
            if part.uuid is not None:
                names[part.uuid] = device.id, part.id
            if device.vendor is counted and part.gpu_instance_id is not None:
                names.setdefault(f"{device.index}.{part.gpu_instance_id}", (device.id, part.id))
    return names
