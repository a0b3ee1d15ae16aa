"""Generates docs/chart-values.md from the keys, defaults and comments of the chart's values.yaml."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.repository import CHART

VALUES = CHART / "values.yaml"

_HEAD = """\
# Values of the chart

<!-- Generated from deploy/chart/values.yaml by `make docs`; a test compares them. -->

For `--set KEY=VALUE` and for values files (`-f`). The chart rejects unknown keys. Your list replaces the
default list; your mapping is merged with the default. An empty default is an empty string. See
[Install](install.md) for examples and [Security](security.md) for the privileges of each feature.
"""

_SINGLE = "\n## Single values\n\n"

_COLUMNS = "| key | default | meaning |\n|---|---|---|\n"


@dataclass(frozen=True)
class _Key:
    """A key of the file. `node` is its value with its position."""

    name: str
    line: int
    column: int
    node: yaml.Node

    @property
    def has_keys(self) -> bool:
        return isinstance(self.node, yaml.MappingNode) and not self.node.flow_style and bool(self.node.value)


def reference(path: Path = VALUES) -> str:
    return _Page(path.read_text()).render()


class _Page:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.splitlines()

    def render(self) -> str:
        document = yaml.compose(self._text)
        assert isinstance(document, yaml.MappingNode)
        keys = list(_keys(document))
        parts = [_HEAD]
        for key in keys:
            if key.has_keys:
                about = _paragraphs(self._above(key))
                rows = "".join(self._rows(key, described=True))
                parts.append(f"\n## {key.name}\n\n{about}{_COLUMNS}{rows}")
        single = "".join(row for key in keys if not key.has_keys for row in self._rows(key))
        parts.append(_SINGLE + _COLUMNS + single)
        return "".join(parts)

    def _rows(self, key: _Key, *, described: bool = False) -> Iterator[str]:
        """The rows of a key and of the keys below it. `described`: the key's comment is already above the
        table, so it has no row of its own."""
        if not key.has_keys:
            yield _row(key.name, self._default(key.node), self._meaning(key))
            return
        if not described and (meaning := self._meaning(key)):
            yield _row(key.name, "", meaning)
        assert isinstance(key.node, yaml.MappingNode)
        for below in _keys(key.node, f"{key.name}."):
            yield from self._rows(below)

    def _meaning(self, key: _Key) -> str:
        above = _cell(self._above(key))
        beside = _cell([f" {self._beside(key.node)}"]) if not _is_list_of_lines(key.node) else ""
        return " ".join(part for part in (above, beside) if part)

    def _default(self, node: yaml.Node) -> str:
        if _is_list_of_lines(node):
            return "<br>".join(self._item(item) for item in node.value)
        written = self._text[node.start_mark.index : node.end_mark.index]
        return "" if written == '""' else _code(written)

    def _item(self, node: yaml.Node) -> str:
        written, _, comment = self._lines[node.start_mark.line][node.start_mark.column :].partition(" # ")
        return f"{_code(written)} {_escaped(comment)}".strip()

    def _above(self, key: _Key) -> list[str]:
        """The comment directly above a key, without comment marks."""
        first = key.line
        mark = " " * key.column + "#"
        while first > 0 and self._lines[first - 1].startswith(mark):
            first -= 1
        return [line.removeprefix(mark) for line in self._lines[first : key.line]]

    def _beside(self, node: yaml.Node) -> str:
        if isinstance(node, yaml.MappingNode) and not node.flow_style:
            return ""
        return self._lines[node.end_mark.line][node.end_mark.column :].partition(" # ")[2]


def _keys(mapping: yaml.MappingNode, prefix: str = "") -> Iterator[_Key]:
    for name, value in mapping.value:
        yield _Key(prefix + name.value, name.start_mark.line, name.start_mark.column, value)


def _is_list_of_lines(node: yaml.Node) -> bool:
    return isinstance(node, yaml.SequenceNode) and not node.flow_style


def _is_example(line: str) -> bool:
    """Examples in comments are indented."""
    return line.startswith("   ")


def _paragraphs(comment: list[str]) -> str:
    made = ""
    for before, line in zip(["", *comment], comment, strict=False):
        if _is_example(line) and not _is_example(before):
            made += "\n```text\n"
        elif _is_example(before) and not _is_example(line):
            made += "```\n\n"
        made += (line[3:] if _is_example(line) else _escaped(line[1:])) + "\n"
    if comment and _is_example(comment[-1]):
        made += "```\n"
    return f"{made}\n" if made else ""


def _cell(comment: list[str]) -> str:
    made = ""
    for before, line in zip(["", *comment], comment, strict=False):
        made += "<br>" if _is_example(line) or _is_example(before) else " "
        made += _code(line) if _is_example(line) else _escaped(line.strip())
    return made.strip()


def _row(name: str, default: str, meaning: str) -> str:
    return f"| `{name}` | {default} | {meaning} |\n"


def _code(text: str) -> str:
    return "`" + text.strip().replace("|", "\\|") + "`"


def _escaped(text: str) -> str:
    text = text.replace("|", "\\|").replace("<", "&lt;")
    return re.sub(r"docs/([a-z/-]+\.md)", r"[\1](\1)", text)
