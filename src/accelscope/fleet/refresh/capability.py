"""Whether a cluster has accelerators, by its Node objects."""

import re
from collections.abc import Iterable

from accelscope.fleet.api_server.objects import NodeObject
from accelscope.vendors import declarations

# What device plugins, operators, discovery and our own agent write.
_LABEL = re.compile(
    "|".join(
        pattern
        for name, vendor in declarations().items()
        for pattern in (rf"accelscope\.io/{name}\.count", *vendor.node_labels)
    ),
    re.ASCII,
)
_NO = frozenset({"false", "0"})


def has_accelerators(nodes: Iterable[NodeObject]) -> bool:
    return any(any(node.accelerators.values()) or _is_labelled(node) for node in nodes)


def _is_labelled(node: NodeObject) -> bool:
    return any(value not in _NO and _LABEL.fullmatch(label) for label, value in node.labels.items())
