"""The driver's files in /sys: values of a card, its sensors and cores, and the list of cards."""

import errno
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from accelscope.model import AbsenceReason, Clock, Core, Rail, Rejection, Sensor, Throttle
from accelscope.vendors.common.files import read_optional, read_text
from accelscope.vendors.furiosa.reader import CLASS_FOLDERS

T = TypeVar("T")

_TEXT_LIMIT = 200  # characters of a rejected text that are kept
_REASONS = {
    errno.ENOENT: AbsenceReason.NOT_KNOWN,
    errno.ENOTDIR: AbsenceReason.NOT_KNOWN,
    errno.EACCES: AbsenceReason.NO_PERMISSION,
    errno.EPERM: AbsenceReason.NO_PERMISSION,
    errno.ETIMEDOUT: AbsenceReason.TIMEOUT,
    errno.EAGAIN: AbsenceReason.NO_SAMPLE,
    errno.ENODATA: AbsenceReason.NO_SAMPLE,
    errno.EOPNOTSUPP: AbsenceReason.NOT_SUPPORTED,
    errno.ENODEV: AbsenceReason.LOST,
    errno.ENXIO: AbsenceReason.LOST,
}


class Attributes:
    """Reads the files of one card in one pass, and collects absent fields and rejected texts."""

    def __init__(self) -> None:
        self.absent: dict[str, AbsenceReason] = {}
        self.rejected: list[Rejection] = []

    def text(self, path: str, field: str) -> str | None:
        """The stripped text of the file; without one, `field` is absent."""
        try:
            text = read_text(path).strip()
        except OSError as error:
            self.absent[field] = _REASONS.get(error.errno or 0, AbsenceReason.DRIVER_ERROR)
            return None
        if not text:
            self.absent[field] = AbsenceReason.NO_SAMPLE
        return text or None

    def value(self, path: str, field: str, read: Callable[[str], T | None]) -> T | None:
        text = self.text(path, field)
        return None if text is None else self.parsed(path, text, field, read)

    def parsed(self, path: str, text: str, field: str, read: Callable[[str], T | None]) -> T | None:
        """The value of a file whose text was read before."""
        value = read(text)
        if value is None:
            self.absent[field] = AbsenceReason.UNREADABLE
            name = path.rpartition("/")[2]
            self.rejected.append(Rejection(f"{name}: {text[:_TEXT_LIMIT]}", "unreadable"))
        return value


# Parsers of single files. Each returns None for a text of another form.

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_CLOCK = re.compile(r"([\w ]{1,40}?)\s*\(\s*([^()]{1,10}?)\s*\)\s*:\s*([0-9]{1,15})", re.ASCII)
_CLOCK_UNITS = {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
_MASK = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE | re.ASCII)
_NAMED_BIT = re.compile(r"(0x[0-9a-f]{1,16}).{0,20}?\b(?:THROTTLE_)?([A-Z][A-Z0-9_]{2,40})", re.ASCII)
_COUNT = re.compile(r"([^:]{1,60}):\s*([0-9]{1,18})", re.ASCII)
_HEXADECIMAL = re.compile(
    r"^[ \t]*(\w{1,60}):[ \t]*(?:0x)?([0-9a-f]{1,16})[ \t\r]*$", re.IGNORECASE | re.ASCII | re.MULTILINE
)
_MAX_LINES = 1024
_MAX_CORE_HERTZ = 1e11

# Bits of throttle_reason, by the names of the vendor's library of 2026.4; throttle_reason_list has them with
# a prefix. Until 2026.1 the bit 0x80 was the last one and meant other_reason: drivers with a list name it so.
THROTTLE_BITS = {
    0x1: "idle",
    0x2: "thermal_slowdown",
    0x4: "app_power_cap",
    0x8: "app_clock_cap",
    0x10: "hw_clock_cap",
    0x20: "hw_bus_limit",
    0x40: "hw_power_cap",
    0x80: "gov_clock_cap",
    0x100: "other_reason",
}
UNKNOWN_THROTTLE = "unknown"  # the vendor's library's name for an unknown bit


