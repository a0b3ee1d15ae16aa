"""The output of amd-smi and rocm-smi: JSON, indented text and messages.

JSON and indented text of amd-smi become the same trees, one for each GPU, so that one mapping of paths serves
both. `find_error` finds the reason in an output without values.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from accelscope.model import Device
from accelscope.parsing import ParseError, ParseResult, Rejections, without_halves
from accelscope.vendors.amd import quantities
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.drm import slot_of
from accelscope.vendors.common.values import after_blanks, decode_json, unrecognized_output

# Indented text, which amd-smi prints without --json: a block of nested names and values for each GPU. It
# becomes the tree of --json: names in lower case, values as text.

_LINE = re.compile(r"( *)([A-Za-z][A-Za-z0-9_ %/.-]{0,60}):(?: +(.+))?", re.ASCII)
_GPU = re.compile(r"GPU: +[0-9]{1,6}", re.ASCII)
_LONGEST = 4000
_MOST_LINES = 200_000
_DEEPEST = 12

IndentedTree = dict[str, object]


def _indented_gpus(text: str) -> list[IndentedTree]:
    """One tree for each `GPU: n`; empty if the text is something else."""
    found: list[IndentedTree] = []
    open_groups: list[tuple[int, IndentedTree]] = []  # the groups that contain the line, with their indents
    for line in _whole_lines(text):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        indent, name, value = len(match[1]), match[2].strip().lower().replace(" ", "_"), match[3]
        if indent == 0:
            if not _GPU.fullmatch(line):
                open_groups = []
                continue
            found.append({"gpu": value})
            open_groups = [(0, found[-1])]
            continue
        while len(open_groups) > 1 and open_groups[-1][0] >= indent:
            open_groups.pop()
        if not open_groups or len(open_groups) > _DEEPEST:
            continue
        member: object = {} if value is None else _value(value)
        _add(open_groups[-1][1], name, member)
        if isinstance(member, dict):
            open_groups.append((indent, member))
    return found


def _add(group: IndentedTree, name: str, member: object) -> None:
    """A repeated name, such as PROCESS_INFO, becomes a list."""
    if name not in group:
        group[name] = member
        return
    before = group[name]
    if isinstance(before, list):
        before.append(member)
    else:
        group[name] = [before, member]


def _value(text: str) -> object:
    if text.startswith("[") and text.endswith("]"):
        return [item.strip() for item in text[1:-1].split(",")]
    return text


def _whole_lines(text: str) -> Iterator[str]:
    """Join the lines of a list that is wrapped before its closing bracket."""
    begun = ""
    for number, raw in enumerate(text.lstrip("\ufeff").split("\n")):
        if number >= _MOST_LINES:
            return
        line = raw.rstrip("\r \t")
        if begun:
            line = f"{begun} {line.strip()}"
        if len(line) > _LONGEST:
            begun = ""
            continue
        value = line.partition(": ")[2].strip()
        if value.startswith("[") and not value.endswith("]"):
            begun = line
            continue
        begun = ""
        yield line


# JSON as AMD's tools print it: after warnings, several documents in watch mode, possibly truncated.

_OPENING = re.compile(r"^[ \t\ufeff]*([\[{])", re.MULTILINE)
_MOST_ATTEMPTS = 50  # warnings may begin with a bracket too
_MOST_DOCUMENTS = 1000


@dataclass(frozen=True, slots=True)
class Document:
    value: object
    complete: bool = True  # False if the output ends within it; `value` contains the complete members


def json_documents(text: str) -> Iterator[Document]:
    """All documents of an output, in order."""
    text = without_halves(text)
    position = attempts = found = 0
    while attempts < _MOST_ATTEMPTS and found < _MOST_DOCUMENTS:
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        start = opening.start(1)
        decoded = decode_json(text, start)
        if decoded is None:
            partial = _complete_members(text, start)
            if partial is not None:
                yield Document(partial, complete=False)
                return
            attempts += 1
            position = opening.end()
            continue
        found += 1
        value, position = decoded
        yield Document(value)


def _complete_members(text: str, start: int, depth: int = 2) -> object | None:
    """The complete members of a truncated document: GPUs before the end are still readable. None if this is
    not the beginning of a document."""
    named = text[start] == "{"
    members: dict[str | int, object] = {}
    position = start + 1
    while True:
        key: str | int = len(members)
        if named:
            found = _decode_key(text, position)
            if found is None:
                break
            key, position = found
        position = after_blanks(text, position)
        decoded = decode_json(text, position)
        if decoded is None:
            if depth and text[position : position + 1] in ("{", "["):
                nested = _complete_members(text, position, depth - 1)
                members.update({} if nested is None else {key: nested})
            break
        value, end = decoded
        end = after_blanks(text, end)
        followed = text[end : end + 1] == ","
        if followed or isinstance(value, dict | list):  # a number at the end may lack digits
            members[key] = value
        if not followed:
            break
        position = end + 1
    if not members:
        return None
    return members if named else list(members.values())


def _decode_key(text: str, position: int) -> tuple[str, int] | None:
    position = after_blanks(text, position)
    decoded = decode_json(text, position)
    if decoded is None or not isinstance(decoded[0], str):
        return None
    colon = after_blanks(text, decoded[1])
    return (decoded[0], colon + 1) if text[colon : colon + 1] == ":" else None


# Messages that amd-smi and rocm-smi print instead of values, with a reason for each. Reasons are counted in
# metrics, and doctor has advice for each. Warnings before valid values are skipped.

_LINE_LIMIT = 500
_MOST_MESSAGE_LINES = 5000  # no message comes after that many lines

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"driver not (?:initialized|loaded)|amdgpu not found in modules", "driver_not_loaded"),
        (r"data is inaccessible|in a low-power state", "suspended"),
        (r"no json data to report|no csv data to report", "nothing_to_report"),
        (r"cannot print json/csv|NOT_SUPPORTED|not supported", "not_supported"),
        (
            r"unrecogni[sz]ed arguments?|invalid (?:command|parameter|argument)|is not recogni[sz]ed",
            "unknown_option",
        ),
        (r"permission denied|requires? (?:sudo|root)|no_perm|elevated permission", "no_permission"),
        (
            r"cannot open shared object|lib(?:amd_smi|rocm_smi64|drm)\S* (?:not found|cannot|could not)"
            r"|unable to (?:find|load|import).{0,80}(?:lib|amdsmi)|no module named",
            "library_missing",
        ),
        (
            r"(?:amd-smi|rocm-smi).{0,40}(?:command )?not found|no such file or directory",
            "tool_missing",
        ),
        (
            r"no (?:amd )?(?:gpus?|devices?)(?: devices?)? (?:were |was )?"
            r"(?:found|detected|available|specified)|unable to detect any gpu|not_found",
            "no_devices",
        ),
        (r"traceback \(most recent call last\)|exception", "tool_failed"),
        (
            r"^(?:error|expected integer value from monitor)|unable to|failed to|amdsmi_status_",
            "driver_error",
        ),
        # A warning that is usually printed before valid values. It is the reason only if there is no other.
        (r"missing the following required groups", "no_permission"),
    )
)
# Only lines with one of these are matched against the patterns: there may be a million lines.
_SIGN = re.compile(
    r"not|no |error|missing|unable|fail|invalid|permission|require|cannot|low-power|inaccessible|unrecogni"
    r"|traceback|exception|amdsmi_status_",
    re.IGNORECASE,
)

# A row of a table, or an aligned key and value: data, usually of another tool.
_CELLS = re.compile(r"[|+]|[A-Za-z][\w ()/-]{0,60} {2,}: ")

_WARNING = re.compile(
    r"data is inaccessible|in a low-power state|missing the following required groups", re.IGNORECASE
)
_BANNER = re.compile(r"[\s\ufeff]*(?:=+[^=]*=*)?\s*")  # an empty line, or a title between rulers


def find_error(text: str) -> ParseError | None:
    """The message that explains why there are no values. Of several messages the most specific one."""
    best: tuple[int, ParseError] | None = None
    for number, line in enumerate(text.lstrip("\ufeff").split("\n")):
        if number >= _MOST_MESSAGE_LINES:
            break
        bare = line.strip()[:_LINE_LIMIT]
        if not _SIGN.search(bare) or _CELLS.match(bare):
            continue
        for rank, (pattern, reason) in enumerate(_PATTERNS):
            if best is not None and rank >= best[0]:
                break
            if pattern.search(bare):
                best = rank, ParseError(reason, bare)
                break
    return best[1] if best else None


def no_devices_error(text: str, tool: str) -> ParseError:
    """Why an output contains no device. A warning is the reason only if the tool printed nothing else. Before
    a table or CSV, the reason is that the format is not the expected one."""
    error = find_error(text)
    if error is None:
        return unrecognized_output(text, tool)
    if _WARNING.search(error.text):
        printed = next((line for line in text.split("\n")[:_MOST_MESSAGE_LINES] if _is_payload(line)), None)
        if printed is not None:
            strange = unrecognized_output(printed, tool)
            return replace(strange, text=f"{strange.text}; preceded by: {error.text}")
    return error


def _is_payload(line: str) -> bool:
    return _BANNER.fullmatch(line) is None and find_error(line) is None


def find_document_error(document: object) -> ParseError | None:
    """With --json, amd-smi prints errors as JSON too: `{"error": "...", "code": -3}`."""
    if not isinstance(document, dict):
        return None
    text = document.get("error") or document.get("message")
    if not isinstance(text, str):
        return None
    known = find_error(text[:_LINE_LIMIT])
    return known or ParseError("driver_error", text.strip()[:_LINE_LIMIT])


# The trees of amd-smi, one for each GPU, from any version and in either format.

Tree = Mapping[str, object]

_MISSING = object()
_MOST_LEAVES = 4096


def gpu_trees(
    text: str, rejected: Rejections, *, leave_out: str | None = None
) -> tuple[list[Tree], ParseError | None]:
    """The trees in the order of the output, without those in the table `leave_out`. In watch mode, the output
    contains each GPU several times."""
    found: list[Tree] = []
    error = None
    read_any = False
    for document in json_documents(text):
        read_any = True
        error = error or find_document_error(document.value)
        found.extend(_entries(document.value, leave_out))
        if not document.complete:
            rejected.add("the document is truncated", "truncated")
    if not read_any:
        found.extend(_indented_gpus(text))
    if found:
        return found, None
    if error is None and read_any:
        if rejected.listed():
            error = ParseError("truncated", "the document is truncated")
        else:
            error = ParseError("no_devices", "the document contains no GPU")
    return found, error


def _entries(document: object, leave_out: str | None) -> Iterator[Tree]:
    """ROCm 6 prints a list, ROCm 7 an object that contains it. With --gpu the output may be one object."""
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


def parse_gpus(text: str, tool: str, make_draft: Callable[[Tree], AmdDraft]) -> ParseResult:
    """The devices of an output. If a GPU occurs several times, the last one is used."""
    rejected = Rejections()
    trees, error = gpu_trees(text, rejected)
    drafts: dict[int, AmdDraft] = {}
    for tree in trees:
        index = quantities.count(quantities.text_of(tree["gpu"]) or "")
        if index is None:
            rejected.add(f"gpu: {str(tree['gpu'])[:100]}", "no_identity")
            continue
        draft = make_draft(tree)
        if not draft.values and not draft.absences:
            rejected.add(f"GPU {index}", "nothing_told")  # from another command of the tool
            continue
        draft.put("index", index)
        drafts[index] = draft
        rejected.extend(draft.rejected)
    if not drafts and error is None:
        error = no_devices_error(text, tool)
        rejected.clear()
    return ParseResult(devices=build_devices(list(drafts.values())), error=error, rejected=rejected.listed())


def build_devices(drafts: list[AmdDraft]) -> tuple[Device, ...]:
    """A partition has the ids of its GPU, or only its address. All partitions but the first get a number
    after the GPU's id: the number that the tool prints, else the next free one."""
    gpus: dict[str, AmdDraft] = {}  # by slot, the partition with the lowest number
    for draft in sorted(drafts, key=lambda draft: draft.partition or 0):
        if (address := draft.values.get("pci_address")) is not None:
            gpus.setdefault(slot_of(address), draft)
    used: set[tuple[str, int]] = set()
    next_free: dict[str, int] = {}
    devices = []
    for draft in drafts:
        address = draft.values.get("pci_address")
        first = draft if address is None else gpus[slot_of(address)]
        same_gpu = draft.values.get("uuid", first.values.get("uuid")) == first.values.get("uuid")
        gpu_id = _gpu_id(first if same_gpu else draft)
        number = (draft.partition or 0) if draft.is_identified else 0
        if (gpu_id, number) in used:
            number = next_free.get(gpu_id, 0)
            while (gpu_id, number) in used:
                number += 1
            next_free[gpu_id] = number + 1
        used.add((gpu_id, number))
        devices.append(draft.device(f"{gpu_id}/{number}" if number else gpu_id))
    return tuple(devices)


