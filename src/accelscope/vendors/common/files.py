"""Small files of the kernel, read whole. Paths are strings: joining others costs more than reading."""

import os

_MOST_BYTES = 65536  # more than what the kernel shows of any in one read
_MOST_LIST_BYTES = 1 << 20


def read_text(path: str) -> str:
    """Raises OSError. May hang: a driver asks its device for some of its files."""
    return read_bytes(path).decode(errors="replace")


def read_bytes(path: str) -> bytes:
    """Raises OSError and may hang, as `read_text`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)


def read_whole(path: str) -> bytes:
    """A list that may be longer than a page, of which the kernel gives no more at each read. Raises OSError
    and may hang, as `read_text`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, _MOST_BYTES)
        more = content
        while more and len(content) < _MOST_LIST_BYTES:
            more = os.read(descriptor, _MOST_BYTES)
            content += more
        return content
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