def whole(text: str) -> int | None:
    bare = text.strip()
    return int(bare) if _WHOLE.fullmatch(bare) else None


def flag(text: str) -> bool | None:
    """`1` or `0`; None for another text."""
    return {"1": True, "0": False}.get(text.strip())


def is_alive_state(text: str) -> bool:
    """`device_state` of an RNGD: 0 is alive, and anything else is not."""
    return text.strip() == "0"


def hexadecimal_values(text: str) -> dict[str, int]:
    """`dram_usage: 0x130000000` by name; lines of another form are left out."""
    return {name: int(number, 16) for name, number in _HEXADECIMAL.findall(text)}


def core_memory(text: str) -> tuple[int, int] | None:
    """`alloc_status` of a core: total and used bytes, including memory shared with other cores."""
    values = hexadecimal_values(text)
    try:
        total = values["dram_capacity"] + values["shared_capacity"]
        return total, values["dram_usage"] + values["shared_usage"]
    except KeyError:
        return None


def error_counts(text: str) -> dict[str, int] | None:
    """`atr_error`: `AXI Post Error: 0` as `axi_post_error`."""
    found: dict[str, int] = {}
    for line in _lines(text):
        match = _COUNT.fullmatch(line)
        if match is not None:
            found["_".join(match[1].casefold().split())] = int(match[2])
    return found or None


def clocks(text: str) -> tuple[Clock, ...] | None:
    """`ne_clk_freq_info`: `ne tensor (MHz): 2000`. Transfers per second (MT/s) are not a frequency."""
    found = []
    for line in _lines(text):
        match = _CLOCK.fullmatch(line)
        factor = _CLOCK_UNITS.get(match[2].casefold()) if match else None
        if match is not None and factor is not None:
            found.append(Clock("_".join(match[1].casefold().split()), hertz=int(match[3]) * factor))
    return tuple(found) or None


def core_clocks(text: str) -> tuple[float, ...] | None:
    """`npu_clocks`: one number per core, in order, in hertz."""
    found = []
    for word in text.split()[:_MAX_LINES]:
        number = whole(word)
        if number is None or not 0 <= number <= _MAX_CORE_HERTZ:
            return None  # the position of a number is its core: without one number the others would shift
        found.append(float(number))
    return tuple(found) or None


def core_flags(text: str) -> tuple[bool, ...] | None:
    """`pe_occupancy`: one 0 or 1 per line and core."""
    found = []
    for word in text.replace(",", " ").split()[:_MAX_LINES]:
        occupied = flag(word)
        if occupied is None:
            return None
        found.append(occupied)
    return tuple(found) or None


def throttles(reasons: str, listed: str) -> tuple[Throttle, ...] | None:
    """`throttle_reason` is a set of bits; `throttle_reason_list` contains their names in this driver."""
    match = _MASK.fullmatch(reasons.strip())
    if match is None:
        return None
    active = int(match[1], 16)
    named = _throttle_names(listed)
    found = [Throttle(name, active=bool(active & bit)) for bit, name in named]
    if active & ~sum(bit for bit, _ in named):
        found.append(Throttle(UNKNOWN_THROTTLE, active=True))
    return tuple(found)


@lru_cache(maxsize=2)  # a driver has one list
def _throttle_names(listed: str) -> list[tuple[int, str]]:
    names = {int(bit, 16): name.casefold() for bit, name in _NAMED_BIT.findall(listed[:10_000])}
    names = {bit: name for bit, name in names.items() if bit and bit & (bit - 1) == 0}  # single bits
    return sorted((names or THROTTLE_BITS).items())


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[:_MAX_LINES] if line.strip()]


# Sensors of a card: `hwmon` of its PCI device, by label, since numbers differ between boards and drivers.
# Temperatures are in m°C, powers in µW, voltages in mV, currents in mA.

_FILE = re.compile(r"(temp|power|in|curr)([0-9]{1,3})_(input|average)", re.ASCII)
_UNITS = {"temp": 1e-3, "power": 1e-6, "in": 1e-3, "curr": 1e-3}
_FIELDS = {"temp": "sensors", "power": "rails", "in": "rails", "curr": "rails"}
_CARD_POWER = frozenset({"pci total rms pwr", "rms total"})
_NOT_ON_CHIP = "ambient"
_NO_LABEL = (AbsenceReason.NOT_KNOWN, AbsenceReason.NO_SAMPLE)


