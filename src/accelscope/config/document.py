"""YAML documents with the line of each key, and sections that are read key by key.

Files are read from the parser's events instead of by a loader: scalars stay text, each key has its line,
duplicate keys are errors, and a small file cannot grow in memory (no aliases, bounded depth). Imported only
if there is a file: PyYAML needs about 4 MiB.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar, overload

import yaml
from yaml.events import Event

from accelscope.config.values import BadValue, ConfigError, Node, ValueKind, quoted, shown
from accelscope.files import open_regular

S = TypeVar("S", bound="Section")
T = TypeVar("T")

_SIZE_LIMIT = 1 << 20  # bytes: some thousands of clusters
_DEPTH_LIMIT = 32
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# Quoted parts of PyYAML's messages. Characters (',', '\\t') and token types ('<scalar>') are PyYAML's words;
# anything else is text of the file.
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_OWN = re.compile(r"(?:[^\\]|\\(?:.|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})|<[a-z ]+>)")


class LinedMapping(dict[str, Node]):
    """A mapping of a file, with the line where it begins and the line of each key."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


def read_document(path: str) -> LinedMapping:
    """A file that is one mapping, or empty. Raises ConfigError that names the file and the line."""
    return _Document(path, read_text(path)).top()


def read_text(path: str) -> str:
    """Raises ConfigError that names the file."""
    try:
        with open_regular(Path(path)) as file:
            content = file.read(_SIZE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=path) from None
    except ValueError as error:  # a NUL in the path
        raise ConfigError(f"cannot be read: {error}", file=quoted(path)) from None
    if len(content) > _SIZE_LIMIT:
        raise ConfigError("larger than 1 MiB", file=path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError("not UTF-8 text", file=path, line=line) from None


def parse_yaml(
    text: str, parse: Callable[[str], T], file: object = None, error_type: type[ConfigError] = ConfigError
) -> T:
    """Call one of PyYAML's functions. Raises ConfigError without words of the text, which may contain a
    secret."""
    try:
        return parse(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # At the end of the text, one of the two parsers reports a line too many.
        line = min(mark.line, text.count("\n")) + 1 if mark else None
        raise error_type(f"not valid YAML: {problem_of(error)}", file=file, line=line) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise error_type(f"not valid YAML: {' '.join(str(error).split())}", file=file) from None
    except ValueError:  # only from loaders that convert numbers and dates
        raise error_type(
            "not valid YAML: a number is too long, or a date does not exist", file=file
        ) from None
    except RecursionError:
        raise error_type("nested too deep", file=file) from None


def problem_of(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's message on one line, without words of the file. A word may be a secret: YAML parses a password
    that begins with * as an alias."""
    return " ".join(_QUOTED.sub(_masked, str(error.problem or error.context)).split())


def _masked(found: re.Match[str]) -> str:
    return found[0] if _OWN.fullmatch(found[0][1:-1]) else "'…'"


class _Document:
    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text

    def top(self) -> LinedMapping:
        parser = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        return parse_yaml(self._text, lambda text: self._top(yaml.parse(text, Loader=parser)), self._path)

    def _top(self, events: Iterator[Event]) -> LinedMapping:
        found = LinedMapping(1)
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._fail(event, "a second document begins here; one is allowed")
            elif isinstance(event, yaml.MappingStartEvent):
                self._reject_extras(event)
                found = self._mapping(event, events, 1)
            elif isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value in _NULLS:
                continue
            elif isinstance(event, yaml.NodeEvent):
                self._fail(event, "the file must be a mapping: lines of the form key: value")
        return found

    def _mapping(self, start: Event, events: Iterator[Event], depth: int) -> LinedMapping:
        mapping = LinedMapping(self._line(start))
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent):
                self._fail(event, "a key must be plain text")
            self._reject_extras(event)
            key = event.value
            if key in mapping.lines:
                self._fail(event, f"{quoted(key)} is given twice, first in line {mapping.lines[key]}")
            mapping.lines[key] = self._line(event)
            mapping[key] = self._node(next(events), events, depth)
        return mapping

    def _node(self, event: Event, events: Iterator[Event], depth: int) -> Node:
        if depth > _DEPTH_LIMIT:
            self._fail(event, f"nested more than {_DEPTH_LIMIT} deep")
        self._reject_extras(event)
        if isinstance(event, yaml.ScalarEvent):
            return None if event.implicit[0] and event.value in _NULLS else event.value
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, events, depth + 1)
        items = []
        for item in events:
            if isinstance(item, yaml.SequenceEndEvent):
                break
            items.append(self._node(item, events, depth + 1))
        return items

    def _reject_extras(self, event: Event) -> None:
        """Anchors and aliases can make a small file huge, and tags mean nothing here."""
        if getattr(event, "anchor", None) is not None:
            self._fail(event, "anchors and aliases (& and *) are not supported")
        if getattr(event, "tag", None) is not None:
            self._fail(event, "tags (!) are not supported")

    def _fail(self, event: Event, problem: str) -> NoReturn:
        raise ConfigError(problem, file=self._path, line=self._line(event))

    @staticmethod
    def _line(event: Event) -> int:
        return 1 if event.start_mark is None else event.start_mark.line + 1


class Section:
    """One mapping of a document. `finish` rejects keys that were not read.

    Errors contain the file and the line, if known, and the path in the document.
    """

    error_type: type[ConfigError] = ConfigError

    def __init__(self, document: object, where: str = "", *, file: object = None, line: int | None = None):
        self.file = file
        self.where = where
        self._line = document.line if isinstance(document, LinedMapping) else line
        if not isinstance(document, Mapping):
            raise self.error(None, "not a mapping of keys to values")
        self._given: Mapping[Any, Any] = document
        self._lines = document.lines if isinstance(document, LinedMapping) else {}
        self._known: list[str] = []

    @property
    def keys(self) -> list[str]:
        return list(self._given)

    @property
    def unread(self) -> list[str]:
        """Keys that were not read."""
        return [key for key in self._given if key not in self._known]

    def has(self, key: str) -> bool:
        """Whether the key is present, even without a value."""
        return key in self._given

    def raw(self, key: str) -> Any:
        """The unparsed value, or None."""
        self._known.append(key)
        return self._given.get(key)

    @overload
    def take(self, key: str, kind: ValueKind[T]) -> T | None: ...

    @overload
    def take(self, key: str, kind: ValueKind[T], default: T) -> T: ...

    def take(self, key: str, kind: ValueKind[T], default: T | None = None) -> T | None:
        node = self.raw(key)
        return default if node is None else self._read(key, kind, node)

    def require(self, key: str, kind: ValueKind[T]) -> T:
        node = self.raw(key)
        if node is None:
            raise self.error(key, f"missing; expected {kind.allowed}")
        return self._read(key, kind, node)

    def take_each(self, key: str, kind: ValueKind[T]) -> tuple[T, ...]:
        """The members of a list, duplicates included; empty without the key."""
        return tuple(self._read(f"{key}[{i}]", kind, node) for i, node in enumerate(self.members(key)))

    def members(self, key: str) -> list[Any]:
        """The unparsed members of a list; empty without the key."""
        value = self.raw(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(key, "not a list")
        return value

    def section(self, key: str) -> Self:
        """A mapping inside this one; empty without the key or its value. The caller finishes it."""
        value = self.raw(key)
        return self._inside(key, {} if value is None else value)

    def optional_section(self, key: str) -> Self | None:
        """None without the key; a key without a value is an empty section."""
        section = self.section(key)
        return section if self.has(key) else None

    def sections(self, key: str) -> list[Self]:
        """A list of mappings; empty without the key."""
        return [self._inside(f"{key}[{i}]", node) for i, node in enumerate(self.members(key))]

    def _inside(self, key: str, node: object) -> Self:
        line = self._lines.get(key.partition("[")[0], self._line)
        return type(self)(node, self.path(key), file=self.file, line=line)

    def _read(self, key: str, kind: ValueKind[T], node: Any) -> T:
        try:
            return kind.read(node)
        except BadValue as error:
            raise self.error(key, str(error)) from None

    def path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def finish(self) -> None:
        for key in self.unread:
            near = nearest(str(key), self._known)
            hint = f"; did you mean {near}?" if near else ""
            problem = f"unknown key {shown(key)}; allowed: {', '.join(self._known) or 'none'}{hint}"
            raise self._error(self.where, problem, self._lines.get(key, self._line))

    def error(self, key: str | None, problem: str) -> ConfigError:
        """About a key, or about the whole mapping."""
        if key is None:
            return self._error(self.where, problem, self._line)
        return self._error(self.path(key), problem, self._lines.get(key.partition("[")[0], self._line))

    def _error(self, place: str, problem: str, line: int | None) -> ConfigError:
        return self.error_type(f"{place}: {problem}" if place else problem, file=self.file, line=line)


def read_each(sections: Iterable[S], read: Callable[[S], T]) -> tuple[T, ...]:
    """The results of `read`, which must read every key of its section."""
    results = []
    for section in sections:
        results.append(read(section))
        section.finish()
    return tuple(results)


def nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that a misspelt one is most like."""
    from difflib import get_close_matches  # noqa: PLC0415 - needed for this error only

    lowered = {name.replace("_", "").replace("-", "").lower(): name for name in known}
    folded = key.replace("_", "").replace("-", "").lower()
    matches = get_close_matches(folded, lowered, n=1, cutoff=0.5)
    return lowered[matches[0]] if matches else None
