"""The documents of amd-smi: one tree for each GPU, whichever version wrote it and in whichever form."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from accelscope.model import Device
from accelscope.parsing.parsed import Parsed, ParseError
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.amd import indented, json_text, messages, quantities
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.kfd import slot_of

Tree = Mapping[str, object]

_MISSING = object()
_MOST_LEAVES = 4096


def gpus(
    text: str, rejected: Rejections, *, leave_out: str | None = None
) -> tuple[list[Tree], ParseError | None]:
    """The trees, in the order of the output, without those in the table `leave_out`. A tool that watches
    prints a GPU again and again."""
    found: list[Tree] = []
    error = None
    read_any = False
    for document in json_text.documents(text):
        read_any = True
        error = error or messages.error_in_document(document.value)
        found.extend(_entries(document.value, leave_out))
        if not document.whole:
            rejected.add("the document is cut off", "truncated")
    if not read_any:
        found.extend(indented.indented_gpus(text))
    if found:
        return found, None
    if error is None and read_any:
        cut = bool(rejected.listed())
        reason = "truncated" if cut else "no_devices"
        error = ParseError(reason, "the document is cut off" if cut else "the document names no GPU")
    return found, error


def _entries(document: object, leave_out: str | None) -> Iterator[Tree]:
    """ROCm 6 prints a list, ROCm 7 an object that holds it; a tool asked for one GPU may print that alone."""
    if isinstance(document, list):
        for entry in document:
            if isinstance(entry, dict) and "gpu" in entry:
                yield entry
            elif isinstance(entry, dict | list):
                yield from _entries(entry, leave_out)
    elif isinstance(document, dict):
        if "gpu" in document:
            yield document
            return
        for name, member in document.items():
            if isinstance(member, list) and name != leave_out:
                yield from _entries(member, leave_out)


def parsed(text: str, tool: str, draft_of: Callable[[Tree], AmdDraft]) -> Parsed:
    """The devices of an output: the last that is said of each."""
    rejected = Rejections()
    trees, error = gpus(text, rejected)
    drafts: dict[int, AmdDraft] = {}
    for tree in trees:
        index = quantities.count(quantities.text_of(tree["gpu"]) or "")
        if index is None:
            rejected.add(f"gpu: {str(tree['gpu'])[:100]}", "no_identity")
            continue
        draft = draft_of(tree)
        if not draft.values and not draft.absences:
            rejected.add(f"GPU {index}", "nothing_told")  # of another command of the tool
            continue
        draft.put("index", index)
        drafts[index] = draft
        rejected.extend(draft.rejected)
    if not drafts and error is None:
        error = messages.no_reading(text, tool)
        rejected.clear()
    return Parsed(devices=devices_of(list(drafts.values())), error=error, rejected=rejected.listed())


def devices_of(drafts: list[AmdDraft]) -> tuple[Device, ...]:
    """A partition shows the ids of its GPU, or only the GPU's address. All but the first get a number under
    the GPU's id: the one that the tool prints, else the next that is free."""
    gpus: dict[str, AmdDraft] = {}  # by slot, the partition with the lowest number
    for draft in sorted(drafts, key=lambda draft: draft.partition or 0):
        if (address := draft.values.get("pci_address")) is not None:
            gpus.setdefault(slot_of(address), draft)
    used: set[tuple[str, int]] = set()
    free: dict[str, int] = {}  # the lowest number that may be free
    devices = []
    for draft in drafts:
        address = draft.values.get("pci_address")
        whole = draft if address is None else gpus[slot_of(address)]
        same = draft.values.get("uuid", whole.values.get("uuid")) == whole.values.get("uuid")
        of_gpu = _id_of_gpu(whole if same else draft)
        number = (draft.partition or 0) if draft.is_identified else 0
        if (of_gpu, number) in used:
            number = free.get(of_gpu, 0)
            while (of_gpu, number) in used:
                number += 1
            free[of_gpu] = number + 1
        used.add((of_gpu, number))
        devices.append(draft.device(f"{of_gpu}/{number}" if number else of_gpu))
    return tuple(devices)


def _id_of_gpu(draft: AmdDraft) -> str:
    """Some tools print the number of a partition as the function of its address. The GPU itself has function
    0, also where its first partition is not listed."""
    address = draft.values.get("pci_address")
    if address is None or not draft.partition or not address.endswith(f".{draft.partition}"):
        return draft.id
    return replace(draft, values={**draft.values, "pci_address": f"{slot_of(address)}.0"}).id


def at(tree: Tree, path: str) -> object:
    """What stands at a path. A group may be a word as a whole (`"usage": "N/A"`): that is said of all that
    would be in it."""
    here: object = tree
    for name in path.split("."):
        if not isinstance(here, dict):
            return here if isinstance(here, str) else _MISSING
        if name not in here:
            return _MISSING
        here = here[name]
    return here


def take(
    draft: AmdDraft, tree: Tree, path: str, place: str, read: quantities.Read, *, source: str | None = None
) -> None:
    """Read a leaf into its place, if the document has it."""
    leaf = at(tree, path)
    text = None if leaf is _MISSING else quantities.text_of(leaf)
    if text is not None:
        draft.take(place, text, read, source or path)


def group(tree: Tree, name: str) -> Tree:
    """A group, empty where the document has it not or has a word in its place."""
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


def is_zero(leaf: object) -> bool:
    text = quantities.text_of(leaf)
    return text is not None and quantities.hertz(text) == 0


def leaves(node: object) -> Iterator[str]:
    """The texts of all leaves below, however they are grouped."""
    waiting, given = [node], 0
    while waiting and given < _MOST_LEAVES:
        here = waiting.pop()
        text = quantities.text_of(here)
        if text is not None:
            given += 1
            yield text
        elif isinstance(here, dict):
            waiting.extend(reversed([member for name, member in here.items() if name != "unit"]))
        elif isinstance(here, list):
            waiting.extend(reversed(here))