@dataclass(frozen=True, slots=True)
class _SensorFile:
    kind: str
    path: str
    label: str
    bare: str  # the label as `_bare` returns it
    field: str  # of the model: absent if the file cannot be read


@dataclass(frozen=True, slots=True)
class Sensors:
    temperature_celsius: float | None = None
    power_watts: float | None = None
    sensors: tuple[Sensor, ...] = ()
    rails: tuple[Rail, ...] = ()
    power_limit_watts: float | None = None


class Hwmon:
    """Reads labels once per folder: a reloaded driver creates a new folder."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, tuple[_SensorFile, ...]]] = {}

    def read(self, device: str, attributes: Attributes, *, has_limit: bool = True) -> Sensors:
        """`device` is the folder of the PCI device. `has_limit`: whether cards of its family may have one."""
        found: list[tuple[_SensorFile, float]] = []
        limit: float | None = None
        for folder in _folders(f"{device}/hwmon"):
            try:
                places = self._places(folder, attributes)
            except OSError:
                attributes.absent["sensors"] = AbsenceReason.LOST  # the folder was removed while it was read
                continue
            if limit is None and has_limit:
                limit = _limit(folder, attributes)
            for place in places:
                number = attributes.value(place.path, place.field, whole)
                if number is not None:
                    found.append((place, round(number * _UNITS[place.kind], 9)))
        return _sensors(found, limit)

    def _places(self, folder: str, attributes: Attributes) -> tuple[_SensorFile, ...]:
        inode = os.stat(folder).st_ino  # noqa: PTH116 - a string
        known = self._known.get(folder)
        if known is not None and known[0] == inode:
            return known[1]
        absent_before = len(attributes.absent)
        places = tuple(_sensor_files(folder, attributes))
        if len(attributes.absent) == absent_before:
            self._known[folder] = (inode, places)
        return places


def _folders(hwmon: str) -> list[str]:
    try:
        return sorted(f"{hwmon}/{name}" for name in os.listdir(hwmon) if name.startswith("hwmon"))  # noqa: PTH208
    except OSError:
        return []  # the values are absent then


def _sensor_files(folder: str, attributes: Attributes) -> list[_SensorFile]:
    places: dict[tuple[str, int], _SensorFile] = {}
    for file in sorted(os.listdir(folder)):  # noqa: PTH208 - a string
        match = _FILE.fullmatch(file)
        if match is None or (match[3] == "average" and match[1] != "power"):
            continue
        name = match[1] + match[2]
        missed = f"labels.{name}"
        label = attributes.text(f"{folder}/{name}_label", missed) or name
        if attributes.absent.get(missed) in _NO_LABEL:
            del attributes.absent[missed]  # the name of the file is used
        place = _SensorFile(match[1], f"{folder}/{file}", label, _bare(label), f"{_FIELDS[match[1]]}.{label}")
        # A power's average goes before its last value; it comes first by name.
        places.setdefault((match[1], int(match[2])), place)
    return [places[key] for key in sorted(places)]


def _limit(folder: str, attributes: Attributes) -> float | None:
    """`power1_max`, as RNGD's driver has it since 2026.4; 0 is not a limit."""
    microwatts = attributes.value(f"{folder}/power1_max", "power_limit_watts", whole)
    attributes.absent.pop("power_limit_watts", None)  # not every driver has one
    return round(microwatts * _UNITS["power"], 9) if microwatts is not None and microwatts > 0 else None


def _sensors(found: Iterable[tuple[_SensorFile, float]], limit: float | None) -> Sensors:
    temperatures: list[tuple[str, Sensor]] = []  # by bare label
    rails: list[Rail] = []
    card: float | None = None
    for place, number in found:
        match place.kind:
            case "temp":
                temperatures.append((place.bare, Sensor(place.label, number)))
            case "power" if place.bare in _CARD_POWER:
                card = number
            case "power":
                rails.append(Rail(place.label, watts=number))
            case "in":
                rails.append(Rail(place.label, volts=number))
            case "curr":
                rails.append(Rail(place.label, amperes=number))
    sensors = tuple(sensor for _, sensor in temperatures)
    return Sensors(_main(temperatures), card, sensors, tuple(rails), limit)


