"""Where outputs name a serial number or another number that is one device's own: the values, to be masked.

Pure: text in, values out. UUIDs are found by their form elsewhere; these numbers have none, so they are found
by the name that stands beside them.
"""

import re
from collections.abc import Iterator

_NAME = (
    r"(?:[\w. ]{0,24}serial(?:[ _]?(?:number|no\.?))?|s/n|(?:device[_ ])?sn|unique[ _]id|[dnv]?die[ _]id"
    r"|soc_u?id|[\w.]{0,16}fabric_guid|(?:gpu[_ ])?pdi)"
)
_IN_XML = re.compile(rf"<({_NAME})>\s*([^<>\s][^<>]*?)\s*</", re.IGNORECASE)
_IN_JSON = re.compile(rf'"{_NAME}:?"\s*:\s*"?([^",{{}}\[\]\n]+)', re.IGNORECASE)
_IN_LINE = re.compile(rf"^[ \t]*{_NAME}[ \t]*:[ \t]*(\S.*?)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_IN_PROPERTIES = re.compile(r"^unique_id ([0-9]{4,20})$", re.MULTILINE)  # of the compute driver, in decimal
_OF_FILE = re.compile(rf"^=== \S*/{_NAME}\n(\S.*)$", re.IGNORECASE | re.MULTILINE)
_COLUMN = re.compile(rf"\s*{_NAME}\s*", re.IGNORECASE)

_SHORTEST = 4
_NO_NUMBER = frozenset(
    {"n/a", "[n/a]", "none", "unknown", "not supported", "[not supported]", "null", "error"}
)


def serials_in(text: str) -> Iterator[str]:
    for found in (_IN_XML, _IN_JSON, _IN_LINE, _OF_FILE):
        for match in found.finditer(text):
            yield from _value(match[match.lastindex or 0])
    yield from _in_columns(text)


def decimal_ids_in(text: str) -> Iterator[str]:
    """The chip's number as the compute driver writes it; other sources have it in hexadecimal."""
    for match in _IN_PROPERTIES.finditer(text):
        if int(match[1]):
            yield match[1]


def _in_columns(text: str) -> Iterator[str]:
    """Of tables with commas or bars: the cells below a heading that names such a number."""
    for mark in (",", "|"):
        places: list[int] = []
        width = 0
        for line in text.splitlines():
            cells = line.split(mark)
            if len(cells) < 3:
                continue
            headings = [n for n, cell in enumerate(cells) if _COLUMN.fullmatch(cell)]
            if headings:
                places, width = headings, len(cells)
            elif places and len(cells) >= width:
                for place in places:
                    yield from _value(cells[place])


def _value(cell: str) -> Iterator[str]:
    value = cell.strip().strip('"')
    bare = re.sub(r"[^0-9A-Za-z]", "", value.removeprefix("0x").removeprefix("0X"))
    if len(bare) >= _SHORTEST and bare.strip("0") and value.lower() not in _NO_NUMBER:
        yield value
