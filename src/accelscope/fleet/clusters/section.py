"""The clusters file as YAML whose every key knows its line, read key by key with errors that name it.

The settings file of the other commands is flat and needs the lines of its top-level keys only
(`config.settingsfile`); here an error is three levels deep in one of a hundred clusters.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, TypeVar

import yaml

from accelscope.config import BadValue, ConfigError, Kind, Node
from accelscope.config.kind import quoted
from accelscope.config.settingsfile import problem_of
from accelscope.filewatch import open_regular

T = TypeVar("T")

SIZE_LIMIT = 1 << 20  # bytes: some thousands of clusters
_DEPTH_LIMIT = 16
_NULL = "tag:yaml.org,2002:null"


class Section:
    """One mapping. Each reading method takes a key off; `finish` complains about those that nobody took."""

    def __init__(self, path: str, node: yaml.MappingNode, where: str = "") -> None:
        self._path = path
        self._where = where
        self.line = _line(node)
        self._known: list[str] = []
        self._left: dict[str, yaml.Node] = {}
        self._lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(_line(key), "a key must be plain text")
            if key.value in self._lines:
                first = self._lines[key.value]
                self._refuse(_line(key), f"{quoted(key.value)} is given twice, first in line {first}")
            self._left[key.value] = value
            self._lines[key.value] = _line(key)

    def has(self, key: str) -> bool:
        return key in self._lines

    def take(self, key: str, kind: Kind[T], default: T) -> T:
        node = self._take(key)
        if node is None or _is_null(node):
            return default
        value = _plain(node)
        try:
            return kind.parse_node(value)
        except BadValue as error:
            shown = quoted(value) if isinstance(value, str) else "the value"
            detail = f"; {error}" if str(error) else ""
            self.fail(key, f"{shown} is not {kind.allowed}{detail}")

    def section(self, key: str) -> "Section | None":
        """A mapping inside this one; a key with nothing after it is an empty one. None: no such key."""
        node = self._take(key)
        if node is None:
            return None
        if _is_null(node):
            node = yaml.MappingNode("", [], node.start_mark)
        if not isinstance(node, yaml.MappingNode):
            self.fail(key, "expected keys with values")
        return Section(self._path, node, self._name(key))

    def sections(self, key: str) -> Iterator["Section"]:
        node = self._take(key)
        if node is None or _is_null(node):
            return
        if not isinstance(node, yaml.SequenceNode):
            self.fail(key, "expected a list")
        for number, item in enumerate(node.value):
            where = f"{self._name(key)}[{number}]"
            if not isinstance(item, yaml.MappingNode):
                self._refuse(_line(item), f"{where}: expected keys with values")
            yield Section(self._path, item, where)

    def finish(self) -> None:
        for key in self._left:
            self.fail(key, f"unknown key; allowed: {', '.join(self._known)}")

    def fail(self, key: str | None, problem: str) -> NoReturn:
        """About a key that is there, or about the whole mapping."""
        line = self.line if key is None else self._lines.get(key, self.line)
        name = self._where if key is None else self._name(key)
        self._refuse(line, f"{name}: {problem}" if name else problem)

    def _take(self, key: str) -> yaml.Node | None:
        self._known.append(key)
        return self._left.pop(key, None)

    def _name(self, key: str) -> str:
        shown = key if key.isidentifier() else quoted(key)
        return f"{self._where}.{shown}" if self._where else shown

    def _refuse(self, line: int, problem: str) -> NoReturn:
        raise ConfigError(f"{self._path}:{line}: {problem}")


def read_sections(path: str) -> Section:
    """The whole file. Raises ConfigError that names the file, and the line where there is one."""
    text = read_text(path)
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(yaml_problem(path, text, error)) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deep") from None
    if node is None or _is_null(node):
        raise ConfigError(f"{path}: is empty; it needs a list under clusters:")
    _refuse_extras(path, node, set(), 0)
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{path}:{_line(node)}: expected a list under clusters:")
    return Section(path, node)


def read_text(path: str) -> str:
    """Raises ConfigError."""
    try:
        with open_regular(Path(path)) as file:
            content = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the path
        raise ConfigError(f"{quoted(path)}: cannot be read: {error}") from None
    if len(content) > SIZE_LIMIT:
        raise ConfigError(f"{path}: larger than 1 MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text") from None


def yaml_problem(path: str, text: str, error: yaml.MarkedYAMLError) -> str:
    """Without the lines around it, which may hold a secret."""
    mark = error.problem_mark or error.context_mark
    # At the end of the text one of the two parsers counts a line more than there is.
    line = f":{min(mark.line, text.count(chr(10))) + 1}" if mark else ""
    return f"{path}{line}: not valid YAML: {problem_of(error)}"


def _refuse_extras(path: str, node: yaml.Node, seen: set[int], depth: int) -> None:
    """An alias is the same node once more: it can make a small file huge to walk."""
    if id(node) in seen:
        raise ConfigError(f"{path}:{_line(node)}: anchors and aliases (& and *) are not supported")
    if depth > _DEPTH_LIMIT:
        raise ConfigError(f"{path}:{_line(node)}: nested more than {_DEPTH_LIMIT} deep")
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _refuse_extras(path, key, seen, depth + 1)
            _refuse_extras(path, value, seen, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_extras(path, item, seen, depth + 1)


def _plain(node: yaml.Node) -> Node:
    """Scalars as the text that stands there, as `config` has them."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return None if _is_null(node) else str(node.value)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
