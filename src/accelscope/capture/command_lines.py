"""Command lines in outputs, cut down to the program's name: arguments hold secrets, paths name people.

Pure: text in, text out. Each kind of output has its own place for them; the width of tables is kept.
"""

import re
from collections.abc import Callable, Sequence

from accelscope.readers.nvidia.programs import program_name

# nvidia-smi does not escape what is in it; an output that was cut off may end in it.
_XML = re.compile(r"(<process_name>)([^<]*(?:<(?!/?process_name>)[^<]*)*)(</process_name>|\Z)")
_JSON_KEYS = r"cmd|cmdline|command|command_line|process_name"
_JSON = re.compile(rf'("(?:{_JSON_KEYS})"\s*:\s*")((?:[^"\\]|\\.)*)(")', re.IGNORECASE)
_JSON_NAME = re.compile(r'("name"\s*:\s*")((?:[^"\\]|\\.)*)(")')
_ROCM = re.compile(r'("PID[0-9]+"\s*:\s*")((?:[^"\\]|\\.)*?)((?:,[^,"]*){4}")')
_KEY_VALUE = re.compile(r"(Process name[ \t]*:[ \t]*)(.*?)([ \t]*(?:Process memory.*)?)$", re.MULTILINE)
_INDENTED = re.compile(r"^([ \t]+NAME:[ \t]*)(.*?)([ \t]*)$", re.MULTILINE)
_ENVIRONMENT = re.compile(r"^\s*(?:[A-Za-z_]\w*=\S*(?:\s+|$))+")  # `TOKEN=secret python3`
_HEADINGS = frozenset({"cmd", "command", "process name", "process_name"})
_PROCESS_LISTS = ("amd-smi-process", "furiosa-smi-ps", "furiosactl-ps")


def without_command_lines(source: str, text: str) -> str:
    for pattern in (_XML, _JSON, _ROCM, _KEY_VALUE):
        text = pattern.sub(_shortened, text)
    if source in _PROCESS_LISTS:
        text = _INDENTED.sub(_shortened, _JSON_NAME.sub(_shortened, text))
    if source == "nvidia-smi-pmon":
        return _pmon(text)
    return _tables(text)


def _shortened(match: "re.Match[str]") -> str:
    return f"{match[1]}{_program(match[2])}{match[3]}"


def _program(title: str) -> str:
    command = _ENVIRONMENT.sub("", title)
    return program_name(command) or command.strip()


def _pmon(text: str) -> str:
    """Columns divided by blanks; the command is the last and may hold blanks itself."""
    lines = []
    columns = 0
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            if "command" in line.lower().split():
                columns = len(line.lstrip("# ").split())
            lines.append(line)
            continue
        cells = line.split(None, columns - 1) if columns else []
        if len(cells) == columns and columns:
            command = cells[-1].rstrip()
            start = line.rindex(command) if command else len(line)
            name = program_name(command) or command
            lines.append(line[:start] + name + line[start + len(command) :])
        else:
            lines.append(line)
    return "".join(lines)


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
