"""Kinds of several values: labels, lists, patterns. As text, with commas between."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from accelscope.config.kind import BadValue, Kind, Node, quoted
from accelscope.config.scalars import Text

_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Labels(Kind[Mapping[str, str]]):
    """Static Prometheus labels. Names that begin with two underscores are Prometheus's own."""

    metavar = "NAME=VALUE,..."
    allowed = "a list of labels such as rack=7,zone=a"
    repeatable = True

    def parse(self, text: str) -> Mapping[str, str]:
        pairs = []
        for item in _items(text):
            name, equals, value = item.partition("=")
            if not equals:
                raise BadValue(f"{quoted(item)} has no =")
            pairs.append((name.strip(), value.strip()))
        return self._labels(pairs)

    def parse_node(self, node: Node) -> Mapping[str, str]:
        if not isinstance(node, Mapping):
            return super().parse_node(node)
        pairs = []
        for name, value in node.items():
            if not isinstance(value, str):
                raise BadValue(f"the value of {quoted(name)} is not a text")
            pairs.append((name, value))
        return self._labels(pairs)

    @staticmethod
    def _labels(pairs: Sequence[tuple[str, str]]) -> Mapping[str, str]:
        labels: dict[str, str] = {}
        for name, value in pairs:
            if not _LABEL_NAME.fullmatch(name):
                raise BadValue(f"{quoted(name)} is not a label name: letters, digits and _, no digit first")
            if name.startswith("__"):
                raise BadValue(f"{quoted(name)} begins with __, which Prometheus keeps for itself")
            if name in labels:
                raise BadValue(f"{quoted(name)} is given twice")
            labels[name] = value
        return MappingProxyType(labels)

    def text(self, value: Mapping[str, str]) -> str:
        return ",".join(f"{name}={label}" for name, label in value.items())


class List(Kind[tuple[str, ...]]):
    """Several values, each checked by the kind of an item."""

    repeatable = True

    def __init__(self, item: Kind[str] | None = None) -> None:
        self._item = item or Text()
        each = "" if item is None else f", each {item.allowed}"
        self.allowed = f"a list with commas between{each}"
        self.metavar = f"{self._item.metavar},..."

    def parse(self, text: str) -> tuple[str, ...]:
        return self._values(_items(text))

    def parse_node(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, str) or not isinstance(node, Sequence):
            return super().parse_node(node)
        return self._values(node)

    def _values(self, nodes: Sequence[Node]) -> tuple[str, ...]:
        values = []
        for node in nodes:
            if not isinstance(node, str):
                raise BadValue("an item is not a text")
            try:
                values.append(self._item.parse(node))
            except BadValue as error:
                raise BadValue(str(error) or self._complaint(node)) from None
        return tuple(dict.fromkeys(values))

    def _complaint(self, item: str) -> str:
        """What `allowed` has said of the items already is not said again."""
        if self._item.allowed in self.allowed:
            return f"the wrong one is {quoted(item)}"
        return f"{quoted(item)} is not {self._item.allowed}"

    def text(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


class Patterns(List):
    """Glob patterns of metric names, for `fnmatch`: globs because a name holds no character that they use."""

    def __init__(self) -> None:
        super().__init__(Text("a name with * and ? as wildcards", r"[A-Za-z0-9_:*?]+"))
        self.allowed = "a list of metric names with commas between; * and ? are wildcards"
        self.metavar = "PATTERN,..."


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


LABELS = Labels()
PATTERNS = Patterns()
