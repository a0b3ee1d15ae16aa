"""The global search."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.browser.lab import HOT, Lab
from tests.e2e.browser.views import View


@pytest.fixture
def searching(page: Page, views: dict[str, View]) -> Page:
    """A page with the focus in the search field."""
    views["overview"].open(page)
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name=re.compile("Search"))).to_be_focused()
    return page


def test_search_works_with_the_keyboard(searching: Page, views: dict[str, View]) -> None:
    searching.keyboard.type(HOT.node)
    found = searching.get_by_role("listbox", name="Results")
    expect(found.get_by_role("option", name=re.compile(f"^{HOT.node} "))).to_be_visible()
    searching.keyboard.press("ArrowDown")
    expect(found.get_by_role("option", selected=True)).to_have_count(1)
    expect(found.get_by_role("option", selected=True)).to_contain_text(HOT.node)
    searching.keyboard.press("Enter")
    views["node"].shown(searching)
    expect(found.get_by_role("option")).to_have_count(0)


def test_device_is_found_by_its_uuid(searching: Page, lab: Lab, views: dict[str, View]) -> None:
    uuid = lab.device(HOT)["uuid"]
    searching.keyboard.type(uuid[:14])
    searching.get_by_role("option", name=re.compile(uuid)).click()
    views["device"].shown(searching)


@pytest.mark.parametrize(
    ("typed", "group", "leads_to"),
    [
        ("proc", "Views", "/processes"),
        ("llm-pretrain", "Pods", "/pods/berlin/research/"),
        ("odd", "Namespaces", "/pods?cluster=berlin&namespace=odd"),
    ],
)
def test_views_pods_and_namespaces_are_found(searching: Page, typed: str, group: str, leads_to: str) -> None:
    searching.keyboard.type(typed)
    options = searching.get_by_role("group", name=group).get_by_role("option")
    options.first.click()
    expect(searching).to_have_url(re.compile(re.escape(leads_to)))


def test_enter_without_a_selection_lists_matching_devices(searching: Page) -> None:
    searching.keyboard.type("warboy")
    searching.keyboard.press("Enter")
    expect(searching).to_have_url(re.compile(r"/devices\?q=warboy$"))
    expect(searching.get_by_role("heading", level=1)).to_have_text("Devices")


def test_no_results_are_reported_and_escape_closes(searching: Page) -> None:
    searching.keyboard.type("nothing-of-that-name")
    said = searching.get_by_text("No results for “nothing-of-that-name”.")
    expect(said).to_be_visible()
    searching.keyboard.press("Escape")
    expect(said).to_have_count(0)
    searching.keyboard.press("Escape")
    expect(searching.get_by_role("combobox", name=re.compile("Search"))).to_have_value("")
