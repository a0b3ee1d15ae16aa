"""The page only uses its fleet: requests to other hosts fail every test (watching.py), and the built files
contain no other URLs."""

import re

from tests.repository import REPOSITORY

BUILT = REPOSITORY / "src" / "accelscope" / "fleet" / "page" / "static"
# Never fetched: names of standards, and the base of relative URLs outside of a page.
_NAMES = ("http://www.w3.org/", "http://localhost/")


def test_built_page_contains_no_other_urls() -> None:
    for file in BUILT.rglob("*.*"):
        if file.suffix in (".js", ".css", ".html", ".svg"):
            found = re.findall(r"https?://[\w.-]+[\w/.-]*", file.read_text())
            assert [url for url in found if not url.startswith(_NAMES)] == [], file.name
