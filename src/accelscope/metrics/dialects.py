"""Dialects: the metrics of other exporters, so that existing dashboards and alerts keep working.

Vendors declare their dialects. A dialect is imported only if it is enabled. It is created once per page
writer, because some values are rates or counts over time and depend on earlier readings.
`docs/dialects.md` is generated from the dialects.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from accelscope.metrics.family import (
    Family,
    Number,
    Sample,
    Scope,
    Type,
    label_text,
    sample_line,
)
from accelscope.model import Device, Partition, PodUsage, Process, Snapshot, Vendor
from accelscope.vendors import dialect_declarations
from accelscope.vendors.declaration import VendorSetting

# --- input of the families: other exporters put the host, the driver and the pod on every series


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    labels: Mapping[str, str]  # static labels of the node, from a setting
    agent_version: str
    devices: tuple[Device, ...]  # devices of the dialect's vendors


@dataclass(frozen=True, slots=True)
class DeviceView:
    device: Device
    node: NodeView
    partition: Partition | None = None  # set if the series describes a partition of the device
    processes: tuple[Process, ...] = ()  # all processes on this device
    shown_processes: tuple[Process, ...] = ()  # those within the limit on process series
    usages: tuple[PodUsage, ...] = ()  # of this device and all its partitions
    jobs: tuple[str, ...] = ()  # batch jobs that the job-mapping folder assigns to the device
    # The pod that the device or partition is attributed to (see `_attributed`). Empty if there is none or
    # more than one.
    namespace: str = ""
    pod: str = ""
    container: str = ""


class Workloads:
    """Processes, pods and jobs by device, computed once for all dialects of a page."""

    def __init__(self, snapshot: Snapshot, shown_processes: Iterable[Process]) -> None:
        self._processes = _by_device(snapshot.processes)
        self._shown = _by_device(shown_processes)
        self._jobs = {balance.device: balance.jobs for balance in snapshot.balances}
        self._usages: dict[str, list[PodUsage]] = {}
        for usage in snapshot.pod_usages:
            self._usages.setdefault(usage.device, []).append(usage)

    def view(self, device: Device, node: NodeView) -> DeviceView:
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


# --- declaration of a dialect


class DialectError(ValueError):
    """An option of the dialect is invalid. The message is one line."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option  # name of the setting


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    value: Callable[[DeviceView], str | None]
    keep_empty: bool = True  # False: the label is omitted if it is empty


@dataclass(frozen=True, slots=True)
class LabelOrder:
    """Labels of a series: the leading ones in the given order, then all others, including those of the
    family, sorted by name, as Go's client does."""

    leading: tuple[Label, ...] = ()
    others: tuple[Label, ...] = ()

    def without(self, name: str) -> "LabelOrder":
        return LabelOrder(
            tuple(label for label in self.leading if label.name != name),
            tuple(label for label in self.others if label.name != name),
        )


@dataclass(frozen=True, slots=True)
class Section:
    """Families of devices with the same labels. `take` receives a DeviceView."""

    labels: LabelOrder
    families: tuple[Family, ...]
    per_process: bool = False  # one series per process; counts towards the limit on process series


_NAME_OR_PATTERN = re.compile(r"[a-zA-Z:][a-zA-Z0-9:]*_[a-zA-Z0-9_:*]*")  # has an underscore


@dataclass(frozen=True, slots=True)
class MissingMetrics:
    """Metrics of the exporter that the dialect does not have, with the reason. `names` contains metric names
    and patterns, and may contain other words."""

    names: str
    why: str

    @property
    def patterns(self) -> list[str]:
        return _NAME_OR_PATTERN.findall(self.names)

    @property
    def condition(self) -> str:
        """When metrics that the dialect has are missing: the words that follow their names."""
        if not _NAME_OR_PATTERN.match(self.names):
            return ""
        return _NAME_OR_PATTERN.sub("", self.names).strip(" ,`")

    @property
    def labels(self) -> list[str]:
        """Empty if `names` are metrics."""
        return re.findall(r"\w+", self.names) if self.names.endswith("labels") else []


@dataclass(frozen=True, slots=True)
class UnavailableField:
    """A field that is listed in a counters file and not available."""

    option: str  # name of the setting that contains the path of the file
    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field} is not available: {self.reason}"


