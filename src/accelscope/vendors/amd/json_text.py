"""JSON as AMD's tools print it: warnings before it, one document after another in watch mode, cut off."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from accelscope.parsing.json_escapes import without_halves

_OPENING = re.compile(r"^[ \t\ufeff]*([\[{])", re.MULTILINE)
_BLANKS = re.compile(r"\s*")
_MOST_ATTEMPTS = 50  # warnings begin with brackets too
_MOST_DOCUMENTS = 1000
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Document:
    value: object
    whole: bool = True  # False: the output ends within it, and `value` is what was whole of it


def documents(text: str) -> Iterator[Document]:
    """All documents of an output, in their order."""
    text = without_halves(text)
    position = attempts = found = 0
    while attempts < _MOST_ATTEMPTS and found < _MOST_DOCUMENTS:
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        start = opening.start(1)
        decoded = _decoded(text, start)
        if decoded is None:
            partial = _members(text, start)
            if partial is not None:
                yield Document(partial, whole=False)
                return
            attempts += 1
            position = opening.end()
            continue
        found += 1
        value, position = decoded
        yield Document(value)


def _decoded(text: str, start: int) -> tuple[object, int] | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):  # cut off, not JSON, a number of thousands of digits, too deep
        return None
    return value, end


def _members(text: str, start: int, depth: int = 2) -> object | None:
    """What is whole of a document that is cut off: a GPU whose object was closed is worth having. None: not
    the beginning of a document either."""
    named = text[start] == "{"
    members: dict[str | int, object] = {}
    position = start + 1
    while True:
        key: str | int = len(members)
        if named:
            found = _decoded_key(text, position)
            if found is None:
                break
            key, position = found
        position = _after_blanks(text, position)
        decoded = _decoded(text, position)
        if decoded is None:
            if depth and text[position : position + 1] in ("{", "["):
                within = _members(text, position, depth - 1)
                members.update({} if within is None else {key: within})
            break
        value, end = decoded
        end = _after_blanks(text, end)
        followed = text[end : end + 1] == ","
        if followed or isinstance(value, dict | list):  # of a number at the very end digits may be missing
            members[key] = value
        if not followed:
            break
        position = end + 1
    if not members:
        return None
    return members if named else list(members.values())


def _decoded_key(text: str, position: int) -> tuple[str, int] | None:
    position = _after_blanks(text, position)
    decoded = _decoded(text, position)
    if decoded is None or not isinstance(decoded[0], str):
        return None
    colon = _after_blanks(text, decoded[1])
    return (decoded[0], colon + 1) if text[colon : colon + 1] == ":" else None


def _after_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position
