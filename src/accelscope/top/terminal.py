"""What the terminal can show, as far as its environment tells."""

import locale
import os
from collections.abc import Mapping
from typing import IO

from accelscope.top.view.text import ASCII, UNICODE, Glyphs

# Terminals without colours, only bold and reverse: nothing that is shown is told by colour alone.
_COLOURLESS = ("dumb", "vt52", "vt100", "vt102", "vt220", "vt320", "ansi-m", "xterm-mono", "unknown")


def glyphs_for(environ: Mapping[str, str]) -> Glyphs:
    """UTF-8 only where the locale says so. Python itself puts LC_CTYPE=C.UTF-8 into the environment where
    it finds a locale of C or none: that is not what the terminal says."""
    told = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    if told == "C.UTF-8" and not environ.get("LC_ALL") and environ.get("LANG", "C") in ("", "C", "POSIX"):
        return ASCII
    if told in ("C", "POSIX"):
        return ASCII
    name = told.partition("@")[0].partition(".")[2] or locale.getencoding()
    return UNICODE if name.lower().replace("-", "") == "utf8" else ASCII


def is_colourless(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("NO_COLOR")) or environ.get("TERM", "dumb") in _COLOURLESS


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether its cursor cannot be placed."""
    return environ.get("TERM", "") in ("", "dumb", "unknown")


def columns_of(output: IO[str], environ: Mapping[str, str], wide: int) -> int:
    """How wide a table may be: COLUMNS, the terminal's own, or wide for a pipe."""
    told = environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(output.fileno()).columns or wide
    except (OSError, ValueError):
        return wide
