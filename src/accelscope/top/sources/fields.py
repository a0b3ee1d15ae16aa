"""Fields of a row that somebody else sent: of the kind that is expected, or an error that names the field."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

Row = Mapping[str, Any]
E = TypeVar("E", bound=StrEnum)


class RowError(ValueError):
    """A row that is none, and why."""


def named(row: Row, name: str) -> str:
    """A text that must be there."""
    found = text(row, name)
    if found is None:
        raise RowError(f"{name}: missing")
    return found


def text(row: Row, name: str) -> str | None:
    value = row.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _other(name, "a text", value)


def number(row: Row, name: str) -> float | None:
    value = row.get(name)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise _other(name, "a number", value)


def whole(row: Row, name: str) -> int | None:
    value = row.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _other(name, "a whole number", value)


def numbered(row: Row, name: str) -> int:
    """A whole number that must be there."""
    found = whole(row, name)
    if found is None:
        raise RowError(f"{name}: missing")
    return found


def count(row: Row, name: str) -> int:
    """Of what is not counted there is none."""
    return whole(row, name) or 0


def flag(row: Row, name: str) -> bool | None:
    value = row.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise _other(name, "true or false", value)


def word(row: Row, name: str, words: type[E]) -> E:
    value = named(row, name)
    try:
        return words(value)
    except ValueError:
        raise RowError(f"{name}: {value[:40]!r} is none of {', '.join(words)}") from None


def part(row: Row, name: str) -> Row:
    value = row.get(name)
    if isinstance(value, Mapping):
        return value
    raise _other(name, "an object", value)


def rows(row: Row, name: str) -> Sequence[Row]:
    value = row.get(name)
    if not isinstance(value, list):
        raise _other(name, "a list", value)
    for item in value:
        if not isinstance(item, Mapping):
            raise _other(name, "objects", item)
    return value


def rows_if_any(row: Row, name: str) -> Sequence[Row]:
    """Of what older ones do not tell, none."""
    return () if row.get(name) is None else rows(row, name)


def _other(name: str, expected: str, value: object) -> RowError:
    if value is None:
        return RowError(f"{name}: missing")
    return RowError(f"{name}: expected {expected}, got {type(value).__name__}")
