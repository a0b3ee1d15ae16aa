"""One simulated fleet and one browser for all of these tests, with a new profile for each test.

They need Chromium and the built page, but neither root nor a cluster: `.venv/bin/pytest tests/e2e/browser`.
"""

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.e2e.browser.lab import Lab, running_lab
from tests.e2e.browser.screens import WIDE
from tests.e2e.browser.views import View, views_of
from tests.e2e.browser.watching import Watch
from tests.waiting import PATIENCE_SECONDS

_PATIENCE_MS = 1000 * PATIENCE_SECONDS
_FAILED = pytest.StashKey[bool]()
_QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

NewPage = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests last: while a browser is open, Playwright's event loop runs in the main thread, where
    other tests could not run their own."""
    items.sort(key=lambda item: Path(__file__).parent in item.path.parents)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (make e2e installs it)")
    expect.set_options(timeout=_PATIENCE_MS)
    arguments = [*_QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield started
        started.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        assert running.fleet.ask("/").status == 200, "the page is not built: make page"
        yield running


@pytest.fixture(scope="session")
def views(lab: Lab) -> dict[str, View]:
    return views_of(lab)


@pytest.fixture
def watches() -> list[Watch]:
    """Watches of the pages that the test opened."""
    return []


@pytest.fixture
def new_page(
    browser: Browser, watches: list[Watch], request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[NewPage]:
    """Opens pages with a new profile, by default of the lab's fleet; options are those of Playwright's
    `new_context`.

    Errors behind a page fail the test, unless its watch forgives them. A failed test leaves screenshots in
    its folder."""
    contexts = []

    def opened(url: str | None = None, **options: Any) -> Page:
        given: dict[str, Any] = {**WIDE, "locale": "en-GB", "timezone_id": "UTC", **options}
        url = url or request.getfixturevalue("lab").url
        context = browser.new_context(base_url=url, **given)
        context.set_default_timeout(_PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        watches.append(Watch(page, url))
        return page

    yield opened
    if request.node.stash.get(_FAILED, False):
        for number, watch in enumerate(watches):
            watch.page.screenshot(path=tmp_path / f"{number}.png")
    troubles = [trouble for watch in watches for trouble in watch.troubles]
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page(new_page: NewPage) -> Page:
    return new_page()


@pytest.fixture
def watch(page: Page, watches: list[Watch]) -> Watch:
    """The watch of `page`."""
    return watches[0]
