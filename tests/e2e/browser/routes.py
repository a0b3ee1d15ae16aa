"""The routes of the page, read from its source, so that new views are tested too."""

import re
from urllib.parse import quote

from tests.repository import REPOSITORY

_ROUTES = REPOSITORY / "web" / "src" / "app" / "routes.ts"


def routes() -> dict[str, str]:
    """Path patterns by view: `/nodes/:cluster/:node`."""
    table = re.search(r"const ROUTES = \{\n(.*?)\n\} as const", _ROUTES.read_text(), re.DOTALL)
    assert table is not None, f"{_ROUTES} has no table of routes"
    found = re.findall(r'^  (\w+): "(/[^"]*)",$', table[1], re.MULTILINE)
    assert len(found) == len(table[1].splitlines()), table[1]
    return dict(found)


ROUTES = routes()


def link(view: str, **parts: str) -> str:
    return re.sub(r":(\w+)", lambda match: quote(parts[match[1]], safe=""), ROUTES[view])
