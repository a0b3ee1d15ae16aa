"""Compares the pages of an exporter and of the agent: names, series, labels, types and values.

What would change the result of a query counts as a difference: a missing name, a missing or further series, a
missing label, another label value, another type, another value. Further names and labels, and other help
texts, are reported and do not count.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, cached_property
from statistics import median

from accelscope.compare.matching import Match, Pair, match
from accelscope.compare.page import Labels, Metric, Page, Series
from accelscope.metrics import dialects
from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.dialects import Dialect
from accelscope.vendors import dialect_declarations

# --- dialects -------------------------------------------------------------
# Which dialect has the names of an exporter's page, and why it lacks some of them.


NATIVE = frozenset(family.name for family in CATALOGUE)
# Names by which an exporter describes itself, not devices.
EXPORTERS_OWN = ("go_*", "process_*", "promhttp_*", "python_*", "*_created")


class MissingKind(StrEnum):
    """Why a name of the old page is not on the new one."""

    OPTION = "option"  # an option of the agent adds it
    DIALECT = "dialect"  # the dialect is not enabled
    NOT_REPORTED = "not_reported"  # the dialect has it, but no device of the new page has a value
    NOT_OFFERED = "not_offered"  # AccelScope does not have it


@dataclass(frozen=True, slots=True)
class Reason:
    kind: MissingKind
    text: str = ""  # beyond the kind


@dataclass(frozen=True)
class KnownDialect:
    dialect: Dialect
    exporter: str  # name of the other exporter's program, else that of the dialect

    @property
    def name(self) -> str:
        return self.dialect.name

    @cached_property
    def offered(self) -> frozenset[str]:
        """Names without a setting that selects further ones."""
        return frozenset(family.name for family in self.dialect.families)

    @cached_property
    def optional(self) -> frozenset[str]:
        return frozenset(family.name for family in self.dialect.optional_families)

    @cached_property
    def labels(self) -> frozenset[str]:
        sections = self.dialect.sections
        return frozenset(
            label.name for section in sections for label in (*section.labels.leading, *section.labels.others)
        )

    def prefix(self, page: Page) -> str:
        """The prefix of the dialect's names on a page; empty if it has no setting for one."""
        if not self.dialect.prefix_setting:
            return ""
        names = self.offered
        found = Counter(
            name.removesuffix(rest)
            for name in page.metrics
            for rest in _ends(name)
            if rest in names  # the longest one
        )
        return found.most_common(1)[0][0] if found else ""

    def reason(self, name: str) -> "Reason":
        """Why a name is on the exporter's page and not on ours, with the dialect enabled."""
        missing = self.dialect.missing
        if name in self.offered:
            reasons = (
                f"{each.condition}: {each.why}"
                for each in missing
                if each.condition and matches(name, each.patterns)
            )
            return Reason(MissingKind.NOT_REPORTED, next(reasons, ""))
        if name in self.optional:
            flag = self.dialect.optional_setting.replace("_", "-")
            return Reason(MissingKind.OPTION, f"needs --{flag} with this field")
        unknown = f"dialect {self.name} has no such name"
        if others := [each for each in dialects.NAMES if name in known(each).offered]:
            unknown += f"; {' and '.join(others)} {'has' if len(others) == 1 else 'have'} it"
        why = next((each.why for each in missing if matches(name, each.patterns)), unknown)
        return Reason(MissingKind.NOT_OFFERED, why)

    def label_reason(self, label: str) -> str:
        """Why a label is on the exporter's page and not on ours."""
        for option in dialect_declarations()[self.name].options:
            if label in option.choices:
                return f"set --{option.name.replace('_', '-')} {label}"
        if label in self.labels:
            return "no series of the new page has a value for it"
        unknown = f"dialect {self.name} has no such label"
        return next((each.why for each in self.dialect.missing if label in each.labels), unknown)

    def recognises(self, name: str) -> bool:
        """Whether the name is one of the exporter's, although the dialect may lack it."""
        return any(matches(name, each.patterns) for each in self.dialect.missing)


