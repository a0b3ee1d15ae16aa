"""Command lines in outputs, cut down to the program's name: arguments hold secrets, paths name people.

Text in, text out. The usual forms are known here and looked for in every output, whoever's it is: a new tool
must not need an entry in a list for its secrets to be hidden. The width of tables is kept.
"""

import re
from collections.abc import Callable, Sequence

from accelscope.parsing.registry import sources
from accelscope.vendors.common.values import program_in_title

# Tools do not escape what is in it; an output that was cut off may end in it.
_XML = re.compile(r"(<process_name>)([^<]*(?:<(?!/?process_name>)[^<]*)*)(</process_name>|\Z)")
_JSON_KEYS = r"cmd|cmdline|command|command_line|process_name"
_JSON = re.compile(rf'("(?:{_JSON_KEYS})"\s*:\s*")((?:[^"\\]|\\.)*)(")', re.IGNORECASE)
_JSON_NAME = re.compile(r'("name"\s*:\s*")((?:[^"\\]|\\.)*)(")')
_PID_KEY = re.compile(r'("PID[0-9]+"\s*:\s*")((?:[^"\\]|\\.)*?)((?:,[^,"]*){4}")')
_KEY_VALUE = re.compile(r"(Process name[ \t]*:[ \t]*)(.*?)([ \t]*(?:Process memory.*)?)$", re.MULTILINE)
_INDENTED = re.compile(r"^([ \t]+NAME:[ \t]*)(.*?)([ \t]*)$", re.MULTILINE)
_ENVIRONMENT = re.compile(r"^\s*(?:[A-Za-z_]\w*=\S*(?:\s+|$))+")  # `TOKEN=secret python3`
# Printed instead of a name, in brackets or without. They hold blanks or a slash and would be cut.
_NO_NAME = re.compile(
    r"(?:n/a|no data|(?:function )?not found|not supported|not available|no permission"
    r"|insufficient permissions|unknown error|gpu is lost|gpu requires reset|driver not loaded)[.]?",
    re.IGNORECASE,
)
_HEADINGS = frozenset({"cmd", "command", "process name", "process_name"})


def without_command_lines(source: str, text: str) -> str:
    for pattern in (_XML, _JSON, _PID_KEY, _KEY_VALUE):
        text = pattern.sub(_shortened, text)
    kind = sources().get(source)
    if kind is None or not kind.names_devices:
        text = _INDENTED.sub(_shortened, _JSON_NAME.sub(_shortened, text))
    if kind is not None and kind.hide_command_lines is not None:
        return kind.hide_command_lines(text)
    return _tables(text)


def _shortened(match: "re.Match[str]") -> str:
    return f"{match[1]}{_program(match[2])}{match[3]}"


def _program(title: str) -> str:
    command = _ENVIRONMENT.sub("", title).strip()
    if _NO_NAME.fullmatch(command.removeprefix("[").removesuffix("]").strip()):
        return command
    return program_in_title(command) or command


def _tables(text: str) -> str:
    """Tables with commas or bars: the cells below a heading that names the program."""
    lines = text.splitlines(keepends=True)
    for mark in (",", "|"):
        place, width = None, 0
        for number, line in enumerate(lines):
            body = line.rstrip("\r\n")
            cells = body.split(mark)
            if len(cells) < 3:
                continue
            heading = next((n for n, cell in enumerate(cells) if cell.strip().lower() in _HEADINGS), None)
            if heading is not None:
                place, width = heading, len(cells)
            elif place is not None and len(cells) >= width:
                lines[number] = _row(cells, place, width, mark) + line[len(body) :]
    return "".join(lines)


def _row(cells: Sequence[str], place: int, width: int, mark: str) -> str:
    """A command may hold the mark itself: what is too much belongs to it."""
    extra = len(cells) - width
    command = mark.join(cells[place : place + extra + 1])
    fill: Callable[[str], str] = (lambda cell: cell.ljust(len(command))) if mark == "|" else str
    lead = command[: len(command) - len(command.lstrip())]
    return mark.join([*cells[:place], fill(lead + _program(command)), *cells[place + extra + 1 :]])
