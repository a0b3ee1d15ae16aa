"""Sensors of a GPU: the folder hwmon/hwmonN of its device, by the labels that the driver gives them."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from accelscope.model import AbsenceReason
from accelscope.readers.amd.draft import Draft
from accelscope.readers.amd.file_errors import reason_of
from accelscope.readers.files import entries, read_text, told

_INPUT = re.compile(r"(temp|in|freq)([0-9]{1,3})_input", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_SENSORS = {"mem": "memory"}  # the same word as other sources have
_RAILS = {"vddgfx": "gfx", "vddnb": "soc", "vddboard": "board"}
_CLOCKS = {"sclk": "graphics", "mclk": "memory"}
_PWM_STEPS = 255  # unless pwm1_max says otherwise

# Files that every GPU may have: name, place, what one unit of it is. Of two for one place the first counts.
# Dedicated GPUs before MI300 tell an average, the others what is drawn now.
_FILES: tuple[tuple[str, str, float], ...] = (
    ("power1_average", "power_watts", 1e-6),
    ("power1_input", "power_watts", 1e-6),
    ("power1_cap", "power_limit_watts", 1e-6),
    ("power1_cap_default", "power_limit_default_watts", 1e-6),
    ("power1_cap_min", "power_limit_min_watts", 1e-6),
    ("power1_cap_max", "power_limit_max_watts", 1e-6),
    ("fan1_input", "fans.0.rpm", 1.0),
)
_HIGHEST = {"power_watts": 1e4, "sensors": 500.0, "rails": 60.0, "clocks": 6e10, "fans": 1e5}


@dataclass(frozen=True, slots=True)
class _Layout:
    folder: str
    files: tuple[tuple[str, str, float], ...]
    main_sensor: str | None  # temp1: whose bounds are the GPU's
    pwm_steps: int | None


class Sensors:
    """Of one GPU. The folder's name changes when the driver is loaded anew; labels are read once."""

    def __init__(self, device_folder: str) -> None:
        self._device = device_folder
        self._layout: _Layout | None = None

    def take(self, draft: Draft) -> None:
        layout = self._layout or _layout(self._device)
        if layout is None:
            for place in ("temperature_celsius", "power_watts"):
                draft.miss(place, AbsenceReason.NOT_SUPPORTED)
            return
        self._layout = layout
        gone = 0
        for name, place, unit in layout.files:
            gone += not _take(draft, f"{layout.folder}/{name}", place, _scaled(place, unit))
        if layout.pwm_steps is not None:
            _take(draft, f"{layout.folder}/pwm1", "fans.0.ratio", _share(layout.pwm_steps))
        if layout.main_sensor is not None:
            for suffix, place in (("crit", "slowdown"), ("emergency", "shutdown")):
                _take(
                    draft,
                    f"{layout.folder}/{layout.main_sensor}_{suffix}",
                    f"temperature_{place}_celsius",
                    _scaled("sensors", 1e-3),
                )
        draft.miss("power_watts", AbsenceReason.NOT_SUPPORTED)
        if gone == len(layout.files):
            self._layout = None


def _layout(device: str) -> _Layout | None:
    name = next((name for name in entries(f"{device}/hwmon") if name.startswith("hwmon")), None)
    if name is None:
        return None
    folder = f"{device}/hwmon/{name}"
    there = set(entries(folder))
    files = [entry for entry in _FILES if entry[0] in there]
    sensors: dict[str, str] = {}
    for file in sorted(there):
        match = _INPUT.fullmatch(file)
        if match is None:
            continue
        kind, prefix = match[1], f"{match[1]}{match[2]}"
        label = told(f"{folder}/{prefix}_label") or ("edge" if prefix == "temp1" else prefix)
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
    if "pwm1" in there:
        told_steps = told(f"{folder}/pwm1_max") or ""
        steps = int(told_steps) if _NUMBER.fullmatch(told_steps) and int(told_steps) > 0 else _PWM_STEPS
    return _Layout(folder, tuple(files), main, steps)


def _take(draft: Draft, path: str, place: str, read: Callable[[str], float | None]) -> bool:
    """Whether the file is still there."""
    if place in draft.values:
        return True
    try:
        text = read_text(path)
    except OSError as error:
        reason = reason_of(error)
        # Bounds and speeds that a GPU does not have are not missed.
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