def _ends(name: str) -> Iterable[str]:
    """The name, and what follows each underscore."""
    parts = name.split("_")
    return ("_".join(parts[i:]) for i in range(len(parts)))


@cache
def known(name: str) -> KnownDialect:
    [loaded] = dialects.load((name,))
    declared = dialect_declarations()[name]
    return KnownDialect(loaded, declared.exporter or name)


def detect(page: Page) -> KnownDialect | None:
    """The dialect with most of the page's names, then of the exporter that has most of the others, then with
    most of its labels, then with the fewest other names."""
    labels = {name for metric in page.metrics.values() for name in metric.label_names}
    best = (0, 0, 0, 0)
    found = None
    for each in map(known, dialects.NAMES):
        names = each.offered | each.optional
        prefix = each.prefix(page)
        own = [name.removeprefix(prefix) for name in page.metrics if name.startswith(prefix)]
        count = sum(name in names for name in own)
        others = sum(name not in names and each.recognises(name) for name in own)
        score = (count, others, len(labels & each.labels), -len(each.offered))
        if (count or others) and score > best:
            best, found = score, each
    return found


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


# --- values ---------------------------------------------------------------
# The pages were read at slightly different moments. What moves has a tolerance by its unit; what does not
# move, such as a total or a limit, hardly any. A constant factor between the pages means another unit.


@dataclass(frozen=True, slots=True)
class Tolerance:
    relative: float
    absolute: float = 0.0

    def allows(self, old: float, new: float) -> bool:
        if math.isnan(old) or math.isnan(new):
            return math.isnan(old) and math.isnan(new)
        if math.isinf(old) or math.isinf(new):
            return old == new
        return abs(old - new) <= max(self.absolute, self.relative * max(abs(old), abs(new)))


TRAFFIC = Tolerance(0.75)  # rates over a moment, which two programs measure over different moments

# By the unit in the help text, as exporters write it: "Power draw (in W)." or "Power of the card, in W."
_UNIT = re.compile(r"\bin (%|[^\W\d_]\S*?(?: of \d\^\d+ bytes| per second)?)(?=[,;.)]|\s\(|$)")
_BY_UNIT = (
    (re.compile(r"%"), Tolerance(0.0, 15.0)),
    (
        re.compile(r"(?:milli|micro)?degrees.*|thousandths of a degree.*|C|celsius", re.IGNORECASE),
        Tolerance(0.1),
    ),
    (re.compile(r"(?:milli|micro)?(?:W|watts?)|mW|uW", re.IGNORECASE), Tolerance(0.3)),
    (re.compile(r"MHz|Hz|hertz", re.IGNORECASE), Tolerance(0.3)),
    (re.compile(r"(?:[MK]i?B|bytes)(?: of .*)?", re.IGNORECASE), Tolerance(0.05, 64.0)),
    (re.compile(r".*(?:/s|per second|bps)", re.IGNORECASE), TRAFFIC),
)
# Without a unit in the help text: by the name.
_BY_NAME = (
    (re.compile(r"util|activ|busy|occupancy", re.IGNORECASE), Tolerance(0.0, 15.0)),
    (re.compile(r"temp", re.IGNORECASE), Tolerance(0.1)),
    (re.compile(r"power|watts", re.IGNORECASE), Tolerance(0.3)),
    (re.compile(r"clock|freq|hertz", re.IGNORECASE), Tolerance(0.3)),
    (re.compile(r"mem|vram|fb_|dram", re.IGNORECASE), Tolerance(0.05, 64.0)),
    (re.compile(r"bandwidth|throughput|_bytes|_rx|_tx", re.IGNORECASE), TRAFFIC),
)
_RATIO = re.compile(r"ratio|PROF_.*ACTIVE", re.IGNORECASE)
_CONSTANT = re.compile(r"total|max|limit|capacity|reserved", re.IGNORECASE)
# Values that only increase, although some exporters declare them as gauges.
_ACCUMULATES = re.compile(r"energy_consum|_accumulated$|_link_[rt]x$", re.IGNORECASE)
_DEFAULT = Tolerance(0.05)
_EXACT = Tolerance(0.005)
RATE = Tolerance(0.3)  # of a counter, between two readings