def _main(temperatures: list[tuple[str, Sensor]]) -> float | None:
    """The driver's peak over the chip's sensors; without one, the hottest of them."""
    peak = next((sensor.celsius for label, sensor in temperatures if label == "peak"), None)
    if peak is not None:
        return peak
    return max((sensor.celsius for label, sensor in temperatures if label != _NOT_ON_CHIP), default=None)


def _bare(label: str) -> str:
    return " ".join(label.casefold().replace("_", " ").split())


# Utilisation of Warboy's cores, from two readings of their performance counters.
#
# `perf_regs` of a device file can be read only while a process has that file open: EPERM means that none has.
# Counters are hexadecimal. The run time of tasks has 32 bits and wraps; the cycles have two such halves. A
# difference is valid only below 2^32 cycles, which are a few seconds at a core's clock: with longer times
# between passes, a core is read twice within one pass.

WARBOY_CORES = 2
FUSION = f"pe0-{WARBOY_CORES - 1}"
FILES = (*(f"pe{index}" for index in range(WARBOY_CORES)), FUSION)  # after the card's name

_LINE = re.compile(r"(\w{1,60}):\s*0x([0-9a-f]{1,16})", re.IGNORECASE | re.ASCII)
_32_BITS = 1 << 32
SAMPLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Counters:
    cycles: int
    task_cycles: int


def warboy_counters(text: str) -> Counters | None:
    values = {match[1]: int(match[2], 16) for match in _LINE.finditer(text[:20_000])}
    if "CycleCount" not in values or "TaskExecutionTime" not in values:
        return None
    cycles = values.get("CycleCountHigh", 0) << 32 | values["CycleCount"]
    return Counters(cycles, values["TaskExecutionTime"] % _32_BITS)


def warboy_utilization(before: Counters, now: Counters) -> float | None:
    """Fraction of the cycles since `before` in which a task ran. None: the counters were reset or unchanged,
    or so much time passed that it is not known how often they wrapped. The counters are not read at one
    instant, so more task cycles than cycles are possible: at most 1, as the vendor's library has it."""
    cycles = now.cycles - before.cycles
    tasks = (now.task_cycles - before.task_cycles) % _32_BITS
    return min(1.0, tasks / cycles) if 0 < cycles < _32_BITS else None


@dataclass(frozen=True, slots=True)
class Use:
    """Use of one device file."""

    open: bool | None  # None: unknown
    counters: Counters | None = None
    ratio: float | None = None


