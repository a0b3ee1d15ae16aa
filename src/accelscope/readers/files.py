"""Small files of the kernel, read whole. Paths are strings: joining others costs more than reading."""

import os

_MOST_BYTES = 65536  # a page is what the kernel shows of most; lists of bad memory are longer


def read_text(path: str) -> str:
    """Raises OSError. May hang: a driver asks its device for some of its files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)


def told(path: str) -> str | None:
    """A fact that need not be there: None where it is missing, empty or not to be read."""
    try:
        return read_text(path).strip() or None
    except OSError:
        return None


def entries(folder: str) -> list[str]:
    """Names in a folder, sorted; none where it cannot be looked into."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names, and often
    except OSError:
        return []
