"""Kinds of values: what is allowed, in words and as a parser.

Settings, API parameters, command-line options, the clusters file, kubeconfigs and descriptions of simulated
nodes read their values with these kinds. A kind reads text (a flag, an environment variable, a parameter) and
a value of a document. In some documents every scalar is the text that is written there (`07` stays `07`, `no`
stays `no`); in others numbers and booleans have their YAML or JSON type. Both mean the same.
"""

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

T = TypeVar("T")
N = TypeVar("N", int, float)
C = TypeVar("C", bound=str)

# What a document can contain. None is an empty value or `null`.
Node = str | int | float | None | Sequence["Node"] | Mapping[str, "Node"]


class ConfigError(Exception):
    """Input that cannot be used. The text is one line that names the place as the user wrote it."""

    def __init__(self, problem: str, *, file: object = None, line: int | None = None) -> None:
        place = "" if line is None else f"line {line}: "
        if file is not None:
            place = f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + problem)
        self._problem = problem
        self._file = file
        self._line = line

    def in_file(self, file: object) -> "ConfigError":
        """The same error with a file name, unless it names a file already."""
        return self if self._file is not None else type(self)(self._problem, file=file, line=self._line)


class BadValue(ValueError):
    """A value that is not allowed. The text, if any, is added to the kind's `allowed`."""


class ValueKind(Generic[T]):
    """Base of all kinds; packages may define their own.

    `allowed` completes the sentence "the value is not ...". A kind with `textual = False` has no flag and no
    environment variable. Errors never show the value of a `secret` kind.
    """

    allowed: str
    metavar = "VALUE"
    textual = True
    repeatable = False  # the flag may be given several times; its values are joined with commas
    secret = False

    def parse(self, text: str) -> T:
        """Read text. Raises BadValue."""
        raise NotImplementedError

    def parse_node(self, node: Node) -> T:
        """Read a value of a document. Raises BadValue."""
        if not isinstance(node, str):
            raise BadValue
        return self.parse(node)

    def read(self, node: Any) -> T:
        """Read text or a value of a document. Raises BadValue with a whole sentence for users."""
        try:
            return self.parse_node(node)
        except BadValue as error:
            given = "the value" if self.secret else shown(node)
            detail = f"; {error}" if str(error) else ""
            raise BadValue(f"{given} is not {self.allowed}{detail}") from None

    def text(self, value: T) -> str:
        """The value as a user would write it; empty for "not set"."""
        return str(value)


def quoted(text: str, limit: int = 80) -> str:
    """Text for an error message: on one line, not too long, its ends visible; not at all if it looks like a
    URL with a password in it."""
    if "://" in text and "@" in text:
        return "a URL with a user or password in it"
    cut = text if len(text) <= limit else text[:limit] + "…"
    escaped = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in cut.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'


def shown(node: object) -> str:
    """A value of a document for an error message."""
    if isinstance(node, str):
        return quoted(node)
    if node is None or isinstance(node, bool):
        return "nothing" if node is None else str(node).lower()
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    try:
        return quoted(str(node))[1:-1]
    except ValueError:  # Python writes no integers of more than 4300 digits
        return "a number of thousands of digits"


class Number(ValueKind[N]):
    """A number within bounds, both included."""

    metavar = "NUMBER"

    def __init__(
        self, what: str, minimum: N | None = None, maximum: N | None = None, example: str = ""
    ) -> None:
        self.minimum: N | None = minimum
        self.maximum: N | None = maximum
        low, high = ("" if bound is None else self.text(bound) for bound in (minimum, maximum))
        bounds = f" of at least {low}" if low else f" of at most {high}" if high else ""
        self.allowed = what + (f" from {low} to {high}" if low and high else bounds) + example

    def _checked(self, number: N) -> N:
        if self.minimum is not None and number < self.minimum:
            raise BadValue
        if self.maximum is not None and number > self.maximum:
            raise BadValue
        return number


class WholeNumber(Number[int]):
    def __init__(
        self, minimum: int | None = None, maximum: int | None = None, what: str = "a whole number"
    ) -> None:
        super().__init__(what, minimum, maximum)

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip(), re.ASCII):
            raise BadValue
        return self._checked(int(text))

    def parse_node(self, node: Node) -> int:
        if isinstance(node, int) and not isinstance(node, bool):
            return self._checked(node)
        return super().parse_node(node)


class Port(WholeNumber):
    metavar = "PORT"

    def __init__(self) -> None:
        super().__init__(0, 65535, "a port")
        self.allowed += " (0: any free one)"

    def parse(self, text: str) -> int:
        if text.startswith(("tcp://", "udp://")):
            # The kubelet sets NAME_PORT for every Service called NAME in the pod's namespace.
            raise BadValue("a Kubernetes service link set it: use enableServiceLinks: false in the pod")
        return super().parse(text)


