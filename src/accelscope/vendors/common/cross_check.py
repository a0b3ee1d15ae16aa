"""Compares the values of a reader with those that a vendor's tool printed at the same moment.

The reader is read before and after the tool runs: the tool's value of a field that changes is between the two
readings. Each field has a tolerance for what tools round, and for values that two programs cannot measure in
the same instant. Fields that only one side has are counted, not judged.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from accelscope.model import Device, EccCount, HealthState, Partition

Value = str | bool | int | float


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The larger of the two counts."""

    absolute: float = 0.0
    relative: float = 0.0

    def of(self, value: float) -> float:
        return max(self.absolute, self.relative * abs(value))


EXACT = Tolerance()
_MEBIBYTE = 2**20
_MEGAHERTZ = 1e6
HEALTH = "health"
_OWN = ("id", "vendor", "stale", "read_at")  # of AccelScope

# Pattern of the place, and its tolerance; the first match counts. None: not compared.
_TOLERANCES: tuple[tuple[str, Tolerance | None], ...] = (
    *((name, None) for name in _OWN),
    ("*.last_seen", None),
    # Rates over a window of some milliseconds: each program measures its own.
    ("pcie.*bytes_per_second", None),
    ("*memory*_bytes", Tolerance(_MEBIBYTE, 0.002)),  # tools print whole mebibytes
    ("bar1_*_bytes", Tolerance(_MEBIBYTE)),
    ("*bytes_total", Tolerance(0.0, 0.01)),
    ("*bytes_per_second", Tolerance(0.0, 0.01)),
    ("*cycles_total", Tolerance(0.0, 0.001)),
    ("memory_used_ratio", Tolerance(0.01)),
    ("*_ratio", Tolerance(0.05)),
    ("*_celsius", Tolerance(3.0)),
    ("sensors.*.celsius", Tolerance(2.0)),
    ("power_limit*_watts", Tolerance(1.0)),  # tools print whole watts
    ("*watts", Tolerance(2.0, 0.05)),
    ("energy_joules", Tolerance(100.0, 0.002)),
    ("clocks.*.max_hertz", Tolerance(_MEGAHERTZ)),
    ("*hertz", Tolerance(25 * _MEGAHERTZ, 0.05)),
    ("fans.*.speed_rpm", Tolerance(50.0, 0.1)),
    ("rails.*.volts", Tolerance(0.02, 0.02)),
    ("rails.*.amperes", Tolerance(1.0, 0.05)),
    ("uptime_seconds", Tolerance(10.0)),
    ("*", EXACT),
)


def tolerance_of(place: str) -> Tolerance | None:
    return next(tolerance for pattern, tolerance in _TOLERANCES if fnmatchcase(place, pattern))


# --- values of a device ------------------------------------------------------------


def _ecc_key(count: EccCount) -> str:
    span = "lifetime" if count.lifetime else "volatile"
    return ".".join(filter(None, (count.severity, span, count.block)))


def _partition_key(partition: Partition) -> str:
    """MIG instances have numbers of their own; sources may count them in another order."""
    if partition.gpu_instance_id is not None:
        return f"gi{partition.gpu_instance_id}.ci{partition.compute_instance_id}"
    return str(partition.index)


# Of the members of a list: what names one of them.
_KEYS: Mapping[str, Callable[[Any], str]] = {
    "sensors": lambda sensor: sensor.name,
    "clocks": lambda clock: clock.domain,
    "fans": lambda fan: str(fan.index),
    "rails": lambda rail: rail.name,
    "cores": lambda core: str(core.index),
    "throttles": lambda throttle: throttle.reason,
    "links": lambda link: f"{link.kind}.{link.index}",
    "ecc": _ecc_key,
    "retired_pages": lambda count: count.severity,
    "errors": lambda error: f"{error.kind}.{error.code}",
    "partitions": _partition_key,
}
_FIELDS = tuple(each.name for each in fields(Device))
# What the keys are made of, and AccelScope's own id of a partition.
_NAMES = frozenset(
    {
        *("name", "domain", "index", "kind", "severity", "lifetime", "block", "code", "reason"),
        *("id", "gpu_instance_id", "compute_instance_id"),
    }
)


