"""Tables and documents (JSON, YAML) that furiosa-smi and furiosactl print."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from accelscope.parsing import ParseError, Rejections, without_halves
from accelscope.vendors.common.values import after_blanks, decode_json, unrecognized_output

# Tables that furiosa-smi and furiosactl draw: `|` between cells, rules of `+---+` between rows.
#
# Columns are found by the names in the header. A *block* is the lines between two rules: the row of a device,
# or several lines of one device if a cell has a line per core. Rules may be missing.

Line = dict[str, str]  # cells by the name of their column

_MOST_COLUMNS = 64
_MOST_EXTRA_CELLS = 1000  # bars in a command line
_LONGEST_LINE = 100_000
_FRAME = re.compile(r"[\s|+=:_─━═┄┅┈┉╌╍┼╪╬┌┐└┘├┤┬┴╞╡╒╕╘╛╔╗╚╝╠╣╦╩╭╮╯╰-]+")
_BARS = str.maketrans("│┃║┆┇┊┋╎╏", "|||||||||")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")

# Columns of all versions of all sub-commands; a line with them is a header.
_NAMES = frozenset(
    {
        *("index", "arch", "device", "npu", "name", "uuid", "s_n", "firmware", "pert", "temp", "power"),
        *("clock", "core_clock", "memory_clock", "governor", "pci_bdf", "pci_dev"),
        *("liveness", "memory", "cores", "core_utilization"),
        *("devname", "type", "status", "devfiles"),
        *("pid", "npu_core", "cmd", "numa_node"),
    }
)


def column_name(text: str) -> str:
    """One spelling for table headers and JSON keys: `PCI-BDF` and `pci_bdf`, `Temp.` and `temp`."""
    return _NOT_IN_NAMES.sub("_", text.strip().casefold()).strip("_")


@dataclass(slots=True)
class Table:
    """Blocks of the tables that `wanted` accepts by their columns."""

    blocks: list[list[Line]] = field(default_factory=list)
    found: bool = False  # there was an accepted header


def read_table(
    text: str, wanted: Callable[[frozenset[str]], bool], rejected: Rejections, *, free_text: str = ""
) -> Table:
    """`free_text`: the column whose cells may contain bars."""
    table = Table()
    columns: list[str] | None = None
    block: list[Line] = []
    lines = text.lstrip("\ufeff").translate(_BARS).split("\n")
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if not line:
            continue
        if _FRAME.fullmatch(line):
            block = []
            continue
        # The last line was cut if it has no newline.
        not_a_row = "truncated" if number == len(lines) and line.startswith("|") else "not_a_row"
        cells = _cells(line)
        if cells is None:
            if columns is not None:
                rejected.add(line, not_a_row)
            continue
        header = _header(cells)
        if header is not None:
            columns = header if wanted(frozenset(header)) else None
            table.found = table.found or columns is not None
            block = []
            continue
        if columns is None:
            continue  # of a table that `wanted` did not accept
        row = _row(cells, columns, free_text)
        if row is None:
            rejected.add(line, not_a_row)
            continue
        if not block:
            table.blocks.append(block)
        block.append(row)
    return table


def filled_downwards(block: list[Line], column: str) -> Iterator[Line]:
    """The lines of a block, with the name that only the first line contains in each."""
    name = ""
    for row in block:
        name = row.get(column) or name
        yield {**row, column: name}


def _cells(line: str) -> list[str] | None:
    if len(line) < 2 or len(line) > _LONGEST_LINE or line[0] != "|" or line[-1] != "|":
        return None
    return [cell.strip() for cell in line[1:-1].split("|")]


def _header(cells: list[str]) -> list[str] | None:
    """Names of the columns, if at least half of them are known; other versions have further columns."""
    if len(cells) > _MOST_COLUMNS or any(len(cell) > 40 for cell in cells):
        return None
    names = [column_name(cell) for cell in cells]
    return names if 2 * sum(name in _NAMES for name in names) > len(names) else None


def _row(cells: list[str], columns: list[str], free_text: str) -> Line | None:
    extra = len(cells) - len(columns)
    if extra and (not 0 < extra <= _MOST_EXTRA_CELLS or free_text not in columns):
        return None
    if extra:
        start = columns.index(free_text)
        cells[start : start + extra + 1] = ["|".join(cells[start : start + extra + 1])]
    return dict(zip(columns, cells, strict=True))


Fields = Mapping[str, object]  # of one object, by the names of `column_name`

_OPENING = re.compile(r"^[ \t]*([\[{])", re.MULTILINE)
_YAML_ITEM = re.compile(r"^- [\w-]{1,40}:(?=\s|$)", re.MULTILINE | re.ASCII)
_EMPTY_YAML = re.compile(r"\A\s*---\s*\[\]\s*\Z")
_MOST_ATTEMPTS = 20  # log lines begin with brackets too
_MOST_OBJECTS = 100_000


@dataclass(frozen=True, slots=True)
class Documents:
    objects: tuple[Fields, ...]
    whole: bool = True  # False: the output ends within an object


def read_documents(text: str, rejected: Rejections) -> Documents | None:
    """The objects of the first document in the text; None: there is none."""
    text = without_halves(text)
    for attempt, opening in enumerate(_OPENING.finditer(text), 1):
        found = _from(text, opening.start(1), rejected)
        if found is not None:
            return found
        if attempt == _MOST_ATTEMPTS:
            break
    return _from_yaml(text, rejected)


def _from_yaml(text: str, rejected: Rejections) -> Documents | None:
    """Item by item, as with JSON."""
    if _EMPTY_YAML.search(text):
        return Documents(())
    starts = [match.start() for match in _YAML_ITEM.finditer(text)][:_MOST_OBJECTS]
    if not starts:
        return None

    objects: list[Fields] = []
    whole = True
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        fields = read_item(text[start:end])
        if fields is None:
            rejected.add(
                text[start : min(end, start + 500)], "truncated" if end == len(text) else "unreadable"
            )
            whole = False
        else:
            objects.append({column_name(key): value for key, value in fields.items()})
    return Documents(tuple(objects), whole=whole) if objects else None


def _from(text: str, start: int, rejected: Rejections) -> Documents | None:
    """Object by object, so that one that is cut off costs itself only."""
    position = start + 1 if text[start] == "[" else start
    objects: list[Fields] = []
    while len(objects) < _MOST_OBJECTS:
        position = after_blanks(text, position, commas=True)
        if text[position : position + 1] != "{":
            break
        decoded = decode_json(text, position)
        if decoded is None or not isinstance(decoded[0], dict):
            if not objects:
                return None
            rejected.add(text[position : position + 500], "truncated")
            return Documents(tuple(objects), whole=False)
        value, position = decoded[0], decoded[1]
        objects += [{column_name(key): item for key, item in one.items()} for one in _unwrapped(value)]
    ended = text[start] == "{" or text[position : position + 1] == "]"
    return Documents(tuple(objects), whole=ended) if objects or (ended and text[start] == "[") else None


def _unwrapped(value: dict[str, object]) -> list[dict[str, object]]:
    """The objects of a list that is the only member of an object: `{"devices": [{...}]}`."""
    if len(value) == 1:
        [inner] = value.values()
        if isinstance(inner, list) and inner and all(isinstance(one, dict) for one in inner):
            return inner
    return [value]


# --- yaml items ------------------------------------------------------------
# One item of a list in YAML, with texts for all values: YAML would read `511:0` as a number in base 60.


class _TextLoader(yaml.BaseLoader):
    """Rejects references: a small text could expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("a reference")
        return super().compose_node(parent, index)