def tolerance_of(name: str, text: str | None) -> Tolerance:
    if _CONSTANT.search(name):
        return _EXACT
    if _RATIO.search(name):
        return Tolerance(0.0, 0.15)
    found = _UNIT.search(text or "")
    if found is not None:
        for unit, tolerance in _BY_UNIT:
            if unit.fullmatch(found[1]):
                return tolerance
    return next((tolerance for pattern, tolerance in _BY_NAME if pattern.search(name)), _DEFAULT)


_FACTORS = tuple(
    factor ** (sign * power)
    for factor, powers in ((1000.0, (1, 2, 3)), (1024.0, (2, 3)), (100.0, (1,)))
    for power in powers
    for sign in (1, -1)
)
_FACTOR_RATIO = 1.25  # between the median and the factor: values move between the two readings


def unit_factor(values: Sequence[tuple[float, float]]) -> float | None:
    """The power of 1000, 1024 or 100 by which all new values differ from the old ones."""
    ratios = [new / old for old, new in values if old and new and math.isfinite(old) and math.isfinite(new)]
    if not ratios or any(ratio <= 0 for ratio in ratios):
        return None
    middle = median(ratios)
    nearest = min(_FACTORS, key=lambda factor: abs(math.log(middle / factor)))
    close = all(1 / _FACTOR_RATIO**2 < ratio / nearest < _FACTOR_RATIO**2 for ratio in ratios)
    return nearest if close and 1 / _FACTOR_RATIO < middle / nearest < _FACTOR_RATIO else None


# --- names and series -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scrape:
    """A page at one or two moments."""

    first: Page
    second: Page | None = None
    seconds: float = 0.0  # between the two


@dataclass(frozen=True, slots=True)
class MissingName:
    name: str
    series: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class ValueDifference:
    old: Series
    old_value: float
    new_value: float
    what: str = "value"  # or rate


@dataclass(slots=True)
class NameComparison:
    """A name that is on both pages."""

    old: Metric
    new: Metric
    match: Match
    label_values: list[tuple[str, str, str]] = field(default_factory=list)  # label, old, new; one per pair
    values: list[ValueDifference] = field(default_factory=list)
    values_compared: int = 0
    counters: int = 0  # pairs of series of a counter, whose values cannot be compared
    rates_compared: int = 0  # of these, with two readings
    unit_factor: float | None = None  # new values are old ones times this
    decreased: list[str] = field(default_factory=list)  # pages on which a counter decreased: old, new

    @property
    def name(self) -> str:
        return self.old.name

    @property
    def type_differs(self) -> bool:
        return len({self.old.type, self.new.type} - {None, "unknown", "untyped"}) == 2

    @property
    def help_differs(self) -> bool:
        return self.old.help is not None and self.new.help is not None and self.old.help != self.new.help

    @property
    def differs(self) -> bool:
        found = self.match
        return bool(
            found.missing
            or found.extra
            or found.missing_labels
            or self.label_values
            or self.type_differs
            or self.values
            or self.unit_factor
            or self.decreased
        )


@dataclass(slots=True)
class Comparison:
    old: Page
    new: Page
    dialect: KnownDialect | None
    missing: list[MissingName] = field(default_factory=list)
    extra: list[Metric] = field(default_factory=list)  # names without native ones
    names: list[NameComparison] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # names of the old page
    native: int = 0  # names
    has_dialect: bool = False  # whether the new page has a name of the dialect
    other_dialect: str | None = None  # of the new page, if it is one with the same names in other units
    old_prefix: str = ""
    new_prefix: str = ""
    remarks: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return bool(
            self.missing or self.old_prefix != self.new_prefix or any(each.differs for each in self.names)
        )

    @property
    def same_devices(self) -> bool:
        """False if both pages identify devices, and no device is on both."""
        pairs = [pair for each in self.names for pair in each.match.pairs if pair.identified]
        unmatched = any(each.match.different_devices for each in self.names)
        return any(pair.same_device for pair in pairs) or not (pairs or unmatched)


