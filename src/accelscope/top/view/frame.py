"""The layout of a view: header, alerts and two tables, by what the user has selected."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from accelscope.top.view import devices, overview, processes
from accelscope.top.view.devices import TONES, DeviceRow, device_name
from accelscope.top.view.model import (
    ALL,
    DeviceView,
    NodeView,
    ProcessView,
    Sums,
    View,
    ViewKind,
    node_sums,
    sums_of,
)
from accelscope.top.view.processes import ProcessRow, Tree, matches, on_devices, process_rows
from accelscope.top.view.table import (
    Column,
    Condition,
    Level,
    Line,
    RenderContext,
    Sort,
    Span,
    Tone,
    conditions,
    in_order,
)
from accelscope.top.view.text import (
    bar,
    celsius,
    clean,
    cut,
    duration,
    fraction,
    percent,
    size_of,
    sparkline,
    watts,
    width_of,
)


@dataclass(frozen=True, slots=True)
class Alert:
    level: Level
    text: str
    count: int = 1  # number of problems that it stands for


def alerts(view: View, context: RenderContext) -> list[Alert]:
    """Problems, the worst first."""
    found = []
    if view.error is not None:
        old = f"; the values shown are {duration(view.age_seconds, context.glyphs)} old"
        found.append(Alert(Level.BAD, f"{view.title}: {view.error}{old if view.age_seconds else ''}"))
    if view.overview is not None:
        found += [Alert(Level.BAD, trouble) for trouble in view.overview.troubles]
        if (more := view.overview.troubles_total - len(view.overview.troubles)) > 0:
            found.append(Alert(Level.BAD, f"{more} more; see /api/v1/health of the fleet", more))
    for node in view.nodes:
        found += _node_alerts(node, len(view.nodes) > 1, context)
    return sorted(found, key=lambda alert: -alert.level)


def _node_alerts(node: NodeView, with_name: bool, context: RenderContext) -> Iterable[Alert]:
    place = f"{node.name}: " if with_name else ""
    if node.error is not None:
        name = "" if node.name in node.source else f" ({node.name})"
        source = f"{node.source}{name}: " if node.cluster is None else ""
        last = (
            f"; the values shown are {duration(node.age_seconds, context.glyphs)} old"
            if node.age_seconds is not None and node.cluster is None
            else ""
        )
        yield Alert(Level.BAD, f"{source}{node.error}{last}")
    elif not node.drivers_found:
        yield Alert(Level.NOTE, f"{place}no accelerator driver found; run accelscope doctor for details")
    for trouble in node.troubles:
        yield Alert(Level.BAD, place + trouble)
    several = len({device.vendor for device in node.devices}) > 1
    for device in node.devices:
        found = [each for each in conditions(device) if each.level >= Level.WARNING or each.word == "ANOMALY"]
        if found:
            text = "; ".join(_alert_text(device, condition, context) for condition in found)
            name = device_name(device, device.vendor if several else "device")
            yield Alert(found[0].level, f"{place}{name}: {text}")
    for note in node.notes:
        yield Alert(Level.NOTE, f"{place}attribution source {note}")


def _alert_text(device: DeviceView, condition: Condition, context: RenderContext) -> str:
    word, reason = condition.word, condition.text
    if word == "HOT":
        limit = device.temperature_slowdown_celsius
        slowdown = "" if limit is None else f", slowdown limit {celsius(limit, context.glyphs)}"
        return f"HOT {celsius(device.temperature_celsius, context.glyphs)}{slowdown}"
    if word == "FULL":
        return f"FULL {size_of(device.memory_used_bytes, device.memory_total_bytes, context.glyphs)}"
    since = ""
    if device.stale and device.read_at is not None:
        since = f" for {duration(context.now - device.read_at, context.glyphs)}"
    action = f": {condition.action}" if condition.action else ""
    return f"{word}{since}{f' ({reason})' if reason else ''}{action}"


R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the user has selected; `sorts` by the name of the pane."""

    text: str = ""
    tree: Tree = Tree.FLAT
    sorts: dict[str, Sort] = field(default_factory=dict)
    marked: frozenset[str] = frozenset()  # keys of devices and partitions; only their processes are shown
    folded: frozenset[str] = frozenset()  # keys of groups
    cluster: str | None = None  # in a fleet, show only its nodes

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.text.casefold().split())

    def sorted_by(self, pane: str, sort: Sort) -> "Choices":
        return replace(self, sorts=self.sorts | {pane: sort})


