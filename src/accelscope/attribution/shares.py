"""The number of shares per device: from a file with one number, or by device and model from the settings."""

import logging
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from accelscope.attribution.options import SourceStatus
from accelscope.files import FileWatch, open_regular
from accelscope.model import AttributionSourceState, Device
from accelscope.parsing import ParseError, ParseResult

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
