"""The name of a process from what a tool calls it.

The tools take the kernel's short name, or the path of the program; some versions print the whole command
line. Arguments hold secrets, so a name that can not be told from its arguments is rather cut too short.
"""

from accelscope.readers.amd.quantities import absence

_KERNEL_NAME = 15  # characters that the kernel keeps of a program's name; such a name may hold blanks


def program_name(text: str) -> str | None:
    told = text.strip()[:4096]
    if absence(told) is not None or "\ufffd" in told:
        return None
    if told.startswith(("/", "./", "../")):
        return told.split(None, 1)[0].rsplit("/", 1)[-1] or None
    if len(told) > _KERNEL_NAME:
        return told.split(None, 1)[0]
    return told.partition(" -")[0].strip() or None