@dataclass(frozen=True, slots=True)
class Entry(Generic[R]):
    """A row, or a heading of the rows below it."""

    key: str
    row: R | None = None
    heading: Line | None = None


@dataclass(frozen=True, slots=True)
class Pane(Generic[R]):
    name: str
    title: str
    columns: Sequence[Column[R]]
    entries: Sequence[Entry[R]]
    sort: Sort | None
    empty: str  # text if there are no rows

    @property
    def rows(self) -> list[R]:
        return [entry.row for entry in self.entries if entry.row is not None]


DEFAULT_SORTS = {
    "devices": Sort("device"),
    "processes": Sort("memory"),
    "clusters": Sort("cluster"),
}


def panes(view: View, choices: Choices, context: RenderContext) -> tuple[Pane[Any], Pane[Any]]:
    """The upper and the lower pane."""
    if view.overview is not None:
        return _clusters(view, choices), _nodes(view, choices)
    return _devices(view, choices, context), _processes(view, choices)


def _sort(choices: Choices, name: str) -> Sort | None:
    return choices.sorts.get(name, DEFAULT_SORTS.get(name))


def _devices(view: View, choices: Choices, context: RenderContext) -> Pane[DeviceRow]:
    sort = _sort(choices, "devices")
    entries: list[Entry[DeviceRow]] = []
    shown = total = 0
    for node in view.nodes:
        total += len(node.devices)
        kept = [device for device in node.devices if _device_kept(device, node, choices.words)]
        shown += len(kept)
        if len(view.nodes) > 1 and (kept or not choices.words):
            entries.append(Entry(f"node {node.key}", heading=_heading(node, context)))
        rows = devices.rows_of(node, kept, sort, choices.marked)
        entries += [Entry(row.key, row) for row in rows]
    count = f"{shown} of {total}" if shown != total else str(total)
    chosen = f", {len(choices.marked)} selected" if choices.marked else ""
    empty = "no device matches the filter (Esc clears it)" if total else _nothing(view)
    return Pane("devices", f"devices {count}{chosen}", devices.COLUMNS, entries, sort, empty)


def _nothing(view: View) -> str:
    if any(node.error for node in view.nodes) or view.error:
        return "no data yet"
    return "no devices"


def _device_kept(device: DeviceView, node: NodeView, words: Sequence[str]) -> bool:
    """Whether the device matches, or a process on it does."""
    if not words:
        return True
    texts = (device.model, device.id, node.name, node.cluster, *device.pods)
    haystack = "\n".join(text for text in texts if text).casefold()
    if all(word in haystack for word in words):
        return True
    return any(
        matches(process, node.name, words) and any(use.device == device.key for use in process.uses)
        for process in node.processes
    )


def _heading(node: NodeView, context: RenderContext) -> Line:
    glyphs = context.glyphs
    sums = node_sums((node,))
    line = [Span(clean(node.name, glyphs), Tone.STRONG), Span(f"  {clean(node.source, glyphs)}", Tone.DIM)]
    if node.devices:
        line.append(Span(f"  {sums.devices} devices, {percent(sums.utilization_ratio, glyphs)} used"))
    if node.error is not None:
        age = (
            "never read"
            if node.age_seconds is None
            else f"last read {duration(node.age_seconds, glyphs)} ago"
        )
        line.append(Span(f"  NO RESPONSE, {age}: {clean(node.error, glyphs)}", Tone.BAD))
    elif not node.drivers_found:
        line.append(Span("  no accelerator driver", Tone.DIM))
    else:
        line.append(Span(f"  {duration(node.age_seconds, glyphs)} old", Tone.DIM))
    return line


