"""A command that is not carried out as it was given."""

import sys
from contextlib import suppress


class Refused(Exception):
    """The text says what to change."""


def refuse(command: str, reason: object) -> int:
    """Say why in one line on standard error. The exit code."""
    with suppress(OSError):  # a full disk does not change what the code says
        print(f"accelscope {command}: {reason}", file=sys.stderr)
    return 2