def read_item(text: str) -> dict[str, object] | None:
    """None: not an item, or incomplete."""
    try:
        # The most limited class of loaders: it makes only texts, lists and dicts.
        read = yaml.load(text, Loader=_TextLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    match read:
        case [dict() as fields] if all(isinstance(key, str) for key in fields):
            return fields
    return None


# --- messages ------------------------------------------------------------
# Messages of furiosa-smi and furiosactl instead of a table or a document.
#
# They are recognised by the start of a line, or by words that no row contains. Each has a reason for
# counting; different reasons need different actions.


_LINES = 200  # a message is at the beginning
_LINE_LIMIT = 500

_REASONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"error while loading shared libraries|cannot open shared object", "library_missing"),
        (r"(?:furiosa-smi|furiosactl)\b.{0,200}(?:not found|no such file)", "tool_missing"),
        (r"executable file not found", "tool_missing"),
        (
            r"unexpected argument|wasn't expected|unrecognized (?:sub)?command|invalid (?:sub)?command"
            r"|unrecognized option|invalid value .{0,100} for|^usage:\s*\S",
            "unknown_option",
        ),
        (r"permission denied|operation not permitted|must be root|requires? root", "no_permission"),
        (r"incompatible driver|driver version mismatch|version mismatch", "version_mismatch"),
        (
            r"(?:driver|module).{0,60}not (?:loaded|installed|found)|no (?:such )?driver",
            "driver_not_loaded",
        ),
        (r"no (?:such )?(?:furiosa )?(?:devices?|npus?)\b|(?:device|npu)s? not found", "no_devices"),
        (r"device (?:is )?busy|resource busy", "device_busy"),
        (r"timed out|\btimeout\b", "timeout"),
        (r"^(?:error|failed|fatal|panicked|thread '.{0,100}' panicked)\b", "driver_error"),
        (r"\b(?:io|internal|unknown|context|uninitialized|unexpected value) error\b", "driver_error"),
    )
)


def reason_of(line: str) -> str | None:
    """The reason of a line that is a message, otherwise None."""
    bare = line.strip("\ufeff \t\r\n")[:_LINE_LIMIT]
    if not bare or bare[0] in "|+":
        return None
    return next((reason for pattern, reason in _REASONS if pattern.search(bare)), None)


def error_of(text: str) -> ParseError | None:
    """The message in an output, or None; of several messages, the most specific one."""
    found: ParseError | None = None
    for line in text[: _LINES * _LINE_LIMIT].split("\n")[:_LINES]:
        reason = reason_of(line)
        if reason is not None and (found is None or found.reason == "driver_error" != reason):
            found = ParseError(reason, line.strip()[:_LINE_LIMIT])
    return found


def no_reading(text: str, tool: str) -> ParseError:
    """Why an output without a table or a document is not a reading."""
    return error_of(text) or unrecognized_output(text, tool)
