"""The name of a process from what a tool calls it.

Tools take the kernel's short name, or the path of the program; some versions print the whole command line.
Arguments hold secrets, so a name that can not be told from its arguments is rather cut too short.
"""

from collections.abc import Callable

_KERNEL_NAME = 15  # characters that the kernel keeps of a program's name; such a name may hold blanks
_LONGEST = 4096


def program_name(text: str, absence: Callable[[str], object]) -> str | None:
    """`absence` tells the vendor's words for none: tools in containers cannot look the process up."""
    told = text.strip()[:_LONGEST]
    if absence(told) is not None or "\ufffd" in told:
        return None
    if told.startswith(("/", "./", "../")):
        return told.split(None, 1)[0].rpartition("/")[2] or None
    if len(told) > _KERNEL_NAME:
        return told.split(None, 1)[0]
    return told.partition(" -")[0].strip() or None
