"""Metric families: data, with a pure function that takes the samples from the model."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from accelscope.model import AgentState, ReaderState


class Scope(StrEnum):
    """The kind of object that a series describes. It determines the common labels of the series."""

    DEVICE = "device"
    PARTITION = "partition"
    PROCESS = "process"
    BALANCE = "balance"  # a device: the difference between its total and the sum over its owners
    POD = "pod"  # a container of a pod on a device or partition
    POD_INFO = "pod_info"
    UNATTRIBUTED = "unattributed"  # an owner other than a pod, on a device
    UNKNOWN_ALLOCATION = "unknown_allocation"  # a device id that matches no device
    READER = "reader"
    SOURCE = "source"  # an attribution source
    SINK = "sink"
    AGENT = "agent"
    NODE = "node"  # the whole node; only dialects have such families


SCOPE_LABELS: dict[Scope, tuple[str, ...]] = {
    Scope.DEVICE: ("vendor", "device", "index"),
    Scope.PARTITION: ("vendor", "device", "index", "partition"),
    Scope.PROCESS: ("vendor", "device", "index", "pid", "name"),
    Scope.BALANCE: ("vendor", "device", "index"),
    Scope.POD: ("vendor", "device", "index", "namespace", "pod", "container"),
    Scope.POD_INFO: ("namespace", "pod", "uid", "owner_kind", "owner_name"),
    Scope.UNATTRIBUTED: ("vendor", "device", "index", "owner_kind", "owner", "reason"),
    Scope.UNKNOWN_ALLOCATION: ("namespace", "pod", "container", "resource", "device_id", "claim"),
    Scope.READER: ("vendor",),
    Scope.SOURCE: ("source",),
    Scope.SINK: ("sink",),
    Scope.AGENT: (),
    Scope.NODE: (),
}


class Type(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"


class Stability(StrEnum):
    STABLE = "stable"  # name, labels and meaning stay until the next major version
    EXPERIMENTAL = "experimental"  # may still change


Sample = tuple[tuple[str, ...], float]  # values of the family's own labels, value
Number = float | int | bool | None


@dataclass(frozen=True, slots=True)
class AgentView:
    """Input of the agent's self-metrics."""

    agent: AgentState
    node: str
    taken_at: float
    process_series_dropped: int


@dataclass(frozen=True, slots=True)
class ReaderView:
    state: ReaderState
    absent: tuple[tuple[str, int], ...]  # reason, number of absent values of the reader's devices


@dataclass(frozen=True, slots=True)
class Family:
    """`take` returns the samples of one object of the scope, without absent values."""

    name: str
    type: Type
    unit: str
    help: str
    scope: Scope
    take: Callable[[Any], Iterable[Sample]]
    labels: tuple[str, ...] = ()
    stability: Stability = Stability.STABLE
    decimals: int | None = None  # None: the shortest text that reads back to the same number

    @property
    def base_name(self) -> str:
        """The name in OpenMetrics headers: a counter's without `_total`."""
        return self.name.removesuffix("_total") if self.type is Type.COUNTER else self.name

    @property
    def openmetrics_type(self) -> str:
        """OpenMetrics requires the suffix `_total` on counters; some dialects have counters without it."""
        named = self.type is not Type.COUNTER or self.name.endswith("_total")
        return self.type.value if named else "unknown"


_NO_LABELS: tuple[str, ...] = ()

T = TypeVar("T")


class FamilyFactory(Generic[T]):
    """Declares families of one scope. Call it for a family with one value per object, and `series` for a
    family with several."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __call__(
        self,
        name: str,
        unit: str,
        text: str,
        value: Callable[[T], Number],
        *,
        stability: Stability = Stability.STABLE,
    ) -> Family:
        def take(item: T) -> Iterable[Sample]:
            number = value(item)
            return () if number is None else ((_NO_LABELS, float(number)),)

        return Family(name, _type_of(name), unit, text, self._scope, take, (), stability)

    def series(
        self,
        name: str,
        unit: str,
        text: str,
        labels: tuple[str, ...],
        values: Callable[[T], Iterable[tuple[tuple[str, ...], Number]]],
        *,
        stability: Stability = Stability.STABLE,
    ) -> Family:
        def take(item: T) -> Iterable[Sample]:
            return [(own, float(value)) for own, value in values(item) if value is not None]

        return Family(name, _type_of(name), unit, text, self._scope, take, labels, stability)


def _type_of(name: str) -> Type:
    return Type.COUNTER if name.endswith("_total") else Type.GAUGE


# --- text of labels and numbers, the same in both formats


def escape(value: str) -> str:
    """Escape the value of a label."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def label_text(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f'{name}="{escape(value)}"' for name, value in pairs)


def number_text(number: float) -> str:
    """The shortest text that parses to the same number; whole numbers without a fraction."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is not finite")
    whole = int(number)
    return str(whole) if whole == number and abs(number) < 2**63 else repr(number)


def decimal_text(number: float, decimals: int) -> str:
    """With this number of digits after the point, like C's `%f`."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is not finite")
    return f"{number:.{decimals}f}"


def sample_line(family: Family, labels: str, number: float) -> str:
    """`labels` is the text between the braces."""
    value = number_text(number) if family.decimals is None else decimal_text(number, family.decimals)
    return f"{family.name}{{{labels}}} {value}\n" if labels else f"{family.name} {value}\n"
