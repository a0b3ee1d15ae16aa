"""One look as JSON, for scripts. What a node said is handed on as it said it: a snapshot's own wire format, a
fleet's own rows.

`schema` is `major.minor`: a new key raises the minor, a changed meaning the major.
"""

from typing import Any

from accelscope.top.view.shown import Kind, NodeView, View

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
