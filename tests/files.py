"""Files that a test changes under a program that reads them."""

from pathlib import Path


def put(path: Path, content: str, mode: int = 0o644) -> None:
    """As careful programs write a file: nobody sees half of it."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(content)
    new.chmod(mode)
    new.replace(path)
