"""How a command that reads this node ends: no tool outlives it, and no driver call that hangs keeps it."""

import os
from collections.abc import Callable

from accelscope.cli.output import written
from accelscope.vendors.common.tool import end_running_tools, start_no_more_tools


def to_the_end(command: Callable[[], tuple[int, bool]]) -> int:
    """Its exit code. `command` gives that, and whether a call into a driver hangs: a thread inside one would
    keep the interpreter from ending."""
    try:
        code, hangs = command()
    finally:
        start_no_more_tools()
        end_running_tools()
    if hangs:
        os._exit(written(code))
    return code
