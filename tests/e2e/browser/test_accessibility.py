"""axe finds no serious problem on any view, theme and screen size; on small screens only tables scroll
horizontally."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.browser.conftest import NewPage
from tests.e2e.browser.routes import ROUTES
from tests.e2e.browser.screens import SCREENS, THEMES, Theme
from tests.e2e.browser.views import View, main
from tests.repository import REPOSITORY

AXE = REPOSITORY / "web" / "node_modules" / "axe-core" / "axe.min.js"
# Headings and buttons outside of the viewport.
_OUT_OF_SIGHT = """width => [...document.querySelectorAll("main h1, main h2, main button, header button")]
  .filter(element => !element.closest("table, canvas, dialog"))
  .filter(element => element.checkVisibility() && element.getBoundingClientRect().right > width + 1)
  .map(element => element.outerHTML)"""
SERIOUS = ("serious", "critical")
# Filters for lists, so that they have rows of each kind but are not long.
PART = {
    "devices": "?node=h100-0001&node=mi300-0005",
    "events": "?cluster=berlin",
    "idle": "?min_seconds=5",
    "nodes": "?cluster=berlin&cluster=oslo",
    "pods": "?node=h100-0001&node=mi300-0005",
    "processes": "?node=mi300-0001",
}


@pytest.fixture(scope="session")
def axe() -> str:
    assert AXE.is_file(), "axe-core is not installed: scripts/npm"
    return AXE.read_text()


def problems(page: Page, axe: str, *rules: str) -> list[str]:
    """Serious violations with their elements; `rules`: only these, default all."""
    page.evaluate(axe)
    options = {"resultTypes": ["violations"], "preload": False, "iframes": False}
    if rules:
        options["runOnly"] = list(rules)
    found: Any = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{violation['help']}: {node['html'][:200]}: {node.get('failureSummary', '')[:300]}"
        for violation in found["violations"]
        if violation["impact"] in SERIOUS
        for node in violation["nodes"][:3]
    ]


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", ROUTES)
def test_view_is_accessible_and_fits_the_screen(
    new_page: NewPage, views: dict[str, View], axe: str, name: str, screen: str
) -> None:
    page = new_page(bypass_csp=True, reduced_motion="reduce", **SCREENS[screen])
    views[name].open(page, PART.get(name, ""))
    width = SCREENS[screen]["viewport"]["width"]
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    assert page.evaluate(_OUT_OF_SIGHT, width) == []
    assert problems(page, axe) == []
    page.emulate_media(color_scheme="dark")  # changes only colours
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert problems(page, axe, "color-contrast") == []


@pytest.mark.parametrize("theme", THEMES)
def test_dialogs_and_menus_are_accessible(
    new_page: NewPage, views: dict[str, View], axe: str, theme: Theme
) -> None:
    page = new_page(bypass_csp=True, reduced_motion="reduce", color_scheme=theme)
    views["devices"].open(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert problems(page, axe) == []
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("h100")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    assert problems(page, axe) == []
    page.keyboard.press("Escape")
    main(page).get_by_role("search").get_by_role("button", name="Model").click()
    expect(main(page).get_by_role("checkbox").first).to_be_visible()
    main(page).get_by_role("checkbox").first.check()
    assert problems(page, axe) == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/devices?cluster=atlantis",
        "/clusters/quito",
        "/nodes/seoul/rngd-0004",
        "/nodes/oslo/mi300-0005",
    ],
)
def test_empty_views_are_accessible(new_page: NewPage, axe: str, path: str, theme: Theme) -> None:
    page = new_page(bypass_csp=True, reduced_motion="reduce", color_scheme=theme)
    page.goto(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(main(page).get_by_role("status", name="Loading")).to_have_count(0)
    assert problems(page, axe) == []
