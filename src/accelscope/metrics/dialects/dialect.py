"""What a dialect is: another exporter's names, types, units and labels, as data.

A dialect is made anew for each page writer (`dialect()` of its module), because a few values of other
exporters are rates or counts over time, which need the readings before.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from accelscope.metrics.dialects.view import DeviceView, NodeView
from accelscope.metrics.family import Family, Number, Sample, Scope, Type
from accelscope.model import Device, Vendor


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
