"""Processes that a test, or what it tests, has started."""

from pathlib import Path


def runs(pid: int) -> bool:
    """One that has ended and that nobody asked about (a zombie) does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