def whole_device(view: DeviceView) -> Iterable[DeviceView]:
    """One series per device."""
    return (view,)


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    exporter: str  # name and version of the exporter
    vendors: tuple[Vendor, ...]  # vendors whose devices it contains; empty: all
    sections: tuple[Section, ...]
    notes: tuple[str, ...]  # for users of that exporter, in the reference page
    node_families: tuple[Family, ...] = ()  # `take` receives a NodeView
    missing: tuple[MissingMetrics, ...] = ()
    optional_families: tuple[Family, ...] = ()  # can be enabled by `optional_setting`
    optional_setting: str = ""
    rates: tuple[str, ...] = ()  # families of type counter whose values are rates, as in the exporter
    prefix_setting: str = ""  # the setting that is prepended to each name; empty: there is none
    unavailable: tuple[UnavailableField, ...] = ()  # fields that are listed in an option and do not exist
    divide: Callable[[DeviceView], Iterable[DeviceView]] = whole_device

    def includes(self, device: Device) -> bool:
        return not self.vendors or device.vendor in self.vendors

    @property
    def families(self) -> tuple[Family, ...]:
        return (*self.node_families, *(family for section in self.sections for family in section.families))

    @property
    def process_series(self) -> int:
        """Number of series per process."""
        return sum(len(section.families) for section in self.sections if section.per_process)

    def only(self, chosen: Callable[[str], bool]) -> "Dialect":
        """The dialect with only the families whose names are chosen."""
        return self._map(lambda families: tuple(f for f in families if chosen(f.name)))

    def prefixed(self, prefix: str) -> "Dialect":
        return self._map(lambda families: tuple(replace(f, name=f"{prefix}{f.name}") for f in families))

    def _map(self, change: Callable[[tuple[Family, ...]], tuple[Family, ...]]) -> "Dialect":
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
    """Several series per device, with labels of the family."""
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


# --- the available dialects

NAMES: tuple[str, ...] = tuple(dialect_declarations())
OPTIONS: tuple[VendorSetting, ...] = tuple(
    sorted(
        (option for declared in dialect_declarations().values() for option in declared.options),
        key=lambda option: option.name,
    )
)


def conflict(names: Sequence[str]) -> str | None:
    """An error text if two of these dialects cannot be on one page."""
    for one, declared in dialect_declarations().items():
        for other in declared.same_names:
            if one in names and other in names:
                return (
                    f"{one} and {other} have metrics of the same name in different units: choose one of them"
                )
    return None


def option_without_dialect(
    names: Sequence[str], options: Mapping[str, str]
) -> tuple[VendorSetting, str] | None:
    """An option that has no effect, and the dialect that would read it."""
    for name, declared in dialect_declarations().items():
        for option in declared.options:
            if option.watched and option.of(options) and name not in names:
                return option, name
    return None


def load(names: Sequence[str], **options: str) -> tuple[Dialect, ...]:
    """Raises DialectError if a file named by an option cannot be read or is malformed."""
    return tuple(dialect_declarations()[name].load()(options) for name in names)


# --- units: from base units to those of other exporters, rounded as they print them

MIB = 2**20


def rounded(value: float | None, factor: float = 1) -> int | None:
    """The nearest integer; None if the value is not finite."""
    return None if value is None or not isfinite(value) else round(value * factor)


def percent(ratio: float | None) -> int | None:
    """A whole percentage."""
    return rounded(ratio, 100)


def fine_percent(ratio: float | None) -> float | None:
    """A percentage with its fraction, rounded to hide the error of multiplying by 100."""
    return None if ratio is None else round(ratio * 100, 6)


