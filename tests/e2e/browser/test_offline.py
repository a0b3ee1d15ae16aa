"""The page needs nothing but its fleet."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page
from tests.e2e.browser.lab import Lab
from tests.e2e.browser.views import View

BUILT = Path(__file__).parents[3] / "src" / "accelscope" / "fleet" / "page" / "static"
# Never fetched: names of standards, and what an address is completed with where there is no page.
_NAMES = ("http://www.w3.org/", "http://localhost/")


def test_no_view_asks_anybody_else(page: Page, lab: Lab, views: dict[str, View]) -> None:
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url))
    for view in views.values():
        view.open(page)
    ours = urlsplit(lab.url).netloc
    assert {urlsplit(url).netloc for url in asked if not url.startswith(("data:", "blob:"))} == {ours}


def test_the_built_page_names_nobody_else() -> None:
    for file in BUILT.rglob("*.*"):
        if file.suffix in (".js", ".css", ".html", ".svg"):
            found = re.findall(r"https?://[\w.-]+[\w/.-]*", file.read_text())
            assert [url for url in found if not url.startswith(_NAMES)] == [], file.name
