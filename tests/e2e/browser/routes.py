"""The places of the page, read where the page has them: a view that is new there is new here."""

import re
from urllib.parse import quote

from tests.repository import REPOSITORY

_ROUTES = REPOSITORY / "web" / "src" / "app" / "routes.ts"


def routes() -> dict[str, str]:
    """Patterns of paths by view: `/nodes/:cluster/:node`."""
    table = re.search(r"const ROUTES = \{\n(.*?)\n\} as const", _ROUTES.read_text(), re.DOTALL)
    assert table is not None, f"{_ROUTES} has no table of routes any more"
    found = re.findall(r'^  (\w+): "(/[^"]*)",$', table[1], re.MULTILINE)
    assert len(found) == len(table[1].splitlines()), table[1]
    return dict(found)


ROUTES = routes()


def link(view: str, **parts: str) -> str:
    return re.sub(r":(\w+)", lambda match: quote(parts[match[1]], safe=""), ROUTES[view])
