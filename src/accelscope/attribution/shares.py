"""Shares and batch jobs of devices, from files on the node and from the settings."""

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from accelscope.attribution.options import SourceStatus
from accelscope.files import FileWatch, open_regular
from accelscope.model import AttributionSourceState, Device
from accelscope.parsing import ParseError, ParseResult
from accelscope.vendors import declarations

log = logging.getLogger(__name__)

_FILE_BYTES = 4096
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LONGEST = 32  # characters of a number
_LEAST, _MOST = 1e-6, 1e6  # anything else is a mistake
_MAX_QUOTED = 16  # characters of a wrong text: a longer one may be another file with a secret
_EXPECTED = "expected one number above 0, such as 2 or 2.5"


class RatioError(ValueError):
    """The text is not a ratio."""


def parse_ratio(text: str) -> float:
    """A text with one number; spaces and empty lines are ignored. Raises RatioError."""
    written = text.removeprefix("\ufeff").strip(" \t\r\n")
    if not written:
        raise RatioError(f"empty: {_EXPECTED}")
    if len(written) > _LONGEST or not _NUMBER.fullmatch(written):
        raise RatioError(f"{_quote(written)} is not a ratio: {_EXPECTED}")
    ratio = float(written)
    if not ratio:
        raise RatioError(f"{written} is not above 0: {_EXPECTED}")
    if not _LEAST <= ratio <= _MOST:
        raise RatioError(f"{written} is out of range: {_EXPECTED}, from {_LEAST:f} to {_MOST:.0f}")
    return ratio


def parse_gpu_allocation(text: str) -> ParseResult:
    try:
        return ParseResult(ratio=parse_ratio(text))
    except RatioError as error:
        return ParseResult(error=ParseError("bad_ratio", str(error)))


def _quote(text: str) -> str:
    return ascii(text) if len(text) <= _MAX_QUOTED else f"a text of {len(text)} characters"


class Shares:
    """The ratio of the device takes precedence over that of its model, and both over the file. If the file
    becomes invalid or is removed, its last ratio stays in use."""

    def __init__(
        self,
        file: Path | None,
        devices: Mapping[str, float],
        models: Mapping[str, float],
        clock: Callable[[], float],
    ) -> None:
        self.devices = devices
        self.models = models
        self._watch = FileWatch(file) if file is not None else None
        self._status = SourceStatus("shares", clock, detail=None if file is None else str(file))
        self._ratio: float | None = None
        self._seen = False  # the file exists or existed
        self._read()

    def poll(self) -> None:
        if self._watch is not None and self._watch.changed():
            self._read()

    def ratio(self, device: Device) -> float | None:
        for name in _names(device):
            if name in self.devices:
                return self.devices[name]
        for pattern, ratio in self.models.items():
            if device.model is not None and fnmatchcase(device.model, pattern):
                return ratio
        return self._ratio

    def state(self) -> AttributionSourceState | None:
        """None if no shares are configured."""
        if self._seen:
            return self._status.state()
        return self._status.succeeded().state() if self.devices or self.models else None

    def _read(self) -> None:
        if self._watch is None:
            return
        try:
            with open_regular(self._watch.path) as file:
                content = file.read(_FILE_BYTES + 1)
            ratio = parse_ratio(content.decode(errors="replace"))
        except FileNotFoundError:
            if self._seen:
                self._failed("missing", "the file was removed")
            return
        except OSError as error:
            self._failed("unreadable", f"cannot be read: {error.strerror}")
        except RatioError as error:
            self._failed("bad_ratio", str(error))
        else:
            if ratio != self._ratio:
                log.info("%g shares per device, from %s", ratio, self._watch.path)
            self._ratio = ratio
            self._status.succeeded()
        self._seen = True

    def _failed(self, reason: str, text: str) -> None:
        kept = "no ratio is in use" if self._ratio is None else f"the ratio {self._ratio:g} stays in use"
        path = self._watch.path if self._watch is not None else ""
        self._status.failed(reason, f"{path}: {text}; {kept}")


def _names(device: Device) -> list[str]:
    index = None if device.index is None else str(device.index)
    named = (device.id, device.uuid, device.serial, device.pci_address, device.device_name, index)
    return [name for name in named if name]


# --- batch jobs -----------------------------------------------------------
# Batch jobs by device, from a folder that the prolog and epilog of a batch system write. It has one file per
# device, named by its index or uuid, with one job id per line. dcgm-exporter reads the same files.


_JOBS_FILE_BYTES = 64 * 1024
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
                content = file.read(_JOBS_FILE_BYTES + 1)
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
    if len(content) > _JOBS_FILE_BYTES:
        content = content[:_JOBS_FILE_BYTES].rpartition(b"\n")[0]  # the last line may be incomplete
    lines = content.decode("utf-8-sig", errors="replace").split("\n")
    ids = (line.strip() for line in lines)
    return tuple(dict.fromkeys(i for i in ids if 0 < len(i) <= _LONGEST_ID and i.isprintable()))
