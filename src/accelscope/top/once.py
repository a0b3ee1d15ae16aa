"""One look as plain text: for pipes, scripts and terminals that cannot place a cursor."""

from collections.abc import Iterable
from typing import Any

from accelscope.top.view.frame import Choices, Pane, alerts, header, panes
from accelscope.top.view.shown import Kind, NodeView, View
from accelscope.top.view.table import Line, Setting, Span, Tone, place, plain, row_line, title_line
from accelscope.top.view.text import clean, cut

WIDE = 240  # columns where nobody says how wide the output is


def page(view: View, choices: Choices, setting: Setting, width: int) -> str:
    return "".join(f"{line}\n" for line in _lines(view, choices, setting, width))


def _lines(view: View, choices: Choices, setting: Setting, width: int) -> Iterable[str]:
    found = alerts(view, setting)
    yield from map(plain, header(view, found, setting, width, ""))
    for alert in found:
        yield cut(f"{setting.glyphs.alert} {clean(alert.text, setting.glyphs)}", width, setting.glyphs)
    for pane in panes(view, choices, setting):
        yield ""
        yield from map(plain, table(pane, setting, width))


def table(pane: Pane[Any], setting: Setting, width: int) -> list[Line]:
    rows = pane.rows
    if not rows and not pane.entries:
        return [[Span(pane.empty, Tone.DIM)]]
    columns = [column for column in pane.columns if column.name != "trend"]  # of which one look has none
    placed = place(columns, rows, width, setting)
    lines = [title_line(placed, setting, None)] if rows else []
    for entry in pane.entries:
        if entry.row is not None:
            lines.append(row_line(placed, entry.row, setting))
        elif entry.heading is not None:
            lines.append(entry.heading)
    return lines


def was_read(view: View) -> bool:
    """Whether anything was."""
    if view.error is not None:
        return False
    return view.overview is not None or any(node.read and node.error is None for node in view.nodes)


# --- document ------------------------------------------------------------
# One look as JSON, for scripts. What a node said is handed on as it said it: a snapshot's own wire format, a
# fleet's own rows.
#
# `schema` is `major.minor`: a new key raises the minor, a changed meaning the major.


SCHEMA = "1.0"


def document(view: View) -> dict[str, Any]:
    made: dict[str, Any] = {"schema": SCHEMA, "kind": view.kind.value, "at": view.at}
    if view.kind is Kind.FLEET:
        made |= {"source": view.title, "error": view.error}
        if view.overview is not None:
            return made | dict(view.overview.documents)
        return made | {"nodes": [_node(node, "node") for node in view.nodes]}
    return made | {"nodes": [_node(node, "snapshot") for node in view.nodes]}


def _node(node: NodeView, key: str) -> dict[str, Any]:
    return {"source": node.source, "error": node.error, "age_seconds": node.age_seconds, key: node.document}
