"""Values of the commands' own options, checked and refused as those of settings are."""

import argparse
from collections.abc import Callable

from accelscope.config.kind import BadValue, quoted
from accelscope.config.scalars import Duration


def duration(minimum: float = 0.0, maximum: float | None = None) -> Callable[[str], float]:
    """For argparse: seconds, from what a setting takes as a duration; a bare number is seconds."""
    kind = Duration(minimum, maximum)

    def seconds(text: str) -> float:
        try:
            return kind.parse(text)
        except BadValue:
            raise argparse.ArgumentTypeError(f"{quoted(text)} is not {kind.allowed}") from None

    return seconds


def code(text: str) -> int:
    """For argparse: of an error; vendors write theirs with 0x."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a number such as 31 or 0x80e01801") from None
