"""Into how many shares a device is cut: by a file with one number, or by device and model in the settings."""

import logging
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from accelscope.attribution.options import SourceLog
from accelscope.files import FileWatch, open_regular
from accelscope.model import AttributionSourceState, Device
from accelscope.parsing import Parsed, ParseError

# --- ratio file ------------------------------------------------------------
# `gpu_allocation.txt`: one number, into how many shares each card is cut.


_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LONGEST = 32  # digits that anybody would write
_LEAST, _MOST = 1e-6, 1e6  # beyond is a mistake, and a share of nothing or of everything
_SHOWN = 16  # characters of a wrong text: a longer one is another file, perhaps one with a secret
_WANTED = "one number above 0 is wanted, such as 2 or 2.5"


class RatioError(ValueError):
    """The text is no ratio; the message says what is wanted."""


def parse_ratio(text: str) -> float:
    """The ratio that the text holds, alone but for blanks and empty lines. Raises RatioError."""
    written = text.removeprefix("\ufeff").strip(" \t\r\n")
    if not written:
        raise RatioError(f"empty: {_WANTED}")
    if len(written) > _LONGEST or not _NUMBER.fullmatch(written):
        raise RatioError(f"{_shown(written)} is no ratio: {_WANTED}")
    ratio = float(written)
    if not ratio:
        raise RatioError(f"{written} is not above 0: {_WANTED}")
    if not _LEAST <= ratio <= _MOST:
        raise RatioError(f"{written} is out of range: {_WANTED}, from {_LEAST:f} to {_MOST:.0f}")
    return ratio


def parse_gpu_allocation(text: str) -> Parsed:
    try:
        return Parsed(ratio=parse_ratio(text))
    except RatioError as error:
        return Parsed(error=ParseError("bad_ratio", str(error)))


def _shown(text: str) -> str:
    return ascii(text) if len(text) <= _SHOWN else f"a text of {len(text)} characters"


_FILE_BYTES = 4096

log = logging.getLogger(__name__)


class Shares:
    """What is more special wins: the device, its model, the file. A file that is bad or gone leaves the ratio
    that was read before in force."""

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
        self._log = SourceLog("shares", clock, detail=None if file is None else str(file))
        self._ratio: float | None = None
        self._seen = False  # the file is or was there
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
        """None where nobody asked for shares."""
        if self._seen:
            return self._log.state()
        return self._log.succeeded().state() if self.devices or self.models else None

    def _read(self) -> None:
        if self._watch is None:
            return
        try:
            with open_regular(self._watch.path) as file:
                content = file.read(_FILE_BYTES + 1)
            ratio = parse_ratio(content.decode(errors="replace"))
        except FileNotFoundError:
            if self._seen:
                self._failed("missing", "the file is gone")
            return
        except OSError as error:
            self._failed("unreadable", f"cannot be read: {error.strerror}")
        except RatioError as error:
            self._failed("bad_ratio", str(error))
        else:
            if ratio != self._ratio:
                log.info("each device counts as %g shares, by %s", ratio, self._watch.path)
            self._ratio = ratio
            self._log.succeeded()
        self._seen = True

    def _failed(self, reason: str, text: str) -> None:
        kept = "there is no ratio yet" if self._ratio is None else f"the ratio {self._ratio:g} stays"
        path = self._watch.path if self._watch is not None else ""
        self._log.failed(reason, f"{path}: {text}; {kept}")


def _names(device: Device) -> list[str]:
    index = None if device.index is None else str(device.index)
    named = (device.id, device.uuid, device.serial, device.pci_address, device.device_name, index)
    return [name for name in named if name]
