"""One view as plain text or JSON, for pipes and scripts."""

from collections.abc import Iterable
from typing import Any

from accelscope.top.view.frame import Choices, Pane, alerts, header, panes
from accelscope.top.view.model import NodeView, View, ViewKind
from accelscope.top.view.table import Line, RenderContext, Span, Tone, place, plain, row_line, title_line
from accelscope.top.view.text import clean, cut

WIDE = 240  # columns if the width of the output is unknown


def page(view: View, choices: Choices, context: RenderContext, width: int) -> str:
    return "".join(f"{line}\n" for line in _lines(view, choices, context, width))


def _lines(view: View, choices: Choices, context: RenderContext, width: int) -> Iterable[str]:
    found = alerts(view, context)
    yield from map(plain, header(view, found, context, width, ""))
    for alert in found:
        yield cut(f"{context.glyphs.alert} {clean(alert.text, context.glyphs)}", width, context.glyphs)
    for pane in panes(view, choices, context):
        yield ""
        yield from map(plain, table(pane, context, width))


def table(pane: Pane[Any], context: RenderContext, width: int) -> list[Line]:
    rows = pane.rows
    if not rows and not pane.entries:
        return [[Span(pane.empty, Tone.DIM)]]
    columns = [column for column in pane.columns if column.name != "trend"]  # needs several readings
    placed = place(columns, rows, width, context)
    lines = [title_line(placed, context, None)] if rows else []
    for entry in pane.entries:
        if entry.row is not None:
            lines.append(row_line(placed, entry.row, context))
        elif entry.heading is not None:
            lines.append(entry.heading)
    return lines


def was_read(view: View) -> bool:
    """Whether anything could be read."""
    if view.error is not None:
        return False
    return view.overview is not None or any(node.read and node.error is None for node in view.nodes)


SCHEMA = "1.0"  # major.minor: a new key increments the minor version, a changed meaning the major version


def document(view: View) -> dict[str, Any]:
    """For --json. The documents of agents and fleets are included unchanged."""
    made: dict[str, Any] = {"schema": SCHEMA, "kind": view.kind.value, "at": view.at}
    if view.kind is ViewKind.FLEET:
        made |= {"source": view.title, "error": view.error}
        if view.overview is not None:
            return made | dict(view.overview.documents)
        return made | {"nodes": [_node(node, "node") for node in view.nodes]}
    return made | {"nodes": [_node(node, "snapshot") for node in view.nodes]}


def _node(node: NodeView, key: str) -> dict[str, Any]:
    return {"source": node.source, "error": node.error, "age_seconds": node.age_seconds, key: node.document}
