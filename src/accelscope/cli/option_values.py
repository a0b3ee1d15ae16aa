"""Values of the commands' own options, checked and refused as those of settings are."""

import argparse
from collections.abc import Callable
from typing import TypeVar

from accelscope.config.kind import BadValue, Kind, quoted
from accelscope.config.scalars import Duration, WholeNumber

T = TypeVar("T")


def duration(minimum: float = 0.0, maximum: float | None = None) -> Callable[[str], float]:
    """For argparse: seconds, from what a setting takes as a duration; a bare number is seconds."""
    return _of_kind(Duration(minimum, maximum))


def whole_number(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    """For argparse."""
    return _of_kind(WholeNumber(minimum, maximum))


def _of_kind(kind: Kind[T]) -> Callable[[str], T]:
    def value(text: str) -> T:
        try:
            return kind.parse(text)
        except BadValue:
            raise argparse.ArgumentTypeError(f"{quoted(text)} is not {kind.allowed}") from None

    return value


def code(text: str) -> int:
    """For argparse: of an error; vendors write theirs with 0x."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a number such as 31 or 0x80e01801") from None