class WarboyCores:
    """The cores of one card. `sleep` is waited between two readings."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._before: dict[str, Counters] = {}

    def read(self, class_folder: str, card: str, attributes: Attributes) -> tuple[Core, ...]:
        uses = {file: _use(f"{class_folder}/{card}{file}", attributes) for file in FILES}
        ratios = {file: self._since_last_pass(file, use) for file, use in uses.items()}
        again = [file for file, use in uses.items() if use.counters and ratios[file] is None]
        if again:
            self._sleep(SAMPLE_SECONDS)
        for file in again:
            first, second = uses[file].counters, _use(f"{class_folder}/{card}{file}", attributes).counters
            if first is not None and second is not None:
                ratios[file] = warboy_utilization(first, second)
        self._before = {file: use.counters for file, use in uses.items() if use.counters}
        if all(use.open is None for use in uses.values()):
            return ()
        return tuple(
            _core(index, [(uses[file].open, ratios[file]) for file in (f"pe{index}", FUSION)])
            for index in range(WARBOY_CORES)
        )

    def _since_last_pass(self, file: str, use: Use) -> float | None:
        before = self._before.get(file)
        return warboy_utilization(before, use.counters) if before and use.counters else None


def _use(folder: str, attributes: Attributes) -> Use:
    try:
        text = read_text(f"{folder}/perf_regs")
    except OSError as error:
        if error.errno == errno.EACCES:
            attributes.absent["cores.utilization_ratio"] = AbsenceReason.NO_PERMISSION
        return Use(open=False if error.errno == errno.EPERM else None)
    found = warboy_counters(text)
    return Use(open=True if found else None, counters=found)


def _core(index: int, uses: Sequence[tuple[bool | None, float | None]]) -> Core:
    """Use by the file of the core and by that of the fusion, whose counters include all its cores."""
    opened = [use[0] for use in uses]
    ratios = [ratio for _, ratio in uses if ratio is not None]
    occupied = True if True in opened else None if None in opened else False
    return Core(index, utilization_ratio=max(ratios, default=None), occupied=occupied)


# --- rngd cores ------------------------------------------------------------
# Memory and utilisation of an RNGD's cores: `alloc_status` and `metrics` in the folder of each core.
#
# Counters are hexadecimal and have 64 bits: the cycles of the core, and those in which a task ran.


RNGD_CORES = 8
# For a core that is not occupied, the vendor's library reads no file and reports this size, with no memory in
# use.
CORE_BYTES = 6_375_342_080

_UTILIZATION = "cores.utilization_ratio"
_MEMORY = ("memory_total_bytes", "memory_used_bytes")
# Counters that did not change for this time will not change within a sample either.
_UNCHANGED_SECONDS = 0.9


@dataclass(frozen=True, slots=True)
class CoreUse:
    counters: Counters
    ratio: float | None = None


def rngd_counters(text: str) -> Counters | None:
    values = hexadecimal_values(text)
    if "CycleCount" not in values or "TaskCycleCount" not in values:
        return None
    return Counters(values["CycleCount"], values["TaskCycleCount"])


def rngd_utilization(before: Counters, now: Counters) -> float | None:
    """Fraction of the cycles since `before` in which a task ran. None: the counters were reset or unchanged.
    They are not read at one instant, so more task cycles than cycles are possible: at most 1."""
    cycles, tasks = now.cycles - before.cycles, now.task_cycles - before.task_cycles
    return min(1.0, tasks / cycles) if cycles > 0 and tasks >= 0 else None


def card_memory(
    folders: Mapping[int, str], free: Collection[int], attributes: Attributes
) -> tuple[int | None, int | None]:
    """Total and used bytes: sums over all cores, or None if a core cannot be read. `folders` are by core,
    `free` the cores that are not occupied."""
    total = used = 0
    for core, folder in folders.items():
        if core in free:
            total += CORE_BYTES
            continue
        memory = _core_memory(f"{folder}/alloc_status", attributes)
        if memory is None:
            return None, None
        total, used = total + memory[0], used + memory[1]
    return (total, used) if folders else (None, None)


def _core_memory(path: str, attributes: Attributes) -> tuple[int, int] | None:
    first, *others = _MEMORY
    text = attributes.text(path, first)
    memory = None
    # In older drivers the file contains a number that is not a size.
    if text is not None and whole(text) is None:
        memory = attributes.parsed(path, text, first, core_memory)
    reason = attributes.absent.get(first, AbsenceReason.NOT_KNOWN)
    if reason is AbsenceReason.NOT_KNOWN:
        attributes.absent.pop(
            first, None
        )  # the driver does not show it, so it is the tool that is expected to
    elif memory is None:
        attributes.absent.update(dict.fromkeys(others, reason))
    return memory


class RngdCores:
    """The counters of one card's cores, from one reading to the next. `sleep` is waited between two readings
    of one pass, where there is no earlier one to compare with."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._before: dict[int, Counters] = {}
        self._read_at = 0.0

    def read(self, folders: Mapping[int, str], now: float, attributes: Attributes) -> Mapping[int, CoreUse]:
        """Use by core, without cores whose counters cannot be read."""
        found = self._counters(folders, attributes)
        passed = now - self._read_at
        ratios = {core: self._since_last_pass(core, counters) for core, counters in found.items()}
        long_enough = passed >= _UNCHANGED_SECONDS
        again = [
            core
            for core, ratio in ratios.items()
            if ratio is None and not (long_enough and self._before.get(core) == found[core])
        ]
        if again:
            self._sleep(SAMPLE_SECONDS)
            later = self._counters({core: folders[core] for core in again}, attributes)
            ratios |= {core: rngd_utilization(found[core], counters) for core, counters in later.items()}
        if attributes.absent.get(_UTILIZATION) is AbsenceReason.NOT_KNOWN:
            del attributes.absent[_UTILIZATION]  # an older driver: the tool is expected to show it
        if found and all(ratio is None for ratio in ratios.values()):
            attributes.absent[_UTILIZATION] = attributes.absent["utilization_ratio"] = AbsenceReason.NO_SAMPLE
        self._before, self._read_at = found, now
        return {core: CoreUse(counters, ratios[core]) for core, counters in found.items()}

    def _counters(self, folders: Mapping[int, str], attributes: Attributes) -> dict[int, Counters]:
        read = {
            core: attributes.value(f"{folder}/metrics", _UTILIZATION, rngd_counters)
            for core, folder in folders.items()
        }
        return {core: counters for core, counters in read.items() if counters is not None}

    def _since_last_pass(self, core: int, counters: Counters) -> float | None:
        """None also if the cycles did not change: an idle core counts cycles too, so nothing was measured."""
        before = self._before.get(core)
        return None if before is None else rngd_utilization(before, counters)


