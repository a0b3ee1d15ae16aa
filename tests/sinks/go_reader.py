"""The annotation of chips, read as strictly as Go's encoding/json reads it into a struct."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHIP: Mapping[str, str] = {
    "npu": "int",
    "chip": "int",
    "phy_id": "int",
    "bus_id": "string",
    "health": "string",
    "power": "float64",
    "temp": "int",
    "aicore": "int",
    "hbm_used": "int",
    "hbm_total": "int",
}


class GoError(Exception):
    pass


class _Literal(str):
    """A number as it is written: Go decides by that."""


def decode_chips(text: str) -> list[dict[str, Any]]:
    """As Go reads it into a struct, with unknown fields refused: a number with a fraction or exponent does
    not fit into an int, null is no value, and one wrong field costs the whole document."""

    def refuse(word: str) -> None:
        raise GoError(f"invalid character in {word}")

    document = json.loads(text, parse_float=_Literal, parse_int=_Literal, parse_constant=refuse)
    if list(document) != ["timestamp", "chips"]:
        raise GoError(f"unknown field in {list(document)}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["timestamp"]):
        raise GoError("not RFC 3339")
    return [_chip(entry) for entry in document["chips"]]


def _chip(entry: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, value in entry.items():
        kind = CHIP.get(name)
        if kind is None:
            raise GoError(f"unknown field {name}")
        if kind == "string":
            if type(value) is not str:
                raise GoError(f"{name} is not a string")
            read[name] = value
        elif not isinstance(value, _Literal):
            raise GoError(f"{name} is not a number")
        elif kind == "int":
            if not re.fullmatch(r"-?(0|[1-9][0-9]*)", value):
                raise GoError(f"cannot unmarshal number {value} into {name} of type int")
            read[name] = int(value)
            if not -(2**63) <= read[name] < 2**63:
                raise GoError(f"number {value} does not fit into {name}")
        else:
            read[name] = float(value)
    return read


@dataclass(frozen=True)
class NodeLine:
    """What the old reader shows of a node. Go decodes a number that is missing as 0."""

    status: str
    temp: int  # mean, °C
    power: int  # sum, W
    aicore: float  # mean, %
    hbm_used: int  # sum, MB
    hbm_total: int
    ids: tuple[int, ...]  # `phy_id` of each row
    updated: str


def node_line(text: str) -> NodeLine:
    """Whole numbers, and a chip is healthy if its health is OK."""
    chips = decode_chips(text)

    def values(name: str) -> list[Any]:
        return [chip.get(name, 0) for chip in chips]

    healthy = [chip.get("health") == "OK" for chip in chips]
    count = max(len(chips), 1)
    return NodeLine(
        status="Healthy" if all(healthy) else "Warning" if any(healthy) else "Unhealthy",
        temp=int(sum(values("temp")) / count),
        power=int(sum(values("power"))),
        aicore=sum(values("aicore")) / count,
        hbm_used=sum(values("hbm_used")),
        hbm_total=sum(values("hbm_total")),
        ids=tuple(values("phy_id")),
        updated=json.loads(text)["timestamp"],
    )
