"""A comparison as text and as a JSON document."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from accelscope.compare.comparison import Comparison, MissingKind, MissingName, NameComparison
from accelscope.compare.page import Metric, Page, Series
from accelscope.metrics.family import number_text

_MOST = 5  # examples of one kind in the text; the document has all


def text(found: Comparison) -> str:
    lines = [
        _page_line("old", found.old, found.dialect.exporter if found.dialect is not None else ""),
        _page_line("new", found.new, _dialect(found)),
        *(f"note  {remark}" for remark in found.remarks),
        "",
        *_sections(found),
        _verdict(found),
    ]
    # Labels are foreign text and could contain control sequences of the terminal.
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def _dialect(found: Comparison) -> str:
    """What the heading says of the new page."""
    if found.dialect is None:
        return ""
    if found.other_dialect is not None:
        return f"dialect {found.other_dialect}"
    return f"dialect {found.dialect.name}" if found.has_dialect else f"without dialect {found.dialect.name}"


# What to do about a missing name: heading of the text, and reason in the document.
_KINDS = {
    MissingKind.DIALECT: (
        "Added by starting the agent with --dialect {dialect}:",
        "dialect {dialect} is not enabled",
    ),
    MissingKind.OPTION: ("Added by an option of the agent:", ""),
    MissingKind.NOT_REPORTED: (
        "Available, but no device of the new page has a value (`absent` in the agent's /snapshot has the "
        "driver's reason):",
        "no device of the new page has a value",
    ),
    MissingKind.NOT_OFFERED: ("Not available (change the queries, or accept with --ignore):", ""),
}


def _page_line(side: str, page: Page, what: str) -> str:
    of = f" ({what})" if what else ""
    counts = f"{_count(len(page.metrics), 'name')}, {_count(page.series, 'series', 'series')}"
    return f"{side}   {page.source}{of}: {counts}"


def _sections(found: Comparison) -> Iterator[str]:
    sections = (
        ("Missing names", _missing(found)),
        ("Series", _series(found)),
        ("Labels", _labels(found)),
        ("Types", _types(found)),
        ("Values", _values(found)),
        ("Not counted as differences", _uncounted(found)),
    )
    for title, lines in sections:
        if rows := list(lines):
            yield title
            yield from (f"  {line}" for line in rows)
            yield ""


def _missing(found: Comparison) -> Iterator[str]:
    if found.old_prefix != found.new_prefix and found.dialect is not None:
        flag = found.dialect.dialect.prefix_setting.replace("_", "-")
        yield (
            f"all: names begin with {found.old_prefix or 'no prefix'!r} on the old page and with "
            f"{found.new_prefix or 'no prefix'!r} on the new one; set --{flag} '{found.old_prefix}'"
        )
    for kind, (heading, _) in _KINDS.items():
        if missing := [each for each in found.missing if each.reason.kind is kind]:
            yield heading.format(dialect="" if found.dialect is None else found.dialect.name)
            rows = [
                (each.name, _count(each.series, "series", "series"), each.reason.text) for each in missing
            ]
            yield from (f"  {line}" for line in _table(rows))


def _series(found: Comparison) -> Iterator[str]:
    """Names whose series are missing in the same way are in one row."""
    names: dict[tuple[str, int, int, str], list[str]] = defaultdict(list)
    for each in found.names:
        for kind, metric, series in (
            ("missing", each.old, each.match.missing),
            ("extra", each.new, each.match.extra),
        ):
            if series:
                names[kind, len(series), len(metric.series), _example(metric, series[0])].append(each.name)
    for (kind, count, total, example), where in names.items():
        more = f" and {count - 1} more" if count > 1 else ""
        yield f"{_in_names(where, len(found.names))}: {count} of {total} {kind}: {example}{more}"


def _example(metric: Metric, series: Series) -> str:
    """The series with the labels by which it differs from others of its name."""
    values = defaultdict(set)
    for each in metric.series:
        for name, value in each.labels:
            values[name].add(value)
    common = {name for name, found in values.items() if len(found) == 1} if len(metric.series) > 1 else set()
    labels = tuple(pair for pair in series.labels if pair[0] not in common)
    return str(Series(labels, series.value)) if labels else ""


def _labels(found: Comparison) -> Iterator[str]:
    missing: dict[tuple[str, str], list[str]] = defaultdict(list)
    values: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    names: dict[str, set[str]] = defaultdict(set)
    for each in found.names:
        for label in each.match.missing_labels:
            other = each.match.renamed_labels.get(label)
            why = f"; {other} has its values" if other else ""
            if found.dialect is not None and found.other_dialect is None:
                why += f"; {found.dialect.label_reason(label)}"
            missing[label, why].append(each.name)
        for label, old, new in each.label_values:
            values[label][old, new] += 1
            names[label].add(each.name)
    rows = [
        (label, "missing", f"{_in_names(where, len(found.names))}{why}")
        for (label, why), where in sorted(missing.items())
    ]
    for label, counts in sorted(values.items()):
        common = counts.most_common(_MOST)
        shown = "; ".join(f"{_quoted(old)} is {_quoted(new)}" for (old, new), _ in common)
        more = f" and {len(counts) - len(common)} more" if len(counts) > len(common) else ""
        where = _in_names(sorted(names[label]), len(found.names))
        rows.append((label, "differs", f"{where}: {shown}{more}"))
    yield from _table(rows)


def _in_names(names: Sequence[str], total: int) -> str:
    if len(names) == total and total > 1:
        return f"in all {total} names"
    if len(names) > _MOST:
        return f"in {len(names)} names, such as {names[0]}"
    return f"in {', '.join(names)}"


def _types(found: Comparison) -> Iterator[str]:
    yield from _table(
        (each.name, f"{each.old.type} is {each.new.type}") for each in found.names if each.type_differs
    )


def _values(found: Comparison) -> Iterator[str]:
    for each in found.names:
        for side in each.decreased:
            yield f"{each.name}: a counter decreased on the {side} page between the two readings"
        if each.unit_factor is not None:
            yield f"{each.name}: another unit: new values are old ones times {_number(each.unit_factor)}"
        for value in each.values[:_MOST]:
            what = "" if value.what == "value" else f" ({value.what} per second)"
            series = _example(each.old, value.old) if len(each.old.series) > 1 else ""
            yield f"{each.name}{series}: {_number(value.old_value)} is {_number(value.new_value)}{what}"
        if len(each.values) > _MOST:
            yield f"{each.name}: {len(each.values) - _MOST} more values differ"


def _uncounted(found: Comparison) -> Iterator[str]:
    if found.extra:
        names = [metric.name for metric in found.extra]
        yield f"further names on the new page: {_some(names)}"
    if found.native:
        yield f"native names on the new page: {found.native}"
    extra_labels = sorted({label for each in found.names for label in each.match.extra_labels})
    if extra_labels:
        yield f"further labels on the new page: {', '.join(extra_labels)}"
    if counters := [each for each in found.names if each.counters and not each.rates_compared]:
        of = _some([each.name for each in counters])
        yield f"counters, whose rates are compared only with --interval: {of}"
    if helps := [each.name for each in found.names if each.help_differs]:
        yield f"help texts that differ: {_count(len(helps), 'name')}"
    if found.ignored:
        yield f"ignored names of the old page: {_some(found.ignored)}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(names[:_MOST])}{more}"


def _verdict(found: Comparison) -> str:
    pairs = sum(len(each.match.pairs) for each in found.names)
    compared = sum(each.values_compared for each in found.names) if found.same_devices else 0
    both = (
        f"{_count(len(found.names), 'name')} on both pages, {_count(pairs, 'series', 'series')} matched, "
        f"{_count(compared, 'value')} compared"
    )
    counters = sum(each.counters for each in found.names)
    rates = sum(each.rates_compared for each in found.names)
    if rates:
        both += f", {_count(rates, 'rate')} of counters compared"
    elif counters:
        both += f", {_count(counters, 'counter')} not (only with --interval)"
    if not found.differs:
        return f"Nothing is missing: {both}."
    different = sum(each.differs for each in found.names)
    return f"The pages differ: {_count(len(found.missing), 'name')} missing, {different} different; {both}."


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _quoted(value: str) -> str:
    return f'"{value}"'


def _number(value: float) -> str:
    return number_text(float(f"{value:.6g}")) if math.isfinite(value) else str(value)


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns of equal width, but for the last one."""
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)][:-1]
    for row in listed:
        yield "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()