def _gpu_id(draft: AmdDraft) -> str:
    """Some tools print the number of a partition as the PCI function. The GPU has function 0, even if its
    first partition is not listed."""
    address = draft.values.get("pci_address")
    if address is None or not draft.partition or not address.endswith(f".{draft.partition}"):
        return draft.id
    return replace(draft, values={**draft.values, "pci_address": f"{slot_of(address)}.0"}).id


def at(tree: Tree, path: str) -> object:
    """The value at a path. A whole group may be a word (`"usage": "N/A"`), which then is the value of all its
    members."""
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
    """Read a leaf into its place in the draft, if the document has it."""
    leaf = at(tree, path)
    text = None if leaf is _MISSING else quantities.text_of(leaf)
    if text is not None:
        draft.take(place, text, read, source or path)


def group(tree: Tree, name: str) -> Tree:
    """A group; empty if the document does not have it or has a word instead."""
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


def is_zero(leaf: object) -> bool:
    text = quantities.text_of(leaf)
    return text is not None and quantities.hertz(text) == 0


def leaves(node: object) -> Iterator[str]:
    """The texts of all leaves below a node."""
    waiting, count = [node], 0
    while waiting and count < _MOST_LEAVES:
        here = waiting.pop()
        text = quantities.text_of(here)
        if text is not None:
            count += 1
            yield text
        elif isinstance(here, dict):
            waiting.extend(reversed([member for name, member in here.items() if name != "unit"]))
        elif isinstance(here, list):
            waiting.extend(reversed(here))
