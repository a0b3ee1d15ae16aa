"""`furiosactl list [--format json|yaml]`: a card's device files, and which of its cores are occupied."""

import re
from collections.abc import Iterable, Iterator, Mapping

from accelscope.model import Core
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.readers.furiosa import cells, messages
from accelscope.readers.furiosa.devfiles import core_file
from accelscope.readers.furiosa.documents import read_documents
from accelscope.readers.furiosa.draft import Draft, text_of
from accelscope.readers.furiosa.occupancy import core_occupancy, status_is_occupied
from accelscope.readers.furiosa.tables import Line, filled_downwards, read_table

TOOL = "furiosactl list"


def parse(text: str) -> Parsed:
    rejected = Rejections()
    text = text.lstrip("\ufeff")
    drafts: dict[str, Draft] = {}
    documents = read_documents(text, rejected)
    if documents is not None:
        for fields in documents.objects:
            held, files = dict(_held_cores(fields.get("cores"))), fields.get("devfiles")
            names = [text_of(name) for name in files] if isinstance(files, list) else []
            _take(drafts, rejected, fields.get("npu", fields.get("device")), held, names)
    else:
        table = read_table(text, _is_list, rejected)
        if not table.found:
            return Parsed(error=messages.no_reading(text, TOOL))
        for block in table.blocks:
            for row in filled_downwards(block, "npu"):
                names = re.split(r"[\s,]+", row.get("devfiles", row.get("devname", "")).strip())
                _take(drafts, rejected, row["npu"], _of_row(row, rejected), names)
    if not drafts and rejected.listed():
        return Parsed(error=messages.no_reading(text, TOOL), rejected=rejected.listed())
    return Parsed(devices=tuple(draft.device() for draft in drafts.values()), rejected=rejected.listed())


def _is_list(columns: frozenset[str]) -> bool:
    return "npu" in columns and bool(columns & {"devname", "devfiles", "cores"})


def _take(
    drafts: dict[str, Draft],
    rejected: Rejections,
    npu: object,
    held: Mapping[int, bool | None],
    files: Iterable[str],
) -> None:
    draft = Draft()
    draft.take_all({"npu": text_of(npu)})
    name = draft.values.get("device_name")
    if name is None:
        rejected.add(f"npu: {text_of(npu)}", "no_identity")
        return
    draft = drafts.setdefault(name, draft)
    for index, occupied in held.items():
        draft.cores[index] = Core(index, occupied=occupied)
    opening = tuple(file.name for file in map(core_file, files) if file is not None)
    if opening:
        draft.values["device_files"] = (*draft.values.get("device_files", ()), *opening)


def _held_cores(value: object) -> Iterator[tuple[int, bool | None]]:
    for core in value if isinstance(value, list) else ():
        index = cells.count(text_of(core.get("idx"))) if isinstance(core, Mapping) else None
        if index is not None and index < 1000:
            yield index, status_is_occupied(str(core.get("status", "")))


def _of_row(row: Line, rejected: Rejections) -> dict[int, bool | None]:
    held = core_occupancy(row.get("cores", ""))
    if held or "devname" not in row:
        return held
    file = core_file(row["devname"])
    if file is None:
        rejected.add(f"devname: {row['devname']}", "unreadable")
        return {}
    if len(file.cores) != 1:
        return {}  # a fusion cannot be opened either when only one of its cores is held
    return {file.cores[0]: status_is_occupied(row.get("status", ""))}
