"""Filters are stored in the address."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.browser.lab import Lab
from tests.e2e.browser.views import View, log, main, rows


def choose(page: Page, facet: str, value: str) -> None:
    bar = main(page).get_by_role("search")
    bar.get_by_role("button", name=facet).click()
    bar.get_by_role("checkbox", name=value).check()
    page.keyboard.press("Escape")


def total(page: Page, text: str) -> None:
    expect(main(page).get_by_role("search").get_by_role("status")).to_have_text(text)


def parameters(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_filters_are_in_the_address_and_the_history(page: Page, lab: Lab, views: dict[str, View]) -> None:
    views["devices"].open(page)
    everything = main(page).get_by_role("search").get_by_role("status").inner_text()
    furiosa = len(lab.items("devices", vendor="furiosa", limit=1000))
    in_oslo = len(lab.items("devices", vendor="furiosa", cluster="oslo", limit=1000))
    assert 0 < in_oslo < furiosa

    choose(page, "Vendor", "Furiosa")
    total(page, f"{furiosa} devices")
    choose(page, "Cluster", "oslo")
    total(page, f"{in_oslo} devices")
    assert parameters(page) == {"vendor": ["furiosa"], "cluster": ["oslo"]}
    expect(rows(page)).to_have_count(in_oslo)

    page.reload()
    total(page, f"{in_oslo} devices")
    page.go_back()
    total(page, f"{furiosa} devices")
    page.get_by_role("button", name="Remove filter Vendor Furiosa").click()
    total(page, everything)
    page.go_back()
    total(page, f"{furiosa} devices")


@pytest.mark.parametrize(
    ("view", "parameters", "api"),
    [
        ("nodes", "?cluster=berlin&vendor=nvidia", "nodes?cluster=berlin&vendors=nvidia"),
        ("nodes", "?state=stale&state=incompatible", "nodes?state=stale&state=incompatible"),
        ("devices", "?health=lost", "devices?health=lost"),
        (
            "devices",
            "?temperature_celsius_min=85&cluster=oslo",
            "devices?temperature_celsius_min=85&cluster=oslo",
        ),
        ("devices", "?q=warboy", "devices?q=warboy"),
        ("namespaces", "?cluster=berlin", "namespaces?cluster=berlin"),
        ("processes", "?namespace=odd", "processes?namespace=odd"),
    ],
)
def test_link_with_filters_shows_matching_rows(
    page: Page, lab: Lab, views: dict[str, View], view: str, parameters: str, api: str
) -> None:
    wanted = len(lab.fleet.get(f"/api/v1/{api}&limit=1000")["items"])
    assert wanted > 0
    page.goto(views[view].path + parameters)
    expect(rows(page)).to_have_count(min(wanted, 100))
    one = {"processes": "process"}.get(view, view.removesuffix("s"))
    total(page, f"{wanted} {one if wanted == 1 else view}")


def test_search_text_is_in_the_address(page: Page, views: dict[str, View]) -> None:
    views["nodes"].open(page)
    box = main(page).get_by_role("searchbox", name="Search nodes")
    box.press_sequentially("warboy")
    expect(rows(page)).to_have_count(3)
    expect(page).to_have_url(re.compile(r"/nodes\?q=warboy$"))
    box.press("Escape")
    views["nodes"].shown(page)
    expect(page).to_have_url(re.compile(r"/nodes$"))


@pytest.mark.parametrize("view", ["nodes", "devices", "pods", "namespaces", "processes", "idle", "map"])
def test_filters_without_matches_can_be_cleared(page: Page, views: dict[str, View], view: str) -> None:
    page.goto(f"{views[view].path}?cluster=atlantis")
    expect(main(page).get_by_text(re.compile("^No .* matches these filters$"))).to_be_visible()
    main(page).get_by_role("button", name=re.compile("^Clear filters$")).click()
    views[view].shown(page)
    expect(page).to_have_url(re.compile(f"{views[view].path}$"))


def test_map_and_table_share_filters(page: Page, views: dict[str, View]) -> None:
    views["map"].open(page, "?vendor=amd")
    page.get_by_role("link", name="Show as table").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Devices")
    total(page, "40 devices")
    assert parameters(page) == {"vendor": ["amd"]}


def test_event_log_filters(page: Page, views: dict[str, View]) -> None:
    views["events"].open(page)
    expect(log(page).get_by_text("Node stale").first).to_be_visible()
    page.get_by_role("button", name="critical").click()
    expect(log(page).get_by_text("Node stale")).to_have_count(0)
    expect(log(page).get_by_text("Device lost").first).to_be_visible()
    assert parameters(page) == {"severity": ["critical"]}
    page.get_by_role("combobox", name="Cluster").select_option("quito")
    expect(log(page).get_by_text("Device lost")).to_have_count(0)
    expect(log(page).get_by_text("Cluster unreachable").first).to_be_visible()
    page.reload()
    expect(log(page).get_by_text("Cluster unreachable").first).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    expect(log(page).get_by_text("Node stale").first).to_be_visible()