def compare(
    old: Scrape,
    new: Scrape,
    dialect: KnownDialect | None,
    *,
    ignore: Sequence[str] = (),
    ignore_labels: Sequence[str] = (),
    tolerance: float | None = None,
) -> Comparison:
    found = Comparison(old.first, new.first, dialect)
    if dialect is not None:
        found.old_prefix, found.new_prefix = dialect.prefix(old.first), dialect.prefix(new.first)
    before = _without_prefix(old.first, found.old_prefix)
    after = _without_prefix(new.first, found.new_prefix)
    patterns = (*EXPORTERS_OWN, *ignore)
    found.has_dialect = dialect is not None and not dialect.offered.isdisjoint(after)
    if dialect is not None:
        found.other_dialect = _other_dialect(dialect, new.first)
    if not found.has_dialect:
        found.new_prefix = found.old_prefix  # unknown
    for name, metric in before.items():
        if matches(metric.name, patterns) or matches(name, patterns):
            found.ignored.append(metric.name)
        elif name not in after:
            enabled = found.has_dialect and found.other_dialect is None
            reason = _reason(name, dialect, enabled=enabled)
            found.missing.append(MissingName(metric.name, len(metric.series), reason))
        else:
            compared = _compare_name(metric, after[name], ignore_labels)
            _compare_values(
                compared,
                _ValuesOf(old, metric),
                _ValuesOf(new, after[name]),
                tolerance,
                is_rate=dialect is not None and name in dialect.dialect.rates,
            )
            found.names.append(compared)
    for name, metric in after.items():
        if name in before or matches(metric.name, patterns):
            continue
        if name in NATIVE:
            found.native += 1
        else:
            found.extra.append(metric)
    found.remarks += _remarks(found)
    return found


def _reason(name: str, dialect: KnownDialect | None, *, enabled: bool) -> Reason:
    if name in NATIVE:
        return Reason(MissingKind.NOT_REPORTED)
    if dialect is None:
        return Reason(MissingKind.NOT_OFFERED, "no dialect has this name")
    reason = dialect.reason(name)
    offered = reason.kind is not MissingKind.NOT_OFFERED
    return Reason(MissingKind.DIALECT) if offered and not enabled else reason


def _without_prefix(page: Page, prefix: str) -> Mapping[str, Metric]:
    return {name.removeprefix(prefix): metric for name, metric in page.metrics.items()}


def _remarks(found: Comparison) -> Iterable[str]:
    for page in (found.old, found.new):
        yield from (f"{page.source}: {remark}" for remark in page.remarks)
    if not NATIVE.isdisjoint(found.old.metrics) and NATIVE.isdisjoint(found.new.metrics):
        yield "the first page is AccelScope's and the second is not: name the old exporter's page first"
    if found.dialect is None:
        yield (
            "no dialect has the names of the old page, so AccelScope does not replace this exporter under "
            f"its names (dialects: {', '.join(dialects.NAMES)}); docs/metrics.md lists the native names"
        )
    elif found.missing and not found.has_dialect:
        yield (
            f"the new page has no name of dialect {found.dialect.name}: start the agent with --dialect "
            f"{found.dialect.name}, on a node that has such devices"
        )
    elif found.other_dialect is not None:
        yield (
            f"the new page is of dialect {found.other_dialect}, which has the same names in other units; the "
            f"old page is of dialect {found.dialect.name}: start the agent with --dialect "
            f"{found.dialect.name}"
        )
    for side, page in (("old", found.old), ("new", found.new)):
        if len(hosts := _hosts(page)) > 1:
            yield (
                f"the {side} page has series of {len(hosts)} nodes, such as {hosts[0]} and {hosts[1]}: "
                "compare pages of one node"
            )
    if not found.same_devices:
        yield (
            "no device is on both pages, so values are not compared: the pages are of different nodes; "
            "compare two pages of the same node"
        )


