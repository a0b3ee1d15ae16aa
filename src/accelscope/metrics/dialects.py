"""Other exporters' names beside the native ones, so that existing dashboards and alerts go on working.

The vendors declare their dialects; each is loaded only where it is chosen. `docs/dialects.md` is made from
them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from accelscope.metrics.family import (
    Family,
    Number,
    Sample,
    Scope,
    Type,
    decimal_text,
    label_text,
    number_text,
)
from accelscope.model import Device, Partition, PodUsage, Process, Snapshot, Vendor
from accelscope.vendors import dialect_declarations
from accelscope.vendors.declaration import VendorSetting

# --- view ------------------------------------------------------------
# What the families of a dialect are taken from: a device or a node, with what is around it.
#
# A native family needs its device only, because facts about the node stand on one info series. Other
# exporters write the host's name, the driver and the pod on every series.


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    labels: Mapping[str, str]  # static labels of the node, by setting
    agent_version: str
    devices: tuple[Device, ...]  # those that the dialect shows


@dataclass(frozen=True, slots=True)
class DeviceView:
    device: Device
    node: NodeView
    partition: Partition | None = None  # set where the series is about a part of the device
    processes: tuple[Process, ...] = ()  # on this device, all of them
    shown_processes: tuple[Process, ...] = ()  # those under the cap on their series
    usages: tuple[PodUsage, ...] = ()  # of this device and all its partitions
    jobs: tuple[str, ...] = ()  # batch jobs that the job-mapping folder names for the device
    # The workload that the device or this part of it is put down to (see holder). Empty: nobody, or several;
    # each dialect's labels say how it writes that.
    namespace: str = ""
    pod: str = ""
    container: str = ""


class Workloads:
    """What is on each device of a node, sorted once for all dialects of a page."""

    def __init__(self, snapshot: Snapshot, shown_processes: Iterable[Process]) -> None:
        self._processes = _by_device(snapshot.processes)
        self._shown = _by_device(shown_processes)
        self._jobs = {balance.device: balance.jobs for balance in snapshot.balances}
        self._usages: dict[str, list[PodUsage]] = {}
        for usage in snapshot.pod_usages:
            self._usages.setdefault(usage.device, []).append(usage)

    def on(self, device: Device, node: NodeView) -> DeviceView:
        return DeviceView(
            device,
            node,
            processes=tuple(self._processes.get(device.id, ())),
            shown_processes=tuple(self._shown.get(device.id, ())),
            usages=tuple(self._usages.get(device.id, ())),
            jobs=self._jobs.get(device.id, ()),
        )


def _by_device(processes: Iterable[Process]) -> dict[str | None, list[Process]]:
    found: dict[str | None, list[Process]] = {}
    for process in processes:
        found.setdefault(process.device, []).append(process)
    return found


# --- dialect ------------------------------------------------------------
# What a dialect is: another exporter's names, types, units and labels, as data.
#
# A dialect is made anew for each page writer (`dialect()` of its module), because a few values of other
# exporters are rates or counts over time, which need the readings before.


class DialectError(ValueError):
    """A dialect cannot be made with its options; the message is one line for the user."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option  # name of the setting


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    value: Callable[[DeviceView], str | None]
    keep_empty: bool = True  # False: a series without a value has no such label


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of a series in the order of the page: the leading ones as given, then all others, also those of
    the family itself, by name (Go's client writes all of them by name)."""

    leading: tuple[Label, ...] = ()
    others: tuple[Label, ...] = ()

    def without(self, name: str) -> "Labels":
        return Labels(
            tuple(label for label in self.leading if label.name != name),
            tuple(label for label in self.others if label.name != name),
        )


@dataclass(frozen=True, slots=True)
class Section:
    """Families about devices that share their labels; `take` of each gets a DeviceView."""

    labels: Labels
    families: tuple[Family, ...]
    per_process: bool = False  # a series for each process of a device: counted for the cap on them


@dataclass(frozen=True, slots=True)
class Missing:
    """Names that the exporter has and the dialect has not, and why."""

    names: str
    why: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A field that a file chooses and that is not available."""

    option: str  # name of the setting that names the file
    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field} is not available: {self.reason}"


def whole_device(view: DeviceView) -> Iterable[DeviceView]:
    """One series for each device."""
    return (view,)


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    exporter: str  # whose names these are, and which version of it
    vendors: tuple[Vendor, ...]  # whose devices it shows; none named: all
    sections: tuple[Section, ...]
    notes: tuple[str, ...]  # what somebody who comes from that exporter should know
    node_families: tuple[Family, ...] = ()  # about the node; `take` of each gets a NodeView
    missing: tuple[Missing, ...] = ()
    optional_families: tuple[Family, ...] = ()  # can be chosen by an option; for the reference page
    unavailable: tuple[Unavailable, ...] = ()  # fields that the options ask for in vain
    divide: Callable[[DeviceView], Iterable[DeviceView]] = whole_device

    def shows(self, device: Device) -> bool:
        return not self.vendors or device.vendor in self.vendors

    @property
    def families(self) -> tuple[Family, ...]:
        return (*self.node_families, *(family for section in self.sections for family in section.families))

    @property
    def process_series(self) -> int:
        """Series that each process of a device adds."""
        return sum(len(section.families) for section in self.sections if section.per_process)

    def only(self, chosen: Callable[[str], bool]) -> "Dialect":
        """The same with the families whose name is chosen."""
        return self._with(lambda families: tuple(f for f in families if chosen(f.name)))

    def prefixed(self, prefix: str) -> "Dialect":
        return self._with(lambda families: tuple(replace(f, name=f"{prefix}{f.name}") for f in families))

    def _with(self, change: Callable[[tuple[Family, ...]], tuple[Family, ...]]) -> "Dialect":
        sections = tuple(replace(s, families=change(s.families)) for s in self.sections)
        return replace(self, node_families=change(self.node_families), sections=sections)


Values = Iterable[tuple[tuple[str, ...], Number]]


def gauge(
    name: str, text: str, value: Callable[[DeviceView], Number], *, decimals: int | None = None
) -> Family:
    return _single(name, Type.GAUGE, text, value, decimals)


def counter(name: str, text: str, value: Callable[[DeviceView], Number]) -> Family:
    return _single(name, Type.COUNTER, text, value, None)


def gauges(name: str, text: str, labels: tuple[str, ...], values: Callable[[DeviceView], Values]) -> Family:
    """Several series a device, told apart by labels of the family's own."""
    return Family(name, Type.GAUGE, "", text, Scope.DEVICE, _present(values), labels)


def counters(name: str, text: str, labels: tuple[str, ...], values: Callable[[DeviceView], Values]) -> Family:
    return Family(name, Type.COUNTER, "", text, Scope.DEVICE, _present(values), labels)


def node_gauges(
    name: str, text: str, labels: tuple[str, ...], values: Callable[[NodeView], Values]
) -> Family:
    return Family(name, Type.GAUGE, "", text, Scope.NODE, _present(values), labels)


def _single(
    name: str, kind: Type, text: str, value: Callable[[DeviceView], Number], decimals: int | None
) -> Family:
    def take(view: DeviceView) -> Iterable[Sample]:
        number = value(view)
        return () if number is None else (((), float(number)),)

    return Family(name, kind, "", text, Scope.DEVICE, take, decimals=decimals)


def _present(values: Callable[..., Values]) -> Callable[..., list[Sample]]:
    def take(view: object) -> list[Sample]:
        return [(own, float(number)) for own, number in values(view) if number is not None]

    return take


__all__ = ["NAMES", "OPTIONS", "Dialect", "DialectError", "conflict", "load", "option_without_dialect"]

NAMES: tuple[str, ...] = tuple(dialect_declarations())
OPTIONS: tuple[VendorSetting, ...] = tuple(
    sorted(
        (option for declared in dialect_declarations().values() for option in declared.options),
        key=lambda option: option.name,
    )
)


def conflict(names: Sequence[str]) -> str | None:
    """Why these cannot be on one page together, if they cannot."""
    for one, declared in dialect_declarations().items():
        for other in declared.same_names:
            if one in names and other in names:
                return f"{one} and {other} have the same names in different units: choose one"
    return None


def option_without_dialect(
    names: Sequence[str], options: Mapping[str, str]
) -> tuple[VendorSetting, str] | None:
    """A file that is given in vain, and the dialect that would read it."""
    for name, declared in dialect_declarations().items():
        for option in declared.options:
            if option.watched and option.of(options) and name not in names:
                return option, name
    return None


def load(names: Sequence[str], **options: str) -> tuple[Dialect, ...]:
    """Raises DialectError where a file that an option names cannot be read or is malformed."""
    return tuple(dialect_declarations()[name].load()(options) for name in names)


# --- amounts ------------------------------------------------------------
# From the model's base units to the units of other exporters, rounded as they print them.
#
# A value that is not finite is no reading, and costs itself only.


MIB = 2**20


def rounded(value: float | None, factor: float = 1) -> int | None:
    """The nearest whole number."""
    return None if value is None or not isfinite(value) else round(value * factor)


def percent(ratio: float | None) -> int | None:
    """A whole percentage, as most drivers measure it."""
    return rounded(ratio, 100)


def fine_percent(ratio: float | None) -> float | None:
    """A percentage with its fraction, without the noise that multiplying by 100 brings in."""
    return None if ratio is None else round(ratio * 100, 6)


def mebibytes(size: float | None) -> int | None:
    """Whole mebibytes, what is beyond cut off: so do the drivers' libraries."""
    return None if size is None or not isfinite(size) else int(size // MIB)


def megahertz(hertz: float | None) -> int | None:
    return rounded(hertz, 1e-6)


def thousandths(value: float | None) -> int | None:
    """Joules as millijoules, celsius as thousandths of a degree, volts as millivolts ..."""
    return rounded(value, 1000)


def millionths(value: float | None) -> int | None:
    return rounded(value, 1_000_000)


# --- between ------------------------------------------------------------
# Values of other exporters that compare a reading with those before it.


class Rates:
    """How fast a total grew between the last two readings of a device."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float, float | None]] = {}  # read at, total, rate then

    def per_second(self, key: str, read_at: float | None, total: float | None) -> float | None:
        """None at the first reading, and where the total went back: a driver was loaded anew."""
        if read_at is None or total is None:
            self._before.pop(key, None)
            return None
        before = self._before.get(key)
        if before is not None and before[0] == read_at:
            return before[2]
        rate = None
        if before is not None and read_at > before[0] and total >= before[1]:
            rate = (total - before[1]) / (read_at - before[0])
        self._before[key] = (read_at, total, rate)
        return rate


class Changes:
    """How often each of a device's states changed within a window of time."""

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._before: dict[str, Mapping[str, bool]] = {}
        self._seen: dict[str, deque[tuple[float, str]]] = {}

    def counts(self, key: str, read_at: float | None, states: Mapping[str, bool]) -> dict[str, int]:
        if read_at is None:
            return {}
        before = self._before.get(key, states)
        self._before[key] = states
        seen = self._seen.setdefault(key, deque())
        seen.extend((read_at, name) for name, state in states.items() if before.get(name, state) != state)
        while seen and seen[0][0] <= read_at - self._window:
            seen.popleft()
        counted = [name for _, name in seen]
        return {name: counted.count(name) for name in states}


# --- holder ------------------------------------------------------------
# Which pod a device is put down to, for exporters that have one series per device.
#
# The one whose containers hold it; where no one holds it, the one whose processes use it. Of a device that
# several pods share, nobody is named: any name would put all of it down to one of them.


_NOBODY = ("", "", "")


def put_down(view: DeviceView) -> DeviceView:
    """The view with its pod and container, where there is one only."""
    namespace, pod, container = _holder(view)
    return replace(view, namespace=namespace, pod=pod, container=container) if pod else view


def _holder(view: DeviceView) -> tuple[str, str, str]:
    if not view.usages:
        return _NOBODY
    parts = _parts(view)
    held = [u for u in view.usages if u.allocated and (parts is None or u.partition in (None, *parts))]
    # A whole device is held with all its parts; a process whose part is not known is not in all of them.
    used = [u for u in view.usages if u.processes and (parts is None or u.partition in parts)]
    return _only(held or used)


def _only(usages: Iterable[PodUsage]) -> tuple[str, str, str]:
    """Several containers of one pod: the pod without a container."""
    containers = {(u.namespace, u.pod, u.container) for u in usages}
    pods = {(namespace, pod) for namespace, pod, _ in containers}
    if len(pods) != 1:
        return _NOBODY
    [(namespace, pod)] = pods
    return (namespace, pod, next(iter(containers))[2] if len(containers) == 1 else "")


def _parts(view: DeviceView) -> set[str] | None:
    """Ids of the part that the series is about; compute instances of one GPU instance are not told apart."""
    part = view.partition
    if part is None:
        return None
    if part.gpu_instance_id is None:
        return {part.id}
    return {p.id for p in view.device.partitions if p.gpu_instance_id == part.gpu_instance_id}


# --- page ------------------------------------------------------------
# A dialect's part of the page.


Pairs = list[tuple[str, str]]
Block = tuple[Family, list[str]]


def blocks(dialect: Dialect, snapshot: Snapshot, workloads: Workloads) -> Iterator[Block]:
    """Each family with its sample lines; a family without a sample is left out."""
    node, devices = views(dialect, snapshot, workloads)
    if not devices:
        return  # a node without the exporter's hardware does not run that exporter
    for family in dialect.node_families:
        samples = ((zip(family.labels, values, strict=True), number) for values, number in family.take(node))
        lines = [_line(family, label_text(labels), number) for labels, number in samples if isfinite(number)]
        if lines:
            yield family, lines
    for section in dialect.sections:
        yield from _section(section, devices)


def views(dialect: Dialect, snapshot: Snapshot, workloads: Workloads) -> tuple[NodeView, list[DeviceView]]:
    """What the dialect's families are taken from."""
    devices = tuple(device for device in snapshot.devices if dialect.shows(device))
    node = NodeView(snapshot.node, dict(snapshot.labels), snapshot.agent.version, devices)
    wholes = (workloads.on(device, node) for device in devices)
    return node, [put_down(view) for whole in wholes for view in dialect.divide(whole)]


def _section(section: Section, devices: list[DeviceView]) -> Iterator[Block]:
    leading = [_pairs(section.labels.leading, view) for view in devices]
    others = [_pairs(section.labels.others, view) for view in devices]
    written = [label_text([*first, *sorted(then)]) for first, then in zip(leading, others, strict=True)]
    for family in section.families:
        lines = []
        for place, view in enumerate(devices):
            for values, number in family.take(view):
                labels = written[place]
                if family.labels:
                    own = zip(family.labels, values, strict=True)
                    labels = label_text([*leading[place], *sorted([*others[place], *own])])
                if isfinite(number):
                    lines.append(_line(family, labels, number))
        if lines:
            yield family, lines


def _pairs(labels: tuple[Label, ...], view: DeviceView) -> Pairs:
    pairs = ((label, label.value(view) or "") for label in labels)
    return [(label.name, value) for label, value in pairs if value or label.keep_empty]


def _line(family: Family, labels: str, number: float) -> str:
    value = number_text(number) if family.decimals is None else decimal_text(number, family.decimals)
    return f"{family.name}{{{labels}}} {value}\n" if labels else f"{family.name} {value}\n"