def values_of(device: Device) -> dict[str, Value]:
    """Every value by its place: `power_watts`, `clocks.sm.hertz`, `ecc.corrected.volatile.count`."""
    found: dict[str, Value] = {}
    for name in _FIELDS:
        value = getattr(device, name)
        if name == HEALTH:
            if value.state is not HealthState.UNKNOWN:
                found[HEALTH] = str(value.state)
        elif name in _KEYS:
            for member in value:
                found.update(_members(f"{name}.{_KEYS[name](member)}", member))
        elif is_dataclass(value):
            found.update(_members(name, value))
        elif isinstance(value, str | bool | int | float):
            found[name] = value
    total, used = device.memory_total_bytes, device.memory_used_bytes
    if total and used is not None:
        found.setdefault("memory_used_ratio", used / total)
    return found


def _members(prefix: str, part: object) -> Iterator[tuple[str, Value]]:
    for each in fields(part):  # type: ignore[arg-type]
        value = getattr(part, each.name)
        if each.name not in _NAMES and isinstance(value, str | bool | int | float):
            yield f"{prefix}.{each.name}", value


# --- the same device in two sources ------------------------------------------------------------


class Matcher:
    """Finds the reader's device for each device in a tool's outputs. An output that identifies a device by
    its index alone refers to the device that had this index in an earlier output of the tool."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = tuple(devices)
        self._by_index: dict[tuple[str | None, int], Device] = {}

    def match(self, reported: Device) -> Device | None:
        found = self._by_identity(reported)
        if reported.index is None:
            return found
        key = (reported.architecture if _has_own_numbers(self._devices) else None, reported.index)
        if found is not None:
            self._by_index[key] = found
        elif reported.pci_address is None and reported.uuid is None:
            found = self._by_index.get(key) or self._by_own_index(reported)
        return found

    def _by_identity(self, reported: Device) -> Device | None:
        """A partition has the uuid or the slot of its device, and another function in its address."""
        for fact in (
            lambda device: device.id,
            lambda device: device.pci_address,
            lambda device: _folded(device.uuid),
            lambda device: _slot(device.pci_address),
        ):
            wanted = fact(reported)
            found = [device for device in self._devices if wanted and fact(device) == wanted]
            if len(found) == 1:
                return found[0]
        if reported.serial is None or reported.pci_address is not None or reported.uuid is not None:
            return None
        same = [device for device in self._devices if _folded(device.serial) == _folded(reported.serial)]
        return same[0] if len(same) == 1 else None  # two dies have the serial number of their board

    def _by_own_index(self, reported: Device) -> Device | None:
        found = [
            device
            for device in self._devices
            if device.index == reported.index
            and (reported.architecture is None or reported.architecture == device.architecture)
        ]
        return found[0] if len(found) == 1 else None


def _has_own_numbers(devices: Sequence[Device]) -> bool:
    """Whether each family of devices counts from 0."""
    return len({device.index for device in devices}) < len(devices)


def _folded(text: str | None) -> str | None:
    return None if text is None else text.casefold().removeprefix("0x")


def _slot(address: str | None) -> str | None:
    return None if address is None else address.rpartition(".")[0]


# --- comparison ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDifference:
    """A difference that is no mistake of either side. `applies` limits it to the values of which that is true
    (reader's, tool's), `of` to such devices; other differences of the field remain unexplained."""

    fields: tuple[str, ...]  # patterns of places
    explanation: str
    applies: Callable[[Any, Any], bool] = lambda _reader, _tool: True
    of: Callable[[Device], bool] = lambda _: True

    def explains(self, comparison: "Comparison") -> bool:
        return (
            any(fnmatchcase(comparison.place, pattern) for pattern in self.fields)
            and self.of(comparison.device)
            and any(self.applies(value, comparison.tool) for value in comparison.reader)
        )


def within(ratio: float) -> Callable[[Any, Any], bool]:
    """Whether two numbers differ by no more than this fraction of the larger one."""
    return lambda reader, tool: abs(reader - tool) <= ratio * max(abs(reader), abs(tool))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One value of one device, in the reader before and after the tool, and in the tool."""

    device: Device
    place: str
    reader: tuple[Value, ...]  # before and after; one value if the other reading did not have it
    tool: Value
    command: str
    tolerance: Tolerance = EXACT

    @property
    def is_number(self) -> bool:
        return not any(isinstance(value, bool | str) for value in (*self.reader, self.tool))

    @property
    def margin(self) -> float:
        """How far the tool's value may be outside the reader's."""
        return max(self.tolerance.of(float(value)) for value in self.reader) if self.is_number else 0.0

    @property
    def agrees(self) -> bool:
        if self.place == HEALTH:
            return not any(_contradict(str(value), str(self.tool)) for value in self.reader)
        if not self.is_number:
            return any(_same(value, self.tool) for value in self.reader)
        numbers = [float(value) for value in self.reader]
        # The sum of rounded numbers is not exact: 0.1 + 0.2 is not 0.3.
        margin = self.margin + 1e-9 * max(map(abs, numbers))
        return min(numbers) - margin <= float(self.tool) <= max(numbers) + margin


