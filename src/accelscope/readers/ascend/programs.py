"""The program's name, from what npu-smi prints: the name that the kernel keeps, or one that the program set.

Arguments hold secrets, so a name that cannot be told from its arguments is rather cut too short.
"""

_KERNEL_NAME = 15  # characters that the kernel keeps of a program's name; such a name may hold blanks
_NAME_LIMIT = 4096


def program_name(text: str) -> str | None:
    """Empty inside containers, where the tool cannot look the process up."""
    bare = text.strip()[:_NAME_LIMIT]
    if bare.casefold() in ("", "na", "-") or "\ufffd" in bare:
        return None
    if bare.startswith(("/", "./", "../")):
        return bare.split(None, 1)[0].rpartition("/")[2] or None
    if len(bare) > _KERNEL_NAME:
        return bare.split(None, 1)[0]
    return bare.partition(" -")[0].strip() or None
