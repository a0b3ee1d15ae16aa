"""Batch jobs by device, from a folder that the prolog and epilog of a batch system write.

The folder has one file per device, named by its index or uuid, with one job id per line. dcgm-exporter reads
the same files.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from accelscope.attribution.options import SourceStatus
from accelscope.files import open_regular
from accelscope.model import AttributionSourceState, Device
from accelscope.vendors import declarations

_FILE_BYTES = 64 * 1024
_LONGEST_ID = 64

Part = tuple[str, str | None]  # Device.id, and Partition.id if the job has only that partition


class JobMapping:
    def __init__(self, folder: Path | None, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._status = SourceStatus("job-mapping", clock, detail=None if folder is None else str(folder))

    def by_part(self, devices: Sequence[Device]) -> Mapping[Part, tuple[str, ...]]:
        if self._folder is None:
            return {}
        parts = _file_names(devices)
        try:
            mapping, errors = read_job_mapping(self._folder, parts.keys())
        except OSError as error:
            self._status.failed("unreadable", f"{self._folder} cannot be listed: {error.strerror}")
            return {}
        if errors:
            self._status.failed("unreadable", errors[0])
        else:
            self._status.succeeded()
        found: dict[Part, dict[str, None]] = {}
        for name, jobs in mapping.items():
            found.setdefault(parts[name], {}).update(dict.fromkeys(jobs))
        return {part: tuple(jobs) for part, jobs in found.items()}

    def state(self) -> AttributionSourceState | None:
        return None if self._folder is None else self._status.state()


def _file_names(devices: Iterable[Device]) -> dict[str, Part]:
    """The names that a file may have: index or uuid of a device, `index.instance` or uuid of a MIG instance.
    On a node with several vendors, an index is a device of the one that declares `indexes_job_files`."""
    devices = list(devices)
    vendors = {device.vendor for device in devices}
    if len(vendors) > 1:
        vendors = {vendor for vendor in vendors if declarations()[vendor].indexes_job_files}
    indexed = vendors.pop() if len(vendors) == 1 else None
    names: dict[str, Part] = {}
    for device in devices:
        whole = device.id, None
        if device.uuid is not None:
            names[device.uuid] = whole
        if device.vendor is indexed and device.index is not None:
            names[str(device.index)] = whole
        for part in device.partitions:
            if part.uuid is not None:
                names[part.uuid] = device.id, part.id
            if device.vendor is indexed and part.gpu_instance_id is not None:
                names.setdefault(f"{device.index}.{part.gpu_instance_id}", (device.id, part.id))
    return names


def read_job_mapping(folder: Path, names: Collection[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Job ids by file name, without empty files, and the errors of files that cannot be read. Other files are
    ignored. Raises OSError if the folder cannot be listed."""
    with os.scandir(folder) as entries:
        files = sorted(entry.name for entry in entries if entry.name in names and entry.is_file())
    found, errors = {}, []
    for name in files:
        try:
            with open_regular(folder / name) as file:
                content = file.read(_FILE_BYTES + 1)
        except FileNotFoundError:  # the job has ended
            continue
        except OSError as error:
            errors.append(f"{folder / name} cannot be read: {error.strerror}")
            continue
        jobs = _parse_jobs(content)
        if jobs:
            found[name] = jobs
    return found, errors


def _parse_jobs(content: bytes) -> tuple[str, ...]:
    if len(content) > _FILE_BYTES:
        content = content[:_FILE_BYTES].rpartition(b"\n")[0]  # the last line may be incomplete
    lines = content.decode("utf-8-sig", errors="replace").split("\n")
    ids = (line.strip() for line in lines)
    return tuple(dict.fromkeys(i for i in ids if 0 < len(i) <= _LONGEST_ID and i.isprintable()))