def _processes(view: View, choices: Choices) -> Pane[ProcessRow]:
    sort = _sort(choices, "processes")
    words, marked = choices.words, choices.marked

    def keep(process: ProcessView, node: NodeView) -> bool:
        return matches(process, node.name, words) and (not marked or on_devices(process, marked))

    rows = process_rows(view.nodes, choices.tree, sort, choices.folded, keep)
    total = sum(len(node.processes) for node in view.nodes)
    shown = sum(keep(process, node) for node in view.nodes for process in node.processes)
    count = f"{shown} of {total}" if shown != total else str(total)
    columns = processes.COLUMNS if choices.tree is Tree.FLAT else processes.TREE_COLUMNS
    how = "" if choices.tree is Tree.FLAT else f" {choices.tree}"
    empty = "no process matches the selection (Esc clears it)" if total else "no processes on these devices"
    return Pane(
        "processes", f"processes {count}{how}", columns, [Entry(row.key, row) for row in rows], sort, empty
    )


def _clusters(view: View, choices: Choices) -> Pane[Any]:
    assert view.overview is not None
    sort = _sort(choices, "clusters")
    rows = [overview.cluster_row(cluster, choices.cluster) for cluster in view.overview.clusters]
    rows = in_order(overview.CLUSTER_COLUMNS, rows, sort)
    entries = [Entry(row.key, row) for row in rows]
    return Pane(
        "clusters",
        f"clusters {len(rows)}",
        overview.CLUSTER_COLUMNS,
        entries,
        sort,
        "no clusters yet",
    )


def _nodes(view: View, choices: Choices) -> Pane[Any]:
    found = view.overview
    assert found is not None
    entries = [Entry(node.key, overview.node_row(node)) for node in found.nodes]
    where = f" of {clean(choices.cluster)}" if choices.cluster else ""
    pages = ""
    if found.page or found.has_next:
        pages = f", page {found.page + 1} ([ and ] change pages)"
    sort = _sort(choices, "nodes")
    by = "" if sort is not None else ", unhealthy first"
    empty = "no node matches the filter (Esc clears it)" if choices.text else "no nodes yet"
    title = f"nodes{where} {found.nodes_total}{by}{pages}"
    return Pane("nodes", title, overview.NODE_COLUMNS, entries, sort, empty)


def api_sort(sort: Sort | None) -> str:
    """The parameter of the fleet's API; empty for the default order."""
    if sort is None:
        return ""
    [column] = [column for column in overview.NODE_COLUMNS if column.name == sort.column]
    falls = column.largest_first is not sort.reverse
    return f"{'-' if falls else ''}{sort.column}"


def header(view: View, alerts: Sequence[Alert], context: RenderContext, width: int, right: str) -> list[Line]:
    """Source, time and totals."""
    glyphs = context.glyphs
    first: Line = [Span("accelscope top", Tone.STRONG), Span(f"  {clean(_where(view), glyphs)}")]
    if len(view.nodes) == 1 and view.nodes[0].driver:
        first.append(Span(f"  {clean(view.nodes[0].driver, glyphs)}", Tone.DIM))
    if len(view.nodes) == 1 and view.kind is not ViewKind.LOCAL and view.nodes[0].age_seconds is not None:
        first.append(Span(f"  {duration(view.nodes[0].age_seconds, glyphs)} old", Tone.DIM))
    clock = datetime.fromtimestamp(view.at).astimezone().strftime("%H:%M:%S")
    return [
        _between(first, [Span(right, Tone.STRONG), Span(f"  {clock}")], width, context),
        _totals(sums_of(view), view, alerts, context, width),
    ]


