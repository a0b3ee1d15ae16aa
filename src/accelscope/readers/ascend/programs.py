"""The program's name, from what npu-smi prints: the name that the kernel keeps, cut to fit the column."""

_NAME_LIMIT = 256


def program_name(text: str) -> str | None:
    """Empty inside containers, where the tool cannot look the process up. A name with a path in it was set by
    the program itself, and what follows a blank there may be arguments."""
    bare = text.strip()[:_NAME_LIMIT]
    if bare.startswith("/"):
        bare = bare.split()[0].rpartition("/")[2]
    return None if bare.casefold() in ("", "na", "-") or "\ufffd" in bare else bare