# The list of cards: the folders of the driver's classes in /sys. Listing them accesses no card.

# The family of each class; RNGD's first drivers had another name.
CLASSES = tuple(zip(CLASS_FOLDERS, ("warboy", "rngd", "rngd"), strict=True))

_ENTRY = re.compile(r"(?:[a-z]+!)?npu([0-9]{1,4})_?mgmt", re.ASCII)
_PLATFORM = "FuriosaAI"


@dataclass(frozen=True, slots=True)
class Entry:
    architecture: str
    index: int
    folder: str  # of the card's attributes; paths as strings, since joining them costs more than reading

    @property
    def name(self) -> str:
        return f"npu{self.index}"

    @property
    def key(self) -> str:
        """Unlike the name, not shared by cards of two families."""
        return f"{self.architecture}-{self.name}"


@dataclass(frozen=True, slots=True)
class _Static:
    """What cannot change while the driver stays loaded."""

    ours: bool
    driver_version: str | None


class Entries:
    def __init__(self, sys: Path) -> None:
        self._sys = sys
        self._static: dict[str, tuple[int, _Static]] = {}

    def listed(self) -> tuple[Entry, ...] | None:
        """None: the driver is not loaded, or its classes are not shown here."""
        found: list[Entry] = []
        shown = False
        for name, architecture in CLASSES:
            folder = self._sys / "class" / name
            try:
                entries = [(_ENTRY.fullmatch(entry.name), entry) for entry in folder.iterdir()]
            except OSError:
                continue
            shown = True
            own = [Entry(architecture, int(match[1]), str(path)) for match, path in entries if match]
            found += sorted((e for e in own if self._of(e).ours), key=lambda entry: entry.index)
        return tuple(found) if shown else None

    def driver_version(self, entries: tuple[Entry, ...]) -> str | None:
        return next((version for version in (self._of(e).driver_version for e in entries) if version), None)

    @staticmethod
    def uuids(entries: tuple[Entry, ...]) -> dict[str, str | None]:
        """What the cards report as their uuid, by key."""
        return {entry.key: read_optional(f"{entry.folder}/device_uuid") for entry in entries}

    def _of(self, entry: Entry) -> _Static:
        """Read once, not in every collection, because these two files do not change."""
        try:
            inode = os.stat(entry.folder).st_ino  # noqa: PTH116 - a string
        except OSError:
            return _Static(
                ours=True, driver_version=None
            )  # a dangling link: reading the card reports the error
        known = self._static.get(entry.folder)
        if known is None or known[0] != inode:
            platform = read_optional(f"{entry.folder}/platform_type")
            static = _Static(platform in (_PLATFORM, None), read_optional(f"{entry.folder}/version"))
            known = self._static[entry.folder] = (inode, static)
        return known[1]
