"""`furiosa-smi info [--format full|json]` and `furiosactl info [--full|--format json]`: a row per card."""

from collections.abc import Mapping

from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.readers.furiosa import messages
from accelscope.readers.furiosa.documents import read_documents
from accelscope.readers.furiosa.draft import Draft, with_unique_ids
from accelscope.readers.furiosa.tables import read_table

_MEASURED = frozenset({"temp", "power", "pci_bdf", "firmware"})


def parse(text: str, tool: str) -> Parsed:
    rejected = Rejections()
    text = text.lstrip("\ufeff")
    documents = read_documents(text, rejected)
    if documents is not None:
        rows: list[Mapping[str, object]] = list(documents.objects)
    else:
        table = read_table(text, lambda columns: bool(columns & _MEASURED), rejected)
        if not table.found:
            return Parsed(error=messages.no_reading(text, tool))
        rows = [row for block in table.blocks for row in block]
    drafts: list[Draft] = []
    for row in rows:
        draft = Draft()
        draft.take_all(row)
        if draft.identified:
            drafts.append(draft)
            rejected.extend(draft.rejected)
        else:
            rejected.add(str(dict(row)), "no_identity")
    if not drafts and rejected.listed():
        return Parsed(error=messages.no_reading(text, tool), rejected=rejected.listed())
    devices = with_unique_ids([draft.device() for draft in drafts])
    return Parsed(devices=devices, rejected=rejected.listed())
