"""Every view by its link, and the navigation between views."""

import re
import time

import pytest
from playwright.sync_api import Page, Route, expect
from tests.e2e.browser.lab import Lab
from tests.e2e.browser.routes import ROUTES
from tests.e2e.browser.views import View, main, rows
from tests.e2e.browser.watching import Watch


@pytest.mark.parametrize("name", ROUTES)
def test_view_opens_by_its_link(page: Page, views: dict[str, View], name: str) -> None:
    assert name in views, f"{name} is new in routes.ts: add it to views.py"
    views[name].open(page)
    expect(page).to_have_title(re.compile(r".+ · AccelScope"))
    expect(page.get_by_role("navigation", name="Views").locator("[aria-current=page]")).to_have_count(1)
    expect(page.get_by_role("banner").get_by_text("simulated")).to_be_visible()


def test_navigation_opens_every_view_without_a_reload(page: Page, views: dict[str, View]) -> None:
    views["events"].open(page)
    page.evaluate("window.same = true")
    links = page.get_by_role("navigation", name="Views").get_by_role("link")
    paths = [links.nth(place).get_attribute("href") or "" for place in range(links.count())]
    assert sorted(paths) == sorted(path for path in ROUTES.values() if ":" not in path)
    for path in paths:
        links.and_(page.locator(f'[href="{path}"]')).click()
        [view] = [each for each in views.values() if each.path == path]
        view.shown(page)
        expect(main(page)).to_be_focused()
    assert page.evaluate("window.same") is True


def test_breadcrumb_leads_to_parents(page: Page, views: dict[str, View]) -> None:
    views["device"].open(page)
    breadcrumb = page.get_by_role("navigation", name="Breadcrumb")
    breadcrumb.get_by_role("link").last.click()
    views["node"].shown(page)
    breadcrumb.get_by_role("link").last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster berlin")
    page.go_back()
    views["node"].shown(page)


def test_unknown_path_shows_not_found(page: Page, views: dict[str, View]) -> None:
    page.goto("/nowhere")
    expect(page.get_by_text("No page at this address")).to_be_visible()
    page.get_by_role("link", name="Go to the overview").click()
    views["overview"].shown(page)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nodes/berlin/nobody", "Node not found"),
        ("/devices/berlin/h100-0001/nvidia%3Anone", "Device not found"),
        ("/pods/berlin/research/nobody", "This pod uses no device"),
        ("/clusters/nowhere", "cluster 'nowhere' not found"),
    ],
)
def test_unknown_object_is_reported(page: Page, watch: Watch, path: str, said: str) -> None:
    watch.forgive(r"status of 404 .*/api/v1/")
    page.goto(path)
    expect(main(page).get_by_text(said)).to_be_visible()


def test_device_values_match_the_api(page: Page, lab: Lab) -> None:
    """One value of each kind."""
    page.goto("/devices?cluster=oslo&node=mi300-0005&index=0")  # stale, so its values do not change
    [device] = lab.items("devices", cluster="oslo", node="mi300-0005", index=0)
    row = main(page).get_by_role("row").last
    expect(row).to_contain_text(f"{round(device['utilization_ratio'] * 100)} %")
    expect(row).to_contain_text(f"{round(device['memory_used_bytes'] / 2**30)} / ")
    expect(row).to_contain_text(f"{round(device['temperature_celsius'])} °C")
    expect(row).to_contain_text(f"{round(device['power_watts'])} W")
    expect(row).to_contain_text(device["model"])


def test_errors_with_a_code_have_their_meaning_and_what_to_do(page: Page, views: dict[str, View]) -> None:
    known = {"kind": "xid", "last_seen": time.time() - 130, "source": "https://docs.example/xid"}
    fatal = {"meaning": "uncorrectable memory error", "severity": "critical", "origin": "hardware"}
    unknown = dict.fromkeys(("meaning", "severity", "origin", "action", "until", "source"))

    def struck(route: Route) -> None:
        detail = route.fetch().json()
        detail["errors"] = [
            {**known, **fatal, "code": "48", "count": 2, "action": "Reset the GPU", "until": "reset"},
            {**known, **unknown, "code": "999", "count": 1},
        ]
        route.fulfill(json=detail)

    page.route("**/api/v1/devices/berlin/**", struck)
    views["device"].open(page)
    of_48, of_999 = (rows(page, "Error counters").filter(has_text=f"XID {code}") for code in ("48", "999"))
    expect(of_48).to_have_text(
        re.compile("critical.*uncorrectable memory error.*2.*2 min ago.*Reset the GPU")
    )
    expect(of_48).to_contain_text("Lasts until a reset")
    expect(of_48.get_by_role("link")).to_have_attribute("href", "https://docs.example/xid")
    expect(of_999.get_by_role("link")).to_have_count(0)
    page.unroute_all(behavior="ignoreErrors")


def test_memory_errors_show_their_last_occurrence(page: Page, views: dict[str, View]) -> None:
    def struck(route: Route) -> None:
        detail = route.fetch().json()
        known = {"severity": "corrected", "count": 3, "block": None}
        detail["reading"]["ecc"] = [
            {**known, "lifetime": False, "last_seen": time.time() - 130},
            {**known, "lifetime": True, "last_seen": None},
        ]
        route.fulfill(json=detail)

    page.route("**/api/v1/devices/berlin/**", struck)
    views["device"].open(page)
    counted = rows(page, "Error counters").filter(has_text="ECC")
    expect(counted).to_have_text([re.compile(r"\d min ago"), re.compile("device lifetime")])
    page.unroute_all(behavior="ignoreErrors")  # the page continues to send requests
