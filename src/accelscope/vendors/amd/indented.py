"""What amd-smi prints without --json: names and values, nested by indentation, one block for each GPU.

It becomes the tree that --json would have been, so that one mapping serves both: names in small letters,
values as the words that are there.
"""

import re
from collections.abc import Iterator

_LINE = re.compile(r"( *)([A-Za-z][A-Za-z0-9_ %/.-]{0,60}):(?: +(.+))?", re.ASCII)
_GPU = re.compile(r"GPU: +[0-9]{1,6}", re.ASCII)
_LONGEST = 4000
_MOST_LINES = 200_000
_DEEPEST = 12

IndentedTree = dict[str, object]


def indented_gpus(text: str) -> list[IndentedTree]:
    """One tree for each `GPU: n`; empty where the text is something else."""
    found: list[IndentedTree] = []
    open_groups: list[tuple[int, IndentedTree]] = []  # the groups around the line, with their indentation
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
    """A name that comes again, as PROCESS_INFO does, makes a list."""
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
    """A list is wrapped over several lines, up to its closing bracket."""
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