def mebibytes(size: float | None) -> int | None:
    """Whole mebibytes, rounded down as the drivers' libraries do."""
    return None if size is None or not isfinite(size) else int(size // MIB)


def megahertz(hertz: float | None) -> int | None:
    return rounded(hertz, 1e-6)


def thousandths(value: float | None) -> int | None:
    """For millijoules, millivolts and thousandths of a degree."""
    return rounded(value, 1000)


def millionths(value: float | None) -> int | None:
    return rounded(value, 1_000_000)


# --- values that depend on earlier readings


class Rates:
    """The rate of a counter between the last two readings of a device."""

    def __init__(self) -> None:
        self._previous: dict[str, tuple[float, float, float | None]] = {}  # read at, total, rate

    def per_second(self, key: str, read_at: float | None, total: float | None) -> float | None:
        """None at the first reading, and if the total decreased because the driver was reloaded."""
        if read_at is None or total is None:
            self._previous.pop(key, None)
            return None
        previous = self._previous.get(key)
        if previous is not None and previous[0] == read_at:
            return previous[2]
        rate = None
        if previous is not None and read_at > previous[0] and total >= previous[1]:
            rate = (total - previous[1]) / (read_at - previous[0])
        self._previous[key] = (read_at, total, rate)
        return rate


class ChangeCounter:
    """The number of changes of each state of a device within a time window."""

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._previous: dict[str, Mapping[str, bool]] = {}
        self._changes: dict[str, deque[tuple[float, str]]] = {}

    def counts(self, key: str, read_at: float | None, states: Mapping[str, bool]) -> dict[str, int]:
        if read_at is None:
            return {}
        previous = self._previous.get(key, states)
        self._previous[key] = states
        changes = self._changes.setdefault(key, deque())
        changes.extend(
            (read_at, name) for name, state in states.items() if previous.get(name, state) != state
        )
        while changes and changes[0][0] <= read_at - self._window:
            changes.popleft()
        counts = Counter(name for _, name in changes)
        return {name: counts[name] for name in states}


# --- pod of a device, for exporters with one series per device


def _attributed(view: DeviceView) -> DeviceView:
    """The view with the pod to which the device is allocated, otherwise the pod whose processes use it.

    No pod is named if several share the device: its name would attribute the whole device to one of them. The
    container is left out if several containers of one pod share it.
    """
    partitions = _partition_ids(view)
    allocated = [
        u
        for u in view.usages
        if u.allocated and (partitions is None or u.partition is None or u.partition in partitions)
    ]
    # An allocation of the whole device includes its partitions; a process without a known partition does not.
    used = [u for u in view.usages if u.processes and (partitions is None or u.partition in partitions)]
    containers = {(u.namespace, u.pod, u.container) for u in allocated or used}
    pods = {(namespace, pod) for namespace, pod, _ in containers}
    if len(pods) != 1:
        return view
    [(namespace, pod)] = pods
    container = next(iter(containers))[2] if len(containers) == 1 else ""
    return replace(view, namespace=namespace, pod=pod, container=container)


def _partition_ids(view: DeviceView) -> set[str] | None:
    """Ids of the partitions that the view describes. A GPU instance includes its compute instances."""
    partition = view.partition
    if partition is None:
        return None
    if partition.gpu_instance_id is None:
        return {partition.id}
    return {p.id for p in view.device.partitions if p.gpu_instance_id == partition.gpu_instance_id}


# --- rendering

Pairs = list[tuple[str, str]]
Block = tuple[Family, list[str]]


def blocks(dialect: Dialect, snapshot: Snapshot, workloads: Workloads) -> Iterator[Block]:
    """Families with their sample lines. Families without samples are left out."""
    node, devices = views(dialect, snapshot, workloads)
    if not devices:
        return  # the other exporter does not run on nodes without its hardware
    for family in dialect.node_families:
        samples = ((zip(family.labels, values, strict=True), number) for values, number in family.take(node))
        lines = [
            sample_line(family, label_text(labels), number) for labels, number in samples if isfinite(number)
        ]
        if lines:
            yield family, lines
    for section in dialect.sections:
        yield from _section(section, devices)


def views(dialect: Dialect, snapshot: Snapshot, workloads: Workloads) -> tuple[NodeView, list[DeviceView]]:
    """The input of the dialect's families."""
    devices = tuple(device for device in snapshot.devices if dialect.includes(device))
    node = NodeView(snapshot.node, dict(snapshot.labels), snapshot.agent.version, devices)
    wholes = (workloads.view(device, node) for device in devices)
    return node, [_attributed(view) for whole in wholes for view in dialect.divide(whole)]


def _section(section: Section, devices: list[DeviceView]) -> Iterator[Block]:
    leading = [_pairs(section.labels.leading, view) for view in devices]
    others = [_pairs(section.labels.others, view) for view in devices]
    written = [label_text([*first, *sorted(then)]) for first, then in zip(leading, others, strict=True)]
    for family in section.families:
        lines = []
        for i, view in enumerate(devices):
            for values, number in family.take(view):
                labels = written[i]
                if family.labels:
                    own = zip(family.labels, values, strict=True)
                    labels = label_text([*leading[i], *sorted([*others[i], *own])])
                if isfinite(number):
                    lines.append(sample_line(family, labels, number))
        if lines:
            yield family, lines


def _pairs(labels: tuple[Label, ...], view: DeviceView) -> Pairs:
    pairs = ((label, label.value(view) or "") for label in labels)
    return [(label.name, value) for label, value in pairs if value or label.keep_empty]
