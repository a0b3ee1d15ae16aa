"""Half characters in JSON: `\\ud800` alone is allowed there, and no UTF-8 can hold what it decodes to."""

import re

# An escaped backslash, a pair that is one character, or a half of one; each is taken from left to right.
_ESCAPE = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.ASCII,
)
_REPLACEMENT = r"\ufffd"


def without_halves(text: str) -> str:
    """The same JSON with U+FFFD for each half: one such name would cost the node its whole page."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda match: _REPLACEMENT if match[1] else match[0], text)
