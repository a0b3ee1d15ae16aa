"""What a check says: how bad it is, what was found, and the next step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """In rising order. A note is something to know, not something to mend."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    name: str
    severity: Severity
    found: str
    advice: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)  # plain values, for the JSON form
    hung: bool = False  # a call was left behind that may never come back


def ok(name: str, found: str, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.OK, found=found, details=details)


def note(name: str, found: str, advice: str | None = None, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.NOTE, found=found, advice=advice, details=details)


def warning(name: str, found: str, advice: str, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.WARNING, found=found, advice=advice, details=details)


def error(name: str, found: str, advice: str, **details: Any) -> Finding:
    return Finding(name=name, severity=Severity.ERROR, found=found, advice=advice, details=details)


def counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def sentence(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
