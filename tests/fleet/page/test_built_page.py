"""The files of the page: how they are found, and whether a built page fits its server."""

import re
from pathlib import Path

import pytest

from accelscope.fleet.page import BuiltPage

FILES = {"index.html": b"<!doctype html>", "assets/main-0aB1cD2e.css": b"body{}", "favicon.svg": b"<svg/>"}


def test_a_folder_is_read_with_its_subfolders(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / ".built").write_text("hidden")
    page = BuiltPage.load(tmp_path)
    (tmp_path / "assets" / "later-01234567.js").write_text("")
    for name, content in FILES.items():
        found = page.file(f"/{name}")
        assert found is not None
        assert found.content == content
    assert page.file("/.built") is None
    assert page.file("/assets/later-01234567.js") is None, "listed once, at the start"
    assert page.file("/assets") is None


def test_a_missing_folder_is_a_page_that_was_not_built(tmp_path: Path) -> None:
    assert BuiltPage.load(tmp_path / "static").index is None


@pytest.fixture
def page() -> BuiltPage:
    page = BuiltPage.load()
    if page.index is None:
        pytest.skip("the page is not built: make page")
    return page


@pytest.fixture
def index(page: BuiltPage) -> str:
    assert page.index is not None
    return page.index.content.decode()


def test_every_file_of_the_index_is_served_and_cached(page: BuiltPage, index: str) -> None:
    named = re.findall(r'(?:src|href)="([^"]+)"', index)
    assert [name for name in named if name.endswith(".js")]
    for path in named:
        found = page.file(path)
        assert found is not None, path
        assert found.is_immutable or not path.startswith("/assets/")
        assert found.media_type != "application/octet-stream"


def test_the_page_needs_nothing_that_its_policy_forbids(page: BuiltPage, index: str) -> None:
    for element, attributes, content in re.findall(r"<(script|style)\b([^>]*)>(.*?)</\1>", index, re.DOTALL):
        assert element == "script"
        assert 'src="/' in attributes
        assert content == ""
    assert not re.search(r"\s(?:on\w+|style)=", index)
    assert not re.search(r"https?://", index), "works without the rest of the world"


def test_the_page_is_small(page: BuiltPage, index: str) -> None:
    """The compressed size of a first visit, which takes seconds over a slow connection."""
    paths = ["/", *re.findall(r'(?:src|href)="([^"]+)"', index)]
    sizes = [len(found.compressed or found.content) for path in paths if (found := page.file(path))]
    assert sum(sizes) < 300 << 10