class Decimal(Number[float]):
    def __init__(self, minimum: float | None = None, maximum: float | None = None) -> None:
        super().__init__("a number", minimum, maximum)

    def parse(self, text: str) -> float:
        return self._checked(_decimal(text))

    def parse_node(self, node: Node) -> float:
        if isinstance(node, int | float) and not isinstance(node, bool):
            return self._checked(_decimal(node))
        return super().parse_node(node)

    def text(self, value: float) -> str:
        return _plain(value)


_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(Number[float]):
    """Seconds. A bare number is seconds too."""

    metavar = "DURATION"

    def __init__(self, minimum: float = 0.0, maximum: float | None = None) -> None:
        super().__init__("a duration", minimum, maximum, ", such as 10s, 500ms or 1m30s")

    def parse(self, text: str) -> float:
        written = text.strip()
        seconds = _decimal(written) if re.fullmatch(r"[+-]?[0-9.]+", written) else self._from_units(written)
        return self._checked(seconds)

    def parse_node(self, node: Node) -> float:
        if isinstance(node, int | float) and not isinstance(node, bool):
            return self._checked(_decimal(node))
        return super().parse_node(node)

    @staticmethod
    def _from_units(written: str) -> float:
        parts = _DURATION_PART.findall(written)
        if not parts or "".join(number + unit for number, unit in parts) != written:
            raise BadValue
        return _decimal(sum(float(number) * _SECONDS[unit] for number, unit in parts))

    def text(self, value: float) -> str:
        if value != 0 and value < 1:
            return f"{_plain(value * 1000)}ms"
        parts = []
        for unit in ("h", "m"):
            count, value = divmod(value, _SECONDS[unit])
            if count:
                parts.append(f"{count:.0f}{unit}")
        if value or not parts:
            parts.append(f"{_plain(value)}s")
        return "".join(parts)


_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*(B|KiB|MiB|GiB|TiB|)", re.ASCII)
_BYTES = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


class Size(ValueKind[int]):
    """Bytes."""

    metavar = "SIZE"

    def __init__(self, minimum: int = 0) -> None:
        self._minimum = minimum
        at_least = f" of at least {minimum >> 20}MiB," if minimum else ""
        self.allowed = f"a size{at_least} such as 12GiB or 800MiB"

    def parse(self, text: str) -> int:
        match = _SIZE.fullmatch(text.strip())
        if match is None:
            raise BadValue
        size = int(float(match[1]) * _BYTES[match[2]])
        if size < self._minimum:
            raise BadValue
        return size

    def parse_node(self, node: Node) -> int:
        if isinstance(node, int | float) and not isinstance(node, bool):
            return self.parse(shown(node))
        return super().parse_node(node)


class Boolean(ValueKind[bool]):
    allowed = "true or false (also yes/no, on/off, 1/0)"

    def parse(self, text: str) -> bool:
        match text.strip().lower():
            case "true" | "yes" | "on" | "1":
                return True
            case "false" | "no" | "off" | "0":
                return False
        raise BadValue

    def parse_node(self, node: Node) -> bool:
        return super().parse_node(shown(node) if isinstance(node, int) else node)

    def text(self, value: bool) -> str:
        return "true" if value else "false"


class Choice(ValueKind[C]):
    """One of a few words, in any case; the value is as declared."""

    def __init__(self, *choices: C) -> None:
        self.choices = choices
        self._by_word = {choice.lower(): choice for choice in choices}
        self._by_word |= {choice: choice for choice in choices}  # the exact word goes first
        self.allowed = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
        self.metavar = "{" + ",".join(choices) + "}"

    def parse(self, text: str) -> C:
        word = text.strip()
        try:
            return self._by_word[word if word in self._by_word else word.lower()]
        except KeyError:
            raise BadValue from None

    def parse_node(self, node: Node) -> C:
        """A version such as 2024.1 is a number in YAML."""
        return super().parse_node(shown(node) if isinstance(node, int | float) else node)


class Text(ValueKind[str]):
    """Any text, or text of a given form: `pattern`, which `allowed` describes."""

    metavar = "TEXT"

    def __init__(
        self,
        allowed: str = "one line of text",
        pattern: str = r"[^\x00-\x1f\x7f]*",
        *,
        secret: bool = False,
    ) -> None:
        self.allowed = allowed
        self.secret = secret
        self._pattern = re.compile(pattern)

    def parse(self, text: str) -> str:
        if not self._pattern.fullmatch(text):
            raise BadValue
        return text

    def parse_node(self, node: Node) -> str:
        if isinstance(node, int | float):
            raise BadValue("write it in quotes")
        return super().parse_node(node)


class Path(ValueKind[str | None]):
    """A path, or None where none is given. Whether it exists is checked where it is opened, not here."""

    metavar = "PATH"
    allowed = "a path"

    def parse(self, text: str) -> str | None:
        if not text or "\0" in text:
            raise BadValue
        return text

    def text(self, value: str | None) -> str:
        return value or ""


