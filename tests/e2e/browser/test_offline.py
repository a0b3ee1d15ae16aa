"""The page needs nothing but its fleet: whatever asks somebody else fails every test (watching.py), and the
files that it is made of name nobody else."""

import re

from tests.repository import REPOSITORY

BUILT = REPOSITORY / "src" / "accelscope" / "fleet" / "page" / "static"
# Never fetched: names of standards, and what an address is completed with where there is no page.
_NAMES = ("http://www.w3.org/", "http://localhost/")


def test_the_built_page_names_nobody_else() -> None:
    for file in BUILT.rglob("*.*"):
        if file.suffix in (".js", ".css", ".html", ".svg"):
            found = re.findall(r"https?://[\w.-]+[\w/.-]*", file.read_text())
            assert [url for url in found if not url.startswith(_NAMES)] == [], file.name
