"""A watch sees new content however it got there, and nothing else."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from accelscope.files import FileWatch


def _rewrite(path: Path) -> None:
    path.write_text("new")


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("new")
    other.rename(path)


def _same_size_and_time(path: Path) -> None:
    status = path.stat()
    path.write_text("odl")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _link(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("new")
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize("change", [_rewrite, _replace, _same_size_and_time, _link, Path.unlink])
def test_sees_new_content_once(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    watch = FileWatch(path)
    assert not watch.changed()
    change(path)
    assert watch.changed()
    assert not watch.changed()


def test_the_same_content_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("new")
    watch = FileWatch(path)
    _replace(path)
    _link(path)
    os.utime(path)
    assert not watch.changed()


def test_a_file_that_comes_later_is_a_change(tmp_path: Path) -> None:
    watch = FileWatch(tmp_path / "file")
    assert not watch.changed()
    (tmp_path / "file").write_text("")
    assert watch.changed()


def test_a_loop_of_links_is_as_good_as_no_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.symlink_to(path)
    watch = FileWatch(path)
    assert not watch.changed()
    path.unlink()
    path.write_text("new")
    assert watch.changed()


def test_a_file_that_could_not_be_read_for_a_moment_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    watch = FileWatch(path)

    def no_descriptor(_: Path) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as broken:
        broken.setattr("accelscope.files.open_regular", no_descriptor)
        path.write_text("new")
        assert watch.changed()  # it is no longer what it was
        assert not watch.changed()
    assert watch.changed()
    assert not watch.changed()
