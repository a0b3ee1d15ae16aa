"""Keyboard navigation."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.browser.views import View, main, rows

DESTINATIONS = {
    "o": "overview",
    "m": "map",
    "c": "clusters",
    "n": "nodes",
    "d": "devices",
    "s": "namespaces",
    "p": "pods",
    "r": "processes",
    "i": "idle",
    "e": "events",
}


def test_g_and_a_letter_open_every_list(page: Page, views: dict[str, View]) -> None:
    views["events"].open(page)
    for letter, name in DESTINATIONS.items():
        page.keyboard.press("g")
        page.keyboard.press(letter)
        views[name].shown(page)


def test_first_tab_stop_skips_to_the_content(page: Page, views: dict[str, View]) -> None:
    views["nodes"].open(page)
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(main(page)).to_be_focused()


def test_keyboard_leads_from_the_overview_to_a_device(page: Page, views: dict[str, View]) -> None:
    views["overview"].open(page)
    page.keyboard.press("g")
    page.keyboard.press("n")
    views["nodes"].shown(page)
    page.keyboard.press("Tab")
    expect(main(page).get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("h100-0003")
    expect(rows(page)).to_have_count(1)
    link = rows(page).get_by_role("rowheader").get_by_role("link")
    tab_to(page, link.get_attribute("href"))
    page.keyboard.press("Enter")
    views["node"].shown(page)
    device = main(page).get_by_role("region", name="Devices").get_by_role("link").nth(2)
    tab_to(page, device.get_attribute("href"))
    page.keyboard.press("Enter")
    views["device"].shown(page)


def tab_to(page: Page, href: str | None) -> None:
    """Press Tab until the link has the focus; the focus must be visible at every stop."""
    for _ in range(60):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => {
                const element = document.activeElement;
                const {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(element);
                const seen = outlineStyle !== "none" && outlineWidth !== "0px" || boxShadow !== "none";
                return {href: element.getAttribute("href"), seen, html: element.outerHTML.slice(0, 200)};
            }"""
        )
        assert at["seen"], f"the focus is not visible on {at['html']}"
        if at["href"] == href:
            return
    raise AssertionError(f"no Tab leads to {href}")


def test_help_lists_the_shortcuts_and_restores_the_focus(page: Page, views: dict[str, View]) -> None:
    views["nodes"].open(page)
    box = main(page).get_by_role("button", name="Cluster").first
    box.focus()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Help and settings")
    expect(dialog.get_by_text("pause or resume updates")).to_be_visible()
    page.keyboard.press("Tab")
    assert dialog.evaluate("dialog => dialog.contains(document.activeElement)")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(box).to_be_focused()


def test_keyboard_shortcuts_can_be_disabled(page: Page, views: dict[str, View]) -> None:
    views["nodes"].open(page)
    page.keyboard.press("?")
    page.get_by_role("checkbox", name="Enable keyboard shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("p")
    page.wait_for_timeout(300)
    expect(page.get_by_text("Updates are paused.")).to_have_count(0)


def test_typing_into_a_field_triggers_no_shortcut(page: Page, views: dict[str, View]) -> None:
    views["nodes"].open(page)
    main(page).get_by_role("searchbox").press_sequentially("gpt?/")
    expect(main(page).get_by_role("searchbox")).to_have_value("gpt?/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Nodes")
    expect(page.get_by_text("Paused")).to_have_count(0)


@pytest.mark.parametrize("view", ["nodes", "pods"])
def test_menu_works_with_the_keyboard(page: Page, views: dict[str, View], view: str) -> None:
    views[view].open(page)
    button = main(page).get_by_role("search").get_by_role("button", name=re.compile("^Cluster"))
    button.focus()
    page.keyboard.press("Enter")
    expect(main(page).get_by_role("checkbox", name=re.compile("berlin"))).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page).to_have_url(re.compile("cluster=berlin"))
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