class ConfigFile(Path):
    """The path of the settings file itself: a flag and an environment variable, no key in that file."""


class TextMapping(ValueKind[Mapping[str, str]]):
    """Names and texts; as text, NAME=VALUE with commas between."""

    metavar = "NAME=VALUE,..."
    allowed = "a mapping of texts"
    repeatable = True

    def parse(self, text: str) -> Mapping[str, str]:
        pairs = []
        for item in _items(text):
            name, equals, value = item.partition("=")
            if not equals:
                raise BadValue(f"{quoted(item)} has no =")
            pairs.append((name.strip(), value.strip()))
        return self._mapping(pairs)

    def parse_node(self, node: Node) -> Mapping[str, str]:
        if not isinstance(node, Mapping):
            return super().parse_node(node)
        pairs = []
        for name, value in node.items():
            if not isinstance(name, str):
                raise BadValue(f"the name {shown(name)} is not a text; write it in quotes")
            if not isinstance(value, str):
                hint = "; write it in quotes" if isinstance(value, int | float) else ""
                raise BadValue(f"the value of {quoted(name)} is not a text{hint}")
            pairs.append((name, value))
        return self._mapping(pairs)

    def _mapping(self, pairs: Sequence[tuple[str, str]]) -> Mapping[str, str]:
        mapping: dict[str, str] = {}
        for name, value in pairs:
            self._check_name(name)
            if name in mapping:
                raise BadValue(f"{quoted(name)} is given twice")
            mapping[name] = value
        return MappingProxyType(mapping)

    def _check_name(self, name: str) -> None:
        """Raises BadValue."""

    def text(self, value: Mapping[str, str]) -> str:
        return ",".join(f"{name}={label}" for name, label in value.items())


class Labels(TextMapping):
    """Static Prometheus labels. Names that begin with two underscores are Prometheus's own."""

    allowed = "a list of labels such as rack=7,zone=a"

    def _check_name(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII):
            raise BadValue(f"{quoted(name)} is not a label name: letters, digits and _, no digit first")
        if name.startswith("__"):
            raise BadValue(f"{quoted(name)} begins with __, which Prometheus keeps for itself")


class List(ValueKind[tuple[T, ...]]):
    """Several values of one kind, without duplicates; as text, with commas between."""

    repeatable = True

    def __init__(self, item: ValueKind[T], most: int | None = None) -> None:
        self.item = item
        self.most = most
        each = "" if item is TEXT else f", each {item.allowed}"
        self.allowed = f"a list with commas between{each}"
        self.metavar = f"{item.metavar},..."

    def parse(self, text: str) -> tuple[T, ...]:
        return self._values(_items(text))

    def parse_node(self, node: Node) -> tuple[T, ...]:
        if isinstance(node, str) or not isinstance(node, Sequence):
            return super().parse_node(node)
        return self._values(node)

    def read(self, node: Any) -> tuple[T, ...]:
        if isinstance(node, Sequence) and not isinstance(node, str):
            for item in node:
                self.item.read(item)  # raises an error about the item instead of the list
        return super().read(node)

    def _values(self, nodes: Sequence[Node]) -> tuple[T, ...]:
        if self.most is not None and len(nodes) > self.most:
            raise BadValue(f"it has more than {self.most} items")
        values = []
        for node in nodes:
            try:
                values.append(self.item.parse_node(node))
            except BadValue as error:
                raise BadValue(str(error) or self._complaint(node)) from None
        return tuple(dict.fromkeys(values))

    def _complaint(self, item: Node) -> str:
        """Does not repeat the description of the items in `allowed`."""
        if self.item.allowed in self.allowed:
            return f"the wrong one is {shown(item)}"
        return f"{shown(item)} is not {self.item.allowed}"

    def text(self, value: tuple[T, ...]) -> str:
        return ",".join(map(self.item.text, value))


class Patterns(List[str]):
    """Glob patterns of metric names, for `fnmatch`: globs because a name has no character that they use."""

    def __init__(self) -> None:
        super().__init__(Text("a name with * and ? as wildcards", r"[A-Za-z0-9_:*?]+"))
        self.allowed = "a list of metric names with commas between; * and ? are wildcards"
        self.metavar = "PATTERN,..."


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _decimal(given: str | float) -> float:
    try:
        number = float(given)
    except (ValueError, OverflowError):  # an integer may be larger than any float
        raise BadValue from None
    if not math.isfinite(number) or (isinstance(given, str) and "_" in given):
        raise BadValue
    return number


def _plain(number: float) -> str:
    return f"{number:.12g}"


BOOLEAN = Boolean()
CONFIG_FILE = ConfigFile()
LABELS = Labels()
LINE = Text("one line of text that is not empty", r"[^\x00-\x1f\x7f]+")
PATH = Path()
PORT = Port()
TEXT = Text()
TEXT_MAPPING = TextMapping()
PATTERNS = Patterns()
