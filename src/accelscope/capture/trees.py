"""Small files of the kernel as one text: `=== path` and what the file holds, one after the other.

A read of a sick device's file may never come back, so the reading is done by a thread that is left behind.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from accelscope.capture.plan import Tree
from accelscope.deadline import call_with_deadline
from accelscope.vendors.common.files import read_whole

_MOST_FILES = 20_000


@dataclass(frozen=True, slots=True)
class TreeText:
    text: str
    files: int
    hung: str | None = None  # the path whose read did not come back


@dataclass(slots=True)
class _Progress:
    lines: list[str] = field(default_factory=list)
    files: int = 0
    at: str = ""


def read_tree(tree: Tree, root: Path, *, seconds: float) -> TreeText:
    """Everything that could be read within the time. Paths begin with the root's usual name."""
    progress = _Progress()

    def read() -> None:
        for path in _paths(tree, root):
            progress.at = str(path)
            progress.lines.append(
                _entry(path, f"/{tree.root}/{path.relative_to(root)}", listed=not tree.files)
            )
            progress.files += 1

    try:
        call_with_deadline(f"tree {tree.source}", read, seconds)
    except Exception:  # noqa: BLE001 - whatever it is, it must not cost more than this tree
        return TreeText("".join(progress.lines), progress.files, hung=progress.at)
    return TreeText("".join(progress.lines), progress.files)


def _paths(tree: Tree, root: Path) -> Iterator[Path]:
    found = 0
    for pattern in tree.folders:
        for folder in sorted(root.glob(pattern)):
            if tree.only is not None and _word(folder / tree.only[0]) != tree.only[1]:
                continue
            for path in _of_folder(tree, folder):
                found += 1
                if found > _MOST_FILES:
                    return
                yield path


def _of_folder(tree: Tree, folder: Path) -> Iterator[Path]:
    if not tree.files:
        yield folder
        return
    if tree.asleep is not None and _word(folder / tree.asleep[0]).startswith(tree.asleep[1]):
        yield folder / tree.asleep[0]
        return
    # A folder of the kernel holds links back to itself: only what is named is followed.
    files = {path for pattern in tree.files for path in folder.glob(pattern) if not path.is_dir()}
    yield from sorted(files)


def _word(path: Path) -> str:
    content = _content(path)
    return content.decode(errors="replace").strip() if isinstance(content, bytes) else ""


def _entry(path: Path, name: str, *, listed: bool) -> str:
    if listed:
        kind = "char device" if path.is_char_device() else "folder" if path.is_dir() else "file"
        return f"=== {name} ({kind})\n"
    content = _content(path)
    if isinstance(content, OSError):
        return f"=== {name} (cannot be read: {content.strerror})\n"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"=== {name} (binary, {len(content)} bytes, left out)\n"
    return f"=== {name}\n{text}" + ("" if text.endswith("\n") or not text else "\n")


def _content(path: Path) -> bytes | OSError:
    try:
        return read_whole(str(path))
    except OSError as error:
        return error
