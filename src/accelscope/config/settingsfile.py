"""The YAML settings file: its top-level keys with their values as text, lists and mappings, and their lines.

Built from the parser's events rather than by a loader, so that scalars keep the text that stands there, each
key knows its line, keys given twice are errors, and nothing can be made to grow (no aliases, bounded depth).
Imported only where a file is given: PyYAML takes some 4 MiB.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import yaml
from yaml.events import Event

from accelscope.config.declaration import ConfigError
from accelscope.config.kind import Node, quoted
from accelscope.filewatch import open_regular

SIZE_LIMIT = 1 << 20  # bytes
_DEPTH_LIMIT = 32
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# What PyYAML quotes, as repr writes it: characters (',', '\\t') and kinds of tokens ('<scalar>') are its own.
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_OWN = re.compile(r"(?:[^\\]|\\(?:.|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})|<[a-z ]+>)")


@dataclass(frozen=True, slots=True)
class Entry:
    line: int
    node: Node


def read_settings_file(path: str) -> dict[str, Entry]:
    """Raises ConfigError that names the file, and the line where there is one."""
    try:
        with open_regular(Path(path)) as file:
            content = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise ConfigError(f"{quoted(path)}: cannot be read: {error}") from error
    if len(content) > SIZE_LIMIT:
        raise ConfigError(f"{path}: larger than 1 MiB, which no settings file is")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text") from error
    return _Document(path, text).entries()


def problem_of(error: yaml.MarkedYAMLError) -> str:
    """In one line, without words of the file, one of which may be a secret: a password that begins with * is
    an alias."""
    return " ".join(_QUOTED.sub(_masked, str(error.problem or error.context)).split())


def _masked(found: re.Match[str]) -> str:
    return found[0] if _OWN.fullmatch(found[0][1:-1]) else "'…'"


class _Document:
    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text

    def entries(self) -> dict[str, Entry]:
        parser = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        try:
            return self._top(yaml.parse(self._text, Loader=parser))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            # At the end of the text one of the two parsers counts a line more than there is.
            last = self._text.count("\n") + 1
            line = f":{min(mark.line + 1, last)}" if mark else ""
            raise ConfigError(f"{self._path}{line}: not valid YAML: {problem_of(error)}") from None
        except yaml.YAMLError as error:  # a character that YAML does not allow
            raise ConfigError(f"{self._path}: not valid YAML: {' '.join(str(error).split())}") from error

    def _top(self, events: Iterator[Event]) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._fail(event, "a second document begins here; one is allowed")
            elif isinstance(event, yaml.MappingStartEvent):
                self._refuse_extras(event)
                for line, key, node in self._pairs(events, 1):
                    entries[key] = Entry(line, node)
            elif isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value in _NULLS:
                continue
            elif isinstance(event, yaml.NodeEvent):
                self._fail(event, "the file must be a mapping: lines of the form key: value")
        return entries

    def _pairs(self, events: Iterator[Event], depth: int) -> Iterator[tuple[int, str, Node]]:
        seen: dict[str, int] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                return
            if not isinstance(event, yaml.ScalarEvent):
                self._fail(event, "a key must be plain text")
            self._refuse_extras(event)
            line = self._line(event)
            key = event.value
            if key in seen:
                self._fail(event, f"{quoted(key)} is given twice, first in line {seen[key]}")
            seen[key] = line
            yield line, key, self._node(next(events), events, depth)

    def _node(self, event: Event, events: Iterator[Event], depth: int) -> Node:
        if depth > _DEPTH_LIMIT:
            self._fail(event, f"nested more than {_DEPTH_LIMIT} deep")
        self._refuse_extras(event)
        if isinstance(event, yaml.ScalarEvent):
            return None if event.implicit[0] and event.value in _NULLS else event.value
        if isinstance(event, yaml.MappingStartEvent):
            return {key: node for _, key, node in self._pairs(events, depth + 1)}
        items = []
        for item in events:
            if isinstance(item, yaml.SequenceEndEvent):
                break
            items.append(self._node(item, events, depth + 1))
        return items

    def _refuse_extras(self, event: Event) -> None:
        """Anchors and aliases can make a small file huge, and tags mean nothing here."""
        if getattr(event, "anchor", None) is not None:
            self._fail(event, "anchors and aliases (& and *) are not supported")
        if getattr(event, "tag", None) is not None:
            self._fail(event, "tags (!) are not supported")

    def _fail(self, event: Event, problem: str) -> NoReturn:
        raise ConfigError(f"{self._path}:{self._line(event)}: {problem}")

    @staticmethod
    def _line(event: Event) -> int:
        return 1 if event.start_mark is None else event.start_mark.line + 1
