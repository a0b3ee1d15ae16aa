"""`npu-smi info -m`: which chip of which NPU has which number in the runtime and in `/dev`."""

import re

from accelscope.model import Device
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.readers.ascend import cells, messages
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.key_values import CONTROLLERS

TOOL = "npu-smi info -m"

_LINE_LIMIT = 1000
_MOST_CHIPS = 4096
_COLUMN = re.compile(r"npu id|slot id|chip id|chip logic id|chip phy-id|chip name|\S+", re.IGNORECASE)


def parse(text: str) -> Parsed:
    columns: tuple[str, ...] = ()
    devices: list[Device] = []
    rejected = Rejections()
    for line in text.lstrip("\ufeff").split("\n"):
        bare = line.strip()
        if not bare or len(bare) > _LINE_LIMIT:
            continue
        names = _columns(bare)
        if "npu id" in names:
            columns = names
        elif columns:
            draft = _chip(bare, columns, rejected)
            if draft is not None and len(devices) < _MOST_CHIPS:
                devices.append(draft.device())
                rejected.extend(draft.rejected)
    if not devices:
        return Parsed(error=messages.no_reading(text, TOOL), rejected=rejected.listed())
    return Parsed(devices=tuple(devices), rejected=rejected.listed())


def _columns(line: str) -> tuple[str, ...]:
    """Columns are as wide as their names, which hold single blanks."""
    if not line.casefold().startswith("npu id"):
        return ()
    return tuple(" ".join(match[0].casefold().split()) for match in _COLUMN.finditer(line))


def _chip(line: str, columns: tuple[str, ...], rejected: Rejections) -> Draft | None:
    """The name stands last and may hold blanks."""
    words = line.split(None, len(columns) - 1)
    if len(words) != len(columns):
        message = messages.message_of(line)
        rejected.add(line, message.reason if message else "not_a_row")
        return None
    values = dict(zip(columns, words, strict=True))
    board, chip = cells.count(values["npu id"]), cells.count(values.get("chip id", ""))
    if board is None or ("chip id" in values and chip is None):
        rejected.add(line, "not_a_row")
        return None
    name = values.get("chip name", "")
    if name.strip().casefold() in CONTROLLERS or values.get("chip logic id") == "-":
        return None
    draft = Draft(board, chip)
    draft.take("index", values.get("chip logic id"), cells.count, "Chip Logic ID")
    draft.take("physical_id", values.get("chip phy-id"), cells.count, "Chip Phy-ID")
    draft.take("model", name or None, cells.words, "Chip Name")
    return draft