def _same(one: Value, other: Value) -> bool:
    """Programs separate words differently: `2026.1.0+91fe3c2` and `2026.1.0, 91fe3c2` are one version."""
    if isinstance(one, str) and isinstance(other, str):
        return _WORDS.findall(one.casefold()) == _WORDS.findall(other.casefold())
    return one == other


_WORDS = re.compile(r"\w+")
_FAILED = frozenset({HealthState.CRITICAL, HealthState.LOST})


def _contradict(reader: str, tool: str) -> bool:
    """A tool knows only part of what the reader assesses: `alive` does not contradict a warning."""
    return (reader in _FAILED) != (tool in _FAILED)


@dataclass(frozen=True, slots=True)
class NotCompared:
    """Values that only one side has, or that cannot be compared: ids of devices and places."""

    only_reader: set[tuple[str, str]] = field(default_factory=set)
    only_tool: set[tuple[str, str]] = field(default_factory=set)
    incomparable: set[tuple[str, str]] = field(default_factory=set)


def compare(
    before: Device, after: Device, reported: Device, command: str, left_out: NotCompared
) -> Iterator[Comparison]:
    """`reported` is the same device in the tool's output. Adds the values that are not compared to
    `left_out`."""
    first, second, tool = values_of(before), values_of(after), values_of(reported)
    for place in dict.fromkeys((*first, *second, *tool)):
        tolerance = tolerance_of(place)
        if tolerance is None:
            if place in tool and place in second and place not in _OWN:
                left_out.incomparable.add((after.id, place))
            continue
        reader = tuple(values[place] for values in (first, second) if place in values)
        if not reader:
            left_out.only_tool.add((after.id, place))
        elif place not in tool:
            left_out.only_reader.add((after.id, place))
        else:
            yield Comparison(
                device=after,
                place=place,
                reader=tuple(dict.fromkeys(reader)),
                tool=tool[place],
                command=command,
                tolerance=tolerance,
            )


# --- what may explain a difference ------------------------------------------------------------


class Hint(StrEnum):
    """A possible explanation, for the person who reports the difference."""

    ZERO = "one of them is 0, which may stand for an unknown value"
    FLAG = "the state may have changed in between, or one of them reads another bit"
    TEXT = "the two read different facts, or one of them is out of date"
    MOVING = "the value may change faster than both can be read: run doctor again"
    COUNT = "the two count from different moments, or count different things"
    EXACT = "the two read different facts, or number them differently"


_FACTORS = (
    (1e9, "a factor of 1e9: milli and micro, or a unit"),
    (1e6, "a factor of a million: a unit"),
    (2**20, "a factor of 1,048,576: mebibytes and bytes"),
    (1024, "a factor of 1,024: a binary unit"),
    (1000, "a factor of 1,000: a unit"),
    (100, "a factor of 100: percent and ratio"),
    (10, "a factor of 10: a unit"),
    (8, "a factor of 8: bits and bytes"),
    (2, "a factor of 2: both directions, or two dies, in one of them"),
    (2**20 / 1e6, "mebibytes in one and megabytes in the other"),
    (2**30 / 1e9, "gibibytes in one and gigabytes in the other"),
)
_FIXED = ("*_total_bytes", "power_limit*", "temperature_s*", "*.max_*")
_COUNTS = ("ecc.*", "errors.*", "retired_pages.*", "remapped_rows.*", "*_total")


def hint_of(comparison: Comparison) -> str:
    if isinstance(comparison.tool, str):
        return Hint.TEXT
    if not comparison.is_number:
        return Hint.FLAG
    reader, tool = float(comparison.reader[-1]), float(comparison.tool)
    if not reader or not tool:
        return Hint.ZERO
    ratio = max(reader / tool, tool / reader)
    for factor, explanation in _FACTORS:
        if comparison.tolerance != EXACT and abs(ratio / factor - 1) <= 0.01:
            return explanation
    is_count = any(fnmatchcase(comparison.place, pattern) for pattern in _COUNTS)
    if is_count:
        return Hint.COUNT
    is_fixed = any(fnmatchcase(comparison.place, pattern) for pattern in _FIXED)
    return Hint.EXACT if is_fixed or comparison.tolerance == EXACT else Hint.MOVING
