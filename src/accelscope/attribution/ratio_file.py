"""`gpu_allocation.txt`: one number, into how many shares each card is cut."""

import re

from accelscope.parsing.parsed import Parsed, ParseError

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LONGEST = 32  # digits that anybody would write
_LEAST, _MOST = 1e-6, 1e6  # beyond is a mistake, and a share of nothing or of everything
_SHOWN = 16  # characters of a wrong text: a longer one is another file, perhaps one with a secret
_WANTED = "one number above 0 is wanted, such as 2 or 2.5"


class RatioError(ValueError):
    """The text is no ratio; the message says what is wanted."""


def parse_ratio(text: str) -> float:
    """The ratio that the text holds, alone but for blanks and empty lines. Raises RatioError."""
    written = text.removeprefix("\ufeff").strip(" \t\r\n")
    if not written:
        raise RatioError(f"empty: {_WANTED}")
    if len(written) > _LONGEST or not _NUMBER.fullmatch(written):
        raise RatioError(f"{_shown(written)} is no ratio: {_WANTED}")
    ratio = float(written)
    if not ratio:
        raise RatioError(f"{written} is not above 0: {_WANTED}")
    if not _LEAST <= ratio <= _MOST:
        raise RatioError(f"{written} is out of range: {_WANTED}, from {_LEAST:f} to {_MOST:.0f}")
    return ratio


def parse_gpu_allocation(text: str) -> Parsed:
    try:
        return Parsed(ratio=parse_ratio(text))
    except RatioError as error:
        return Parsed(error=ParseError("bad_ratio", str(error)))


def _shown(text: str) -> str:
    return ascii(text) if len(text) <= _SHOWN else f"a text of {len(text)} characters"
