"""Batch jobs by device, from the folder that HPC sites let their scheduler write."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from accelscope.attribution.job_mapping import read_job_mapping
from accelscope.attribution.status import SourceLog
from accelscope.model import AttributionSourceState, Device


class Jobs:
    def __init__(self, folder: Path | None, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._log = SourceLog("job-mapping", clock, detail=None if folder is None else str(folder))

    def by_device(self, devices: Iterable[Device]) -> Mapping[str, tuple[str, ...]]:
        """By the device's id. A file is named by the device's index, its uuid, or `index.instance`."""
        if self._folder is None:
            return {}
        try:
            mapping = read_job_mapping(self._folder)
        except OSError as error:
            self._log.failed(
                "unreadable", f"{error.filename or self._folder} cannot be read: {error.strerror}"
            )
            return {}
        self._log.succeeded()
        found = {}
        for device in devices:
            jobs = [
                job
                for name, ids in mapping.items()
                if name in (device.uuid, device.id) or name.partition(".")[0] == str(device.index)
                for job in ids
            ]
            if jobs:
                found[device.id] = tuple(dict.fromkeys(jobs))
        return found

    def state(self) -> AttributionSourceState | None:
        return None if self._folder is None else self._log.state()
