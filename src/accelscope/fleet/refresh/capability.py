"""Whether a cluster has accelerators, by its Node objects."""

import re
from collections.abc import Iterable

from accelscope.fleet.api_server.objects import NodeObject

# What device plugins, operators and discovery write; of PCI vendors alone only those that make nothing else.
_LABEL = re.compile(
    r"nvidia\.com/gpu\.(?:present|product|count)"
    r"|(?:beta\.)?amd\.com/gpu\..+"
    r"|feature\.node\.kubernetes\.io/amd-v?gpu"
    r"|accelerator/huawei-npu"
    r"|accelscope\.io/(?:nvidia|amd|ascend|furiosa)\.count"
    r"|(?:beta\.)?furiosa\.ai/npu\.(?:count|product|family)"
    r"|feature\.node\.kubernetes\.io/pci-(?:10de|1ed2|12[0-9a-f]{2}_(?:1002|19e5|1ed2)|03[0-9a-f]{2}_(?:1002|10de))\.present",
    re.ASCII,
)
_NO = frozenset({"false", "0"})


def has_accelerators(nodes: Iterable[NodeObject]) -> bool:
    return any(any(node.accelerators.values()) or _is_labelled(node) for node in nodes)


def _is_labelled(node: NodeObject) -> bool:
    return any(value not in _NO and _LABEL.fullmatch(label) for label, value in node.labels.items())
