"""Reading one mapping of a YAML file, key by key, with errors that name the key and what is allowed."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

Choice = TypeVar("Choice", bound=StrEnum)

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|TiB)?")
_COLLECTIONS = {dict: "a mapping", list: "a list", type(None): "nothing"}
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


class DescriptionError(ValueError):
    """A description that cannot be used. One line: where, what is wrong, what is allowed."""

    def __init__(self, problem: str, *, line: int | None = None, file: object = None) -> None:
        place = "" if line is None else f"line {line}: "
        if file is not None:
            place = f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + problem)
        self._problem = problem
        self._line = line
        self._file = file

    def in_file(self, file: object) -> "DescriptionError":
        """With its name, unless it is of a file that this one names."""
        return self if self._file is not None else DescriptionError(self._problem, line=self._line, file=file)


class Section:
    """Each reading method takes a key off; `finish` complains about those that nobody asked for."""

    def __init__(self, document: object, where: str) -> None:
        if not isinstance(document, Mapping):
            raise DescriptionError(f"{where or 'the description'}: expected a mapping, got {_kind(document)}")
        self._left: dict[Any, Any] = dict(document)
        self._known: list[str] = []
        self._where = where

    def part(self, keys: Iterable[str], **more: object) -> "Section":
        """What is given under these keys, and more, as a section in the same place."""
        return type(self)({**{key: self.take(key) for key in keys}, **more}, self._where)

    def path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def error(self, key: str, text: str) -> DescriptionError:
        return DescriptionError(f"{self.path(key)}: {text}")

    def take(self, key: str) -> Any:
        """The raw value, or None."""
        self._known.append(key)
        return self._left.pop(key, None)

    def has(self, key: str) -> bool:
        """Whether the key is there, be it with nothing in it."""
        return key in self._left

    def section(self, key: str) -> "Section":
        """A mapping inside this one; an empty one when the key is not there. The caller finishes it."""
        return Section(self.take(key) or {}, self.path(key))

    def finish(self) -> None:
        if self._left:
            keys = ", ".join(map(shown, self._left))
            place = f"{self._where}: " if self._where else ""
            raise DescriptionError(f"{place}unknown key {keys}; allowed: {', '.join(self._known)}")

    def text(self, key: str, default: str) -> str:
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, str) or not value or "\n" in value:
            raise self.error(key, f"expected a text, got {_kind(value)}")
        return value

    def optional_text(self, key: str, pattern: str, meaning: str) -> str | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise self.error(key, f"{shown(value)} is not {meaning}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, f"expected true or false, got {shown(value)}")
        return value

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        value = self.take(key)
        return default if value is None else self._integer(key, value, low, high)

    def optional_integer(self, key: str, low: int, high: int) -> int | None:
        value = self.take(key)
        return None if value is None else self._integer(key, value, low, high)

    def _integer(self, key: str, value: object, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.error(key, f"expected a whole number from {low} to {high}, got {shown(value)}")
        return value

    def number(self, key: str, default: float, low: float, high: float) -> float:
        value = self.take(key)
        return default if value is None else self._number(key, value, low, high)

    def optional_number(self, key: str, low: float, high: float) -> float | None:
        value = self.take(key)
        return None if value is None else self._number(key, value, low, high)

    def _number(self, key: str, value: object, low: float, high: float) -> float:
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not good or not low <= float(value) <= high:  # type: ignore[arg-type]
            upper = f" to {high:g}" if math.isfinite(high) else " on"
            raise self.error(key, f"expected a number from {low:g}{upper}, got {shown(value)}")
        return float(value)  # type: ignore[arg-type]

    def size(self, key: str, default: int) -> int:
        """Bytes, from a whole number or a text such as 12GiB."""
        value = self.take(key)
        if value is None:
            return default
        match = _SIZE.fullmatch(str(value))
        if isinstance(value, bool) or match is None:
            raise self.error(key, f"expected a size such as 12GiB or 800MiB, got {shown(value)}")
        return int(float(match[1]) * _UNITS[match[2] or "B"])

    def texts(self, key: str) -> tuple[tuple[str, str], ...]:
        """A mapping of texts; none when the key is not there."""
        value = self.take(key)
        if value is None:
            return ()
        if not isinstance(value, Mapping):
            raise self.error(key, f"expected a mapping, got {_kind(value)}")
        for name, text in value.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise self.error(
                    key, f"expected texts, got {shown(name)}: {shown(text)}; quote numbers and true"
                )
        return tuple(value.items())

    def choice(self, key: str, options: type[Choice], default: Choice) -> Choice:
        value = self.take(key)
        if value is None:
            return default
        try:
            return options(str(value))
        except ValueError:
            raise self.error(key, f"{shown(value)} is not known; allowed: {', '.join(options)}") from None

    def items(self, key: str) -> tuple[tuple[str, object], ...]:
        """The members of a list, each with its place; none when the key is not there."""
        value = self.take(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.error(key, f"expected a list, got {_kind(value)}")
        return tuple((f"{self.path(key)}[{i}]", member) for i, member in enumerate(value))

    def sections(self, key: str, read: Callable[["Section"], Any]) -> tuple[Any, ...]:
        return read_each(self.items(key), read)


def read_each(members: Iterable[tuple[str, object]], read: Callable[[Section], Any]) -> tuple[Any, ...]:
    """Members of a list with their places, all of them mappings."""
    results = []
    for where, member in members:
        section = Section(member, where)
        results.append(read(section))
        section.finish()
    return tuple(results)


class Options(Section):
    """Of a command line, with the keys of a description."""

    def path(self, key: str) -> str:
        return key.upper() if key == "kind" else f"--{key}"

    def finish(self) -> None:
        for key in self._left:
            raise self.error(key, "not for this kind of fault")


def shown(value: object) -> str:
    """A value that was given, for an error's text."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    return _COLLECTIONS.get(type(value)) or str(value)


def unknown(value: object) -> str:
    """What is wrong with a value that is none of those allowed."""
    return "say which" if value is None else f"{shown(value)} is not known"


def got(value: object) -> str:
    """The end of an error's text: nothing where nothing was given."""
    return "" if value is None else f"; got {shown(value)}"


def _kind(value: object) -> str:
    return "a text" if isinstance(value, str) else shown(value)