def _other_dialect(dialect: KnownDialect, page: Page) -> str | None:
    """The dialect of the page, if it is one that cannot be on a page with this one."""
    found = detect(page)
    if found is None or dialects.conflict((dialect.name, found.name)) is None:
        return None
    return found.name if found.name != dialect.name else None


_HOST_LABELS = ("Hostname", "hostname", "kubernetes_node_name")


def _hosts(page: Page) -> list[str]:
    """The hosts that the series name."""
    series = (dict(each.labels) for metric in page.metrics.values() for each in metric.series)
    return sorted({labels[name] for labels in series for name in _HOST_LABELS if name in labels})


def _compare_name(old: Metric, new: Metric, ignore_labels: Sequence[str]) -> NameComparison:
    found = match(old, new, ignore_labels)
    compared = NameComparison(old, new, found)
    for pair in found.pairs:
        compared.label_values += pair.differences(found.common_labels)
    return compared


class _ValuesOf:
    """The values of a metric at one or two moments."""

    def __init__(self, scrape: Scrape, metric: Metric) -> None:
        self.seconds = scrape.seconds
        self._second: dict[Labels, float] | None = None
        if scrape.second is not None:
            again = scrape.second.metrics.get(metric.name, Metric(metric.name))
            self._second = {series.labels: series.value for series in again.series}

    def change(self, series: Series) -> float | None:
        """None if it was read once."""
        later = None if self._second is None else self._second.get(series.labels)
        return None if later is None else later - series.value

    def mean(self, series: Series) -> float:
        change = self.change(series)
        return series.value if change is None else series.value + change / 2


def _compare_values(
    compared: NameComparison, old: _ValuesOf, new: _ValuesOf, tolerance: float | None, *, is_rate: bool
) -> None:
    pairs = [pair for pair in compared.match.pairs if pair.same_device and pair.only]
    limits = TRAFFIC if is_rate else tolerance_of(compared.name, compared.new.help)
    if tolerance is not None:
        limits = replace(limits, relative=tolerance, absolute=0.0)
    if _is_counter(compared) and not is_rate:
        compared.counters = len(pairs)
        _compare_counters(compared, pairs, old, new, RATE if tolerance is None else Tolerance(tolerance))
        return
    compared.values_compared = len(pairs)
    values = [(pair, old.mean(pair.old), new.mean(pair.new)) for pair in pairs]
    differing = [
        ValueDifference(pair.old, before, after)
        for pair, before, after in values
        if not limits.allows(before, after)
    ]
    if differing:
        compared.unit_factor = unit_factor([(before, after) for _, before, after in values])
    if compared.unit_factor is None:
        compared.values = differing


def _is_counter(compared: NameComparison) -> bool:
    types = {compared.old.type, compared.new.type}
    if "counter" in types or _ACCUMULATES.search(compared.name):
        return True
    return "gauge" not in types and compared.name.endswith("_total")  # a gauge may be a total, as of memory


def _compare_counters(
    compared: NameComparison, pairs: Sequence[Pair], old: _ValuesOf, new: _ValuesOf, limits: Tolerance
) -> None:
    """Counters may have begun at different times, so only the scale of their values is compared; with two
    readings also the rate."""
    compared.unit_factor = unit_factor([(pair.old.value, pair.new.value) for pair in pairs])
    for pair in pairs:
        before, after = old.change(pair.old), new.change(pair.new)
        for side, change in (("old", before), ("new", after)):
            if change is not None and change < 0 and side not in compared.decreased:
                compared.decreased.append(side)
        if before is None or after is None or before < 0 or after < 0 or compared.unit_factor is not None:
            continue
        compared.rates_compared += 1
        rates = before / old.seconds, after / new.seconds
        one_event = 1 / min(old.seconds, new.seconds)  # may be on one side of a reading, or on the other
        limits = replace(limits, absolute=one_event)
        if not all(map(math.isfinite, rates)) or not limits.allows(*rates):
            compared.values.append(ValueDifference(pair.old, *rates, "rate"))
