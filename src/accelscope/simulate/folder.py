"""Writing files that others read at any moment: each appears whole, or not yet."""

import os
from collections.abc import Mapping
from pathlib import Path


def write_bytes(path: Path, content: bytes, *, executable: bool = False) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_bytes(content)
    except FileNotFoundError:  # its folder: looking first would cost a node of many processes dearly
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(content)
    if executable:
        scratch.chmod(0o755)
    scratch.replace(path)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


class Tree:
    """Text files in some folders of `root` that are brought to a wanted state again and again.

    Only what differs from last time is written. Files that are not wanted (any more) go last, after all that
    might have named them; so do folders that this leaves empty."""

    def __init__(self, root: Path, folders: tuple[str, ...]) -> None:
        self._root = root
        self._folders = folders
        self._written: dict[str, str | None] | None = None  # None as a text: there, but not by us

    def bring_to(self, wanted: Mapping[str, str]) -> None:
        """Writes in the order of `wanted`."""
        written = self._found() if self._written is None else self._written
        for name, text in wanted.items():
            if written.get(name) != text:
                write_text(self._root / name, text)
                written[name] = text
        for name in written.keys() - wanted.keys():
            self._remove(self._root / name)
            del written[name]
        self._written = written

    def _found(self) -> dict[str, str | None]:
        return {
            path.relative_to(self._root).as_posix(): None
            for folder in self._folders
            for path in (self._root / folder).rglob("*")
            if path.is_file()
        }

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        folder = path.parent
        while folder != self._root and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
