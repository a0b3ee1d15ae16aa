"""Small files of the kernel about one GPU: sensors (hwmon) and error counters (RAS)."""

import errno
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from accelscope.model import AbsenceReason, ErrorCount
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.common.files import entries, read_optional, read_text, read_whole
from accelscope.vendors.common.values import Growth

# Why a value is absent, by the error of reading its file.
_REASONS = {
    errno.ENOENT: AbsenceReason.NOT_SUPPORTED,
    errno.EOPNOTSUPP: AbsenceReason.NOT_SUPPORTED,
    errno.EINVAL: AbsenceReason.NOT_SUPPORTED,
    errno.EACCES: AbsenceReason.NO_PERMISSION,
    # Not a matter of permissions: amdgpu returns EPERM while the GPU is being reset or is suspended.
    errno.EPERM: AbsenceReason.NO_SAMPLE,
    errno.EBUSY: AbsenceReason.NO_SAMPLE,
    errno.EAGAIN: AbsenceReason.NO_SAMPLE,
    errno.ENODATA: AbsenceReason.NO_SAMPLE,
    errno.ETIMEDOUT: AbsenceReason.TIMEOUT,
    errno.ETIME: AbsenceReason.TIMEOUT,
    errno.ENODEV: AbsenceReason.LOST,
    errno.ENXIO: AbsenceReason.LOST,
}


def reason_of(error: OSError) -> AbsenceReason:
    return _REASONS.get(error.errno or 0, AbsenceReason.DRIVER_ERROR)


# Sensors: the folder hwmon/hwmonN of the device. Files `*_label` name the sensors.

