"""Files of a node's folder: brought to what is wanted, whatever was there, with reads that fail or hang."""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_SECONDS

from accelscope.simulate.folder import BlockingFile, CharacterDevice, Content, Folder, Link, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path, ("sys", "proc"))


def shown(root: Path) -> dict[str, object]:
    """All that is under the root and no empty folder beside it."""
    found: dict[str, object] = {}
    for place, folders, files in os.walk(root):
        for name in (*files, *folders):
            path = Path(place, name)
            key = path.relative_to(root).as_posix()
            if path.is_symlink():
                found[key] = Link(str(path.readlink()))
            elif path.is_fifo():
                found[key] = BlockingFile()
            elif path.is_char_device():
                number = path.stat().st_rdev
                found[key] = CharacterDevice(os.major(number), os.minor(number))
            elif path.is_file():
                found[key] = path.read_bytes()
            elif not any(path.iterdir()):
                found[key] = Folder()
    return found


DEVICE = CharacterDevice(511, 2)
STATES: list[dict[str, Content]] = [
    {"sys/a": "1\n", "sys/b/c": b"\xff", "sys/b/d/e": "2\n", "proc/1/comm": "x\n"},
    {"sys/a": BlockingFile(), "sys/b": Link("nowhere"), "sys/n/o": Folder()},
    {"sys/a": Folder(), "sys/b/c": Link("../a"), "sys/n/o/p": "deeper\n"},
    {"sys/a/inside": "3\n", "sys/b": "now a file\n", "sys/n": BlockingFile()},
    {"sys/a": Link("b"), "sys/b": BlockingFile(), "sys/n": "4\n"},
    {"sys/a": DEVICE, "sys/b": CharacterDevice(511, 3), "sys/n/o": DEVICE},
    {},
]


@pytest.mark.parametrize("afresh", [False, True], ids=["by the same", "by another"])
def test_any_state_follows_any_other(tmp_path: Path, afresh: bool) -> None:
    for before in STATES:
        for after in STATES:
            tree = Tree(tmp_path, ("sys", "proc"))
            tree.bring_to(before)
            if afresh:  # as after a restart: what is there is found, not known
                tree = Tree(tmp_path, ("sys", "proc"))
            tree.bring_to(after)
            assert shown(tmp_path) == {name: as_shown(content) for name, content in after.items()}


def as_shown(content: Content) -> Content:
    if isinstance(content, CharacterDevice) and os.geteuid() != 0:
        return b""  # only root may make device files
    return content.encode() if isinstance(content, str) else content


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make device files")
def test_a_device_file_of_no_driver_cannot_be_opened(tree: Tree, tmp_path: Path) -> None:
    tree.bring_to({"sys/npu0": DEVICE})
    with pytest.raises(OSError, match="No such device or address"):
        (tmp_path / "sys" / "npu0").read_bytes()


def test_a_number_of_the_machines_own_drivers_is_not_used(tree: Tree, tmp_path: Path) -> None:
    memory = Path("/dev/null").stat()
    tree.bring_to({"sys/npu0": CharacterDevice(os.major(memory.st_rdev), os.minor(memory.st_rdev))})
    assert shown(tmp_path) == {"sys/npu0": b""}


def test_an_ordinary_user_gets_empty_files(
    open_folder: Path, ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    open_folder.chmod(0o777)
    with ordinary_user():
        Tree(open_folder, ("dev",)).bring_to({"dev/npu0": DEVICE})
    assert shown(open_folder) == {"dev/npu0": b""}


def test_unchanged_files_are_not_written(tree: Tree, tmp_path: Path) -> None:
    wanted: dict[str, Content] = {"sys/a": "1\n", "sys/link": Link("a"), "sys/wait": BlockingFile()}
    tree.bring_to(wanted)
    before = {name: (tmp_path / name).lstat().st_ino for name in wanted}
    tree.bring_to({**wanted, "sys/b": "2\n"})
    assert {name: (tmp_path / name).lstat().st_ino for name in wanted} == before


@pytest.mark.parametrize("content", [Link("nowhere"), Folder()], ids=["dangling", "folder"])
def test_reads_that_fail(tree: Tree, tmp_path: Path, content: Content) -> None:
    tree.bring_to({"sys/temp1_input": content})
    with pytest.raises(OSError, match=r"No such file|Is a directory"):
        (tmp_path / "sys/temp1_input").read_text()


@pytest.mark.parametrize(
    ("then", "got"), [({"sys/temp1_input": "45000\n"}, "45000\n"), ({}, "")], ids=["replaced", "removed"]
)
@pytest.mark.parametrize("afresh", [False, True], ids=["by the same", "by another"])
def test_a_read_blocks_until_the_file_can_be_read_or_is_gone(
    tmp_path: Path, then: dict[str, Content], got: str, afresh: bool
) -> None:
    path = tmp_path / "sys/temp1_input"
    results: list[str] = []

    def read() -> None:
        with suppress(FileNotFoundError):  # it came too late to wait
            results.append(path.read_text())

    for seconds in (0.2, 2.0, 20.0):
        tree = Tree(tmp_path, ("sys", "proc"))
        tree.bring_to({"sys/temp1_input": BlockingFile()})
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(seconds)
        assert reader.is_alive()
        (Tree(tmp_path, ("sys", "proc")) if afresh else tree).bring_to(then)
        reader.join(PATIENCE_SECONDS)
        assert not reader.is_alive()
        if results:
            break
    assert results == [got]
