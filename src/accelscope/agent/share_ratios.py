"""The setting `shares`: into how many shares devices are cut, by device and by model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from accelscope.attribution.ratio_file import RatioError, parse_ratio
from accelscope.config import BadValue, Kind, Node

_PARTS = ("devices", "models")


@dataclass(frozen=True, slots=True)
class ShareRatios:
    devices: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    models: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class _Shares(Kind[ShareRatios]):
    allowed = "two tables of ratios: devices (id, uuid, serial, PCI address or index) and models (patterns)"
    textual = False

    def parse_node(self, node: Node) -> ShareRatios:
        if not isinstance(node, Mapping):
            raise BadValue
        unknown = sorted(set(node) - set(_PARTS))
        if unknown:
            raise BadValue(f"{unknown[0]} is none of {' and '.join(_PARTS)}")
        return ShareRatios(**{part: _ratios(part, node[part]) for part in _PARTS if part in node})

    def text(self, value: ShareRatios) -> str:
        del value
        return ""


def _ratios(part: str, node: Node) -> Mapping[str, float]:
    if not isinstance(node, Mapping):
        raise BadValue(f"{part} is not a table of names and ratios")
    ratios = {}
    for name, ratio in node.items():
        if not isinstance(ratio, str):
            raise BadValue(f"{part}: the ratio of {name} is not a number")
        try:
            ratios[name] = parse_ratio(ratio)
        except RatioError as error:
            raise BadValue(f"{part}: {name}: {error}") from None
    return MappingProxyType(ratios)


SHARES = _Shares()
NO_SHARES = ShareRatios()