_INPUT = re.compile(r"(temp|in|freq)([0-9]{1,3})_input", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_SENSORS = {"mem": "memory"}  # as other sources name it
_RAILS = {"vddgfx": "gfx", "vddnb": "soc", "vddboard": "board"}
_CLOCKS = {"sclk": "graphics", "mclk": "memory"}
_PWM_STEPS = 255  # without pwm1_max

# Files that every GPU may have: name, place in the draft, factor to the base unit. Of two files for one place
# the first is used. Dedicated GPUs before MI300 report average power, the others current power.
_FILES: tuple[tuple[str, str, float], ...] = (
    ("power1_average", "power_watts", 1e-6),
    ("power1_input", "power_watts", 1e-6),
    ("power1_cap", "power_limit_watts", 1e-6),
    ("power1_cap_default", "power_limit_default_watts", 1e-6),
    ("power1_cap_min", "power_limit_min_watts", 1e-6),
    ("power1_cap_max", "power_limit_max_watts", 1e-6),
    ("fan1_input", "fans.0.rpm", 1.0),
)
# Constant while the driver is loaded, or changed by an administrator. The driver asks the GPU for them, so
# they are read once a minute.
_RARELY_CHANGED = (
    "power_limit_default_watts",
    "power_limit_min_watts",
    "power_limit_max_watts",
    "temperature_slowdown_celsius",
    "temperature_shutdown_celsius",
)
RARELY_SECONDS = 60.0
_HIGHEST = {"power_watts": 1e4, "sensors": 500.0, "rails": 60.0, "clocks": 6e10, "fans": 1e5}


@dataclass(frozen=True, slots=True)
class _Layout:
    folder: str
    files: tuple[tuple[str, str, float], ...]
    main_sensor: str | None  # such as temp1; its limits are the GPU's
    pwm_steps: int | None


class Sensors:
    """The sensors of one GPU. The layout is read once, and again after the driver was reloaded."""

    def __init__(self, device_folder: str) -> None:
        self._device = device_folder
        self._layout: _Layout | None = None
        self._rare: dict[str, float] = {}  # values that change rarely
        self._rare_until = 0.0

    def take(self, draft: AmdDraft, elsewhere: Collection[str], now: float) -> None:
        """`elsewhere`: places whose values come from another source. Their files are not read."""
        if not self._rare_until - RARELY_SECONDS <= now < self._rare_until:
            self._rare, self._rare_until = {}, now + RARELY_SECONDS
        for place, value in self._rare.items():
            draft.put(place, value)
        layout = self._layout or _read_layout(self._device)
        if layout is None:
            for place in ("temperature_celsius", "power_watts"):
                draft.miss(place, AbsenceReason.NOT_SUPPORTED)
            return
        self._layout = layout
        tried = missing = 0
        for name, place, unit in layout.files:
            if place not in elsewhere and place not in self._rare:
                tried += 1
                missing += not _take(draft, f"{layout.folder}/{name}", place, _scaled(place, unit))
        if layout.pwm_steps is not None:
            _take(draft, f"{layout.folder}/pwm1", "fans.0.ratio", _share(layout.pwm_steps))
        if layout.main_sensor is not None:
            for suffix, limit in (("crit", "slowdown"), ("emergency", "shutdown")):
                place = f"temperature_{limit}_celsius"
                if place not in self._rare:
                    path = f"{layout.folder}/{layout.main_sensor}_{suffix}"
                    _take(draft, path, place, _scaled("sensors", 1e-3))
        self._rare = {place: draft.values[place] for place in _RARELY_CHANGED if place in draft.values}
        draft.miss("power_watts", AbsenceReason.NOT_SUPPORTED)
        if tried and missing == tried:
            self._layout = None  # the folder's name changes when the driver is reloaded


def _read_layout(device: str) -> _Layout | None:
    name = next((name for name in entries(f"{device}/hwmon") if name.startswith("hwmon")), None)
    if name is None:
        return None
    folder = f"{device}/hwmon/{name}"
    names = set(entries(folder))
    files = [entry for entry in _FILES if entry[0] in names]
    sensors: dict[str, str] = {}
    for file in sorted(names):
        match = _INPUT.fullmatch(file)
        if match is None:
            continue
        kind, prefix = match[1], f"{match[1]}{match[2]}"
        label = read_optional(f"{folder}/{prefix}_label") or ("edge" if prefix == "temp1" else prefix)
        if kind == "temp":
            sensor = _SENSORS.get(label, label)
            sensors[sensor] = prefix
            files.append((file, f"sensors.{sensor}", 1e-3))
        elif kind == "in":
            files.append((file, f"rails.{_RAILS.get(label, label)}", 1e-3))
        elif label in _CLOCKS:
            files.append((file, f"clocks.{_CLOCKS[label]}", 1.0))
    main = next((sensors[name] for name in ("edge", "junction") if name in sensors), None)
    steps = None
    if "pwm1" in names:
        maximum = read_optional(f"{folder}/pwm1_max") or ""
        steps = int(maximum) if _NUMBER.fullmatch(maximum) and int(maximum) > 0 else _PWM_STEPS
    return _Layout(folder, tuple(files), main, steps)


def _take(draft: AmdDraft, path: str, place: str, read: Callable[[str], float | None]) -> bool:
    """Return whether the file exists."""
    if place in draft.values:
        return True
    try:
        text = read_text(path)
    except OSError as error:
        reason = reason_of(error)
        # Limits and fan speeds that a GPU does not have are not reported as absent.
        if reason is not AbsenceReason.NOT_SUPPORTED or place == "power_watts" or place.startswith("sensors"):
            draft.miss(place, reason)
        return not isinstance(error, FileNotFoundError)
    draft.take(place, text.strip(), read, path.rpartition("/")[2])
    return True


def _scaled(place: str, unit: float) -> Callable[[str], float | None]:
    highest = _HIGHEST.get(place.partition(".")[0], 1e4)

    def read(text: str) -> float | None:
        if not _NUMBER.fullmatch(text):
            return None
        value = round(int(text) * unit, 9)
        lowest = -100.0 if place.startswith("sensors") else 0.0
        return value if lowest <= value <= highest else None

    return read


def _share(steps: int) -> Callable[[str], float | None]:
    def read(text: str) -> float | None:
        value = int(text) if _NUMBER.fullmatch(text) else -1
        return round(value / steps, 9) if 0 <= value <= steps else None

    return read


# Error counters of the chip (RAS): the folder ras/ of the device, with a file for each hardware block.

_FILE = re.compile(r"([a-z0-9_]{1,32})_err_count")
_LINE = re.compile(r"\s*(ue|ce|de)\s*:\s*([0-9]{1,18})\s*", re.IGNORECASE | re.ASCII)
_SEVERITIES = {"ue": "uncorrected", "ce": "corrected", "de": "deferred"}
_BAD_PAGES = "gpu_vram_bad_pages"
_BAD_PAGE = re.compile(r"\s*0x[0-9a-f]+\s*:\s*0x[0-9a-f]+\s*:\s*([RPF])\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BadPages:
    """Bad pages of memory: retired, to be retired at the next reset, and failed to retire."""

    retired: int = 0
    pending: int = 0
    failed: int = 0


@dataclass(slots=True)
class ErrorCounters:
    """The error counters of one GPU."""

    folder: str  # of the device
    _files: tuple[str, ...] | None = None
    _known: set[tuple[str, str]] = field(default_factory=set)  # counters that were read at least once
    _growth: Growth = field(default_factory=Growth)
    bad_pages: BadPages | None = None

    def take(self, draft: AmdDraft, now: float) -> tuple[ErrorCount, ...]:
        """Put the counts of each block and their totals into the draft. Returns the counts above 0 with the
        time of their last increase."""
        counts = self._counts(draft)
        unread = self._known - counts.keys()
        self._known.update(counts)
        if not counts:
            return ()
        totals: dict[str, int] = {}
        for (block, kind), count in counts.items():
            severity = _SEVERITIES[kind]
            totals[severity] = totals.get(severity, 0) + count
            draft.put(f"ecc.{severity}.{block}", count)
        for severity, count in totals.items():
            if any(_SEVERITIES[kind] == severity for _, kind in unread):
                # A total without one block's count would fall, and later rise without an error.
                draft.miss(f"ecc.{severity}", AbsenceReason.NO_SAMPLE)
            else:
                draft.put(f"ecc.{severity}", count)
        self.bad_pages = self._read_bad_pages(draft)
        grew_at = {key: self._growth.last(key, count, now) for key, count in counts.items()}
        return tuple(
            ErrorCount("ras", f"{block}.{kind}", count, grew_at[block, kind])
            for (block, kind), count in counts.items()
            if count
        )

    def _counts(self, draft: AmdDraft) -> dict[tuple[str, str], int]:
        if self._files is None:
            self._files = tuple(file for file in entries(f"{self.folder}/ras") if _FILE.fullmatch(file))
        counts: dict[tuple[str, str], int] = {}
        for file in self._files:
            match = _FILE.fullmatch(file)
            assert match is not None
            try:
                text = read_text(f"{self.folder}/ras/{file}")
            except OSError as error:
                draft.miss(f"ecc.uncorrected.{match[1]}", reason_of(error))
                continue
            lines = [line for line in map(_LINE.fullmatch, text.splitlines()) if line is not None]
            for line in lines:
                counts[match[1], line[1].lower()] = int(line[2])
            if not lines:  # while the GPU is being reset, these files contain a message
                draft.miss(f"ecc.uncorrected.{match[1]}", AbsenceReason.NO_SAMPLE)
        return counts

    def _read_bad_pages(self, draft: AmdDraft) -> BadPages | None:
        try:
            text = read_whole(f"{self.folder}/ras/{_BAD_PAGES}").decode(errors="replace")
        except OSError:
            return None  # not every driver has the file, and not every user may read it
        states = [match[1].upper() for match in map(_BAD_PAGE.fullmatch, text.splitlines()) if match]
        draft.put("retired_pages.uncorrected", len(states))
        return BadPages(states.count("R"), states.count("P"), states.count("F"))