# --- JSON


def document(found: Comparison) -> dict[str, Any]:
    dialect = found.dialect
    return {
        "differs": found.differs,
        "old": _page(found.old, found.old_prefix),
        "new": _page(found.new, found.new_prefix),
        "dialect": None if dialect is None else dialect.name,
        "exporter": None if dialect is None else dialect.exporter,
        "remarks": found.remarks,
        "missing_names": [
            {
                "name": each.name,
                "series": each.series,
                "kind": each.reason.kind.value,
                "reason": _reason(each, "" if dialect is None else dialect.name),
            }
            for each in found.missing
        ],
        "extra_names": [{"name": each.name, "series": len(each.series)} for each in found.extra],
        "native_names": found.native,
        "ignored_names": found.ignored,
        "names": [_name(each) for each in found.names],
    }


def _reason(missing: MissingName, dialect: str) -> str:
    return missing.reason.text or _KINDS[missing.reason.kind][1].format(dialect=dialect)


def _page(page: Page, prefix: str) -> dict[str, Any]:
    return {"source": page.source, "names": len(page.metrics), "series": page.series, "prefix": prefix}


def _name(each: NameComparison) -> dict[str, Any]:
    label_values = Counter(each.label_values)
    return {
        "name": each.name,
        "differs": each.differs,
        "old_series": len(each.old.series),
        "new_series": len(each.new.series),
        "matched_series": len(each.match.pairs),
        "missing_series": [dict(series.labels) for series in each.match.missing],
        "extra_series": [dict(series.labels) for series in each.match.extra],
        "missing_labels": list(each.match.missing_labels),
        "extra_labels": list(each.match.extra_labels),
        "renamed_labels": each.match.renamed_labels,
        "label_values": [
            {"label": label, "old": old, "new": new, "series": count}
            for (label, old, new), count in sorted(label_values.items())
        ],
        "old_type": each.old.type,
        "new_type": each.new.type,
        "help_differs": each.help_differs,
        "values_compared": each.values_compared,
        "counters": each.counters,
        "rates_compared": each.rates_compared,
        "unit_factor": each.unit_factor,
        "decreased": each.decreased,
        "values": [
            {
                "labels": dict(value.old.labels),
                "kind": value.what,
                "old": _finite(value.old_value),
                "new": _finite(value.new_value),
            }
            for value in each.values
        ],
    }


def _finite(value: float) -> float | str:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else str(value)