def _where(view: View) -> str:
    if view.overview is None and len(view.nodes) == 1:
        node = view.nodes[0]
        simulated = " (simulated)" if node.simulated else ""
        if view.kind is ViewKind.LOCAL:
            return f"{node.name}"
        name = f"{node.cluster}/{node.name}" if node.cluster else node.name
        return f"{name}{simulated}  {view.title}" if name not in view.title else f"{view.title}{simulated}"
    return f"fleet {view.title}" if view.kind is ViewKind.FLEET else view.title


def _totals(sums: Sums, view: View, alerts: Sequence[Alert], context: RenderContext, width: int) -> Line:
    """The most important parts first; those that do not fit are left out."""
    glyphs = context.glyphs
    worst = max((alert.level for alert in alerts), default=Level.FINE)
    count = sum(alert.count for alert in alerts if alert.level >= Level.WARNING)
    problems = f"{glyphs.alert} {count} problem{'' if count == 1 else 's'}"
    state = Span(problems, TONES[worst]) if count else Span("no problems", Tone.GOOD)
    if not sums.devices:
        state = state if count else Span("no data", Tone.DIM)
    full, rest = bar(sums.utilization_ratio, 10, glyphs)
    parts: list[Line] = [
        [state],
        _nodes_counted(sums) if view.overview is not None or len(view.nodes) > 1 else [],
        [Span(f"{sums.devices} devices")],
        [Span("use "), Span(percent(sums.utilization_ratio, glyphs), Tone.STRONG)],
        [
            Span("memory "),
            Span(size_of(sums.memory_used_bytes, sums.memory_total_bytes, glyphs), Tone.STRONG),
        ],
        [Span(f"power {watts(sums.power_watts, glyphs)}")],
        [Span(f"hottest {celsius(sums.temperature_max_celsius, glyphs)}")],
        [Span(f"{fraction(sums.devices_idle, glyphs)} idle", Tone.WARN)] if sums.devices_idle else [],
        [Span(full, Tone.GOOD), Span(rest, Tone.DIM)],
        [Span(sparkline(context.history.of(ALL), 24, glyphs), Tone.GOOD)],
    ]
    line: Line = []
    for part in parts:
        wide = sum(width_of(span.text) for span in [*line, *part]) + 2
        if part and wide <= width:
            line += ([Span("  ")] if line else []) + part
    return line


def _nodes_counted(sums: Sums) -> Line:
    counted: Line = [Span(f"{sums.nodes} nodes")]
    if sums.nodes_not_read:
        counted.append(Span(f" ({sums.nodes_not_read} not read)", Tone.WARN))
    return counted


def alert_lines(alerts: Sequence[Alert], context: RenderContext, width: int, room: int) -> list[Line]:
    """As many alerts as fit. The last line counts the rest."""
    glyphs = context.glyphs
    urgent = [alert for alert in alerts if alert.level >= Level.WARNING]
    shown = urgent if len(urgent) <= room else urgent[: max(0, room - 1)]
    lines: list[Line] = [
        [
            Span(glyphs.alert, TONES[alert.level]),
            Span(
                " " + cut(clean(alert.text, glyphs), width - 2, glyphs),
                Tone.STRONG if alert.level >= Level.BAD else Tone.PLAIN,
            ),
        ]
        for alert in shown
    ]
    if len(shown) < len(urgent) and room:
        more = sum(alert.count for alert in urgent[len(shown) :])
        lines.append([Span(f"  and {more} more: press ! to list them", Tone.WARN)])
    return lines


def _between(left: Line, right: Line, width: int, context: RenderContext) -> Line:
    """Left-aligned and right-aligned text; the left one is cut if necessary."""
    taken = sum(width_of(span.text) for span in right)
    room = max(0, width - taken - 1)
    line: Line = []
    for span in left:
        text = cut(span.text, room, context.glyphs)
        line.append(Span(text, span.tone))
        room -= width_of(text)
    return [*line, Span(" " * (room + 1)), *right]
