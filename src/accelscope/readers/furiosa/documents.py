"""JSON and YAML that furiosa-smi and furiosactl print: a list of objects, perhaps with warnings before it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from accelscope.parsing.json_escapes import without_halves
from accelscope.parsing.rejections import Rejections
from accelscope.readers.furiosa.tables import column_name

Fields = Mapping[str, object]  # of one object, by the names of `column_name`

_OPENING = re.compile(r"^[ \t]*([\[{])", re.MULTILINE)
_YAML_ITEM = re.compile(r"^- [\w-]{1,40}:(?=\s|$)", re.MULTILINE | re.ASCII)
_EMPTY_YAML = re.compile(r"\A\s*---\s*\[\]\s*\Z")
_BLANKS = re.compile(r"[\s,]*")
_MOST_ATTEMPTS = 20  # log lines begin with brackets too
_MOST_OBJECTS = 100_000
_DECODER = json.JSONDecoder()


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
    from accelscope.readers.furiosa.yaml_items import read_item  # noqa: PLC0415 - an agent hardly needs it

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
        position = _after_blanks(text, position)
        if text[position : position + 1] != "{":
            break
        decoded = _decoded(text, position)
        if decoded is None:
            if not objects:
                return None
            rejected.add(text[position : position + 500], "truncated")
            return Documents(tuple(objects), whole=False)
        value, position = decoded
        objects += [{column_name(key): item for key, item in one.items()} for one in _unwrapped(value)]
    ended = text[start] == "{" or text[position : position + 1] == "]"
    return Documents(tuple(objects), whole=ended) if objects or (ended and text[start] == "[") else None


def _decoded(text: str, position: int) -> tuple[dict[str, object], int] | None:
    try:
        value, end = _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):  # cut off, not JSON, a number of thousands of digits, too deep
        return None
    return value, end


def _unwrapped(value: dict[str, object]) -> list[dict[str, object]]:
    """The objects of a list that stands alone within an object: `{"devices": [{...}]}`."""
    if len(value) == 1:
        [inner] = value.values()
        if isinstance(inner, list) and inner and all(isinstance(one, dict) for one in inner):
            return inner
    return [value]


def _after_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position
