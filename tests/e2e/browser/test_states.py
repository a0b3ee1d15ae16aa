"""The page with stale, missing, late and unavailable data."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, Route, expect
from tests.e2e.browser.conftest import NewPage
from tests.e2e.browser.lab import (
    INCOMPATIBLE,
    SILENT,
    TROUBLED_CLUSTER,
    UNREACHED_CLUSTER,
    Lab,
    url_of,
)
from tests.e2e.browser.routes import ROUTES, link
from tests.e2e.browser.views import View, main, row, rows
from tests.e2e.browser.watching import Watch
from tests.waiting import wait_until

NO_ANSWER = r"ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE"
FETCHED_AHEAD = "() => performance.getEntriesByType('resource').some(({name}) => name.includes('/devices-'))"
AGE = re.compile(r"stale \d+ (s|min)")


def test_lost_connection_is_reported_and_old_data_stays(
    new_page: NewPage, watches: list[Watch], lab: Lab
) -> None:
    fleet = lab.another_fleet(lab.simulated.entries)
    with fleet:
        page = new_page(url_of(fleet))
        watches[0].forgive(NO_ANSWER)
        page.goto("/nodes?cluster=seoul")
        expect(rows(page)).to_have_count(8)
        expect(page.get_by_role("banner").get_by_text("Live")).to_be_visible()
        page.wait_for_function(FETCHED_AHEAD)
    lost = page.get_by_text(re.compile(r"Connection lost \d+ s ago; data is from [\d:]+\."))
    expect(lost).to_be_visible()
    expect(page.get_by_role("status").get_by_text("Connection lost; data may be stale.")).to_be_attached()
    expect(rows(page)).to_have_count(8)
    page.get_by_role("link", name="Devices").click()  # already loaded
    expect(page.get_by_role("heading", level=1)).to_have_text("Devices")
    expect(main(page).get_by_role("alert")).to_contain_text("The fleet does not respond")
    page.go_back()
    with fleet:
        expect(lost).to_have_count(0, timeout=60_000)
        expect(page.get_by_role("banner").get_by_text("Live")).to_be_visible()
        expect(main(page).get_by_role("alert")).to_have_count(0)
        expect(rows(page)).to_have_count(8)
        page.goto("about:blank")


def test_silent_node_is_stale_with_its_age(page: Page, views: dict[str, View]) -> None:
    page.goto(f"/nodes?q={SILENT.node}")
    expect(row(page, SILENT.node)).to_contain_text("stale")
    page.goto(f"/devices?cluster={SILENT.cluster}&node={SILENT.node}")
    expect(rows(page)).to_have_count(8)
    for place in range(8):
        expect(rows(page).nth(place)).to_contain_text(AGE)
    page.goto(link("node", cluster=SILENT.cluster, node=SILENT.node))
    expect(main(page).get_by_text(AGE).first).to_be_visible()
    note = main(page).get_by_role("status").filter(has_text="No new data from this node for")
    expect(note).to_contain_text("Showing the last known values.")
    main(page).get_by_role("region", name="Devices").get_by_role("link").first.click()
    expect(main(page).get_by_text(re.compile("No new data from this device for .*"))).to_be_visible()
    views["overview"].open(page)
    expect(main(page).get_by_role("link", name=SILENT.node).first).to_be_visible()


def test_unreachable_cluster_shows_its_last_data(page: Page, lab: Lab) -> None:
    page.goto(link("cluster", cluster=TROUBLED_CLUSTER))
    expect(main(page).get_by_text("reachable", exact=True)).to_be_visible()
    with lab.fault("api_down", "--cluster", TROUBLED_CLUSTER):
        note = main(page).get_by_role("status").filter(has_text="This cluster is unreachable")
        expect(note).to_contain_text(re.compile(r"data is from \d\d:\d\d:\d\d"))
        expect(main(page).get_by_role("link", name="shared-0001").first).to_be_visible()
        page.goto(f"/devices?cluster={TROUBLED_CLUSTER}&state=stale")
        expect(rows(page)).to_have_count(4)
    page.goto("/clusters")
    expect(row(page, TROUBLED_CLUSTER)).to_contain_text("reachable")


def test_cluster_that_was_never_reached_shows_the_reason(page: Page) -> None:
    page.goto("/clusters")
    expect(row(page, UNREACHED_CLUSTER)).to_contain_text("never reached")
    expect(row(page, UNREACHED_CLUSTER)).to_contain_text("cannot connect")
    expect(row(page, UNREACHED_CLUSTER)).to_contain_text("not known")  # of devices; not 0
    page.goto(link("cluster", cluster=UNREACHED_CLUSTER))
    note = main(page).get_by_role("status").filter(has_text="This cluster was never reached")
    expect(note).to_contain_text("cannot connect")
    expect(main(page).get_by_text("No nodes with accelerators")).to_be_visible()


def test_incompatible_agent_is_explained(page: Page) -> None:
    page.goto(f"/nodes?q={INCOMPATIBLE.node}")
    expect(row(page, INCOMPATIBLE.node)).to_contain_text("incompatible")
    page.goto(link("node", cluster=INCOMPATIBLE.cluster, node=INCOMPATIBLE.node))
    note = main(page).get_by_role("alert")
    expect(note).to_contain_text("Unsupported agent version")
    expect(note).to_contain_text("Upgrade the agent or the fleet.")


@pytest.fixture(scope="module")
def empty_fleet_url(lab: Lab) -> Iterator[str]:
    with lab.another_fleet([]) as fleet:
        yield url_of(fleet)


@pytest.mark.parametrize("name", [name for name, path in ROUTES.items() if ":" not in path])
def test_fleet_without_clusters_shows_how_to_add_them(
    new_page: NewPage, empty_fleet_url: str, views: dict[str, View], name: str
) -> None:
    page = new_page(empty_fleet_url)
    page.goto(views[name].path)
    expect(main(page).get_by_text(EMPTY_TEXTS.get(name, "No clusters configured"))).to_be_visible()


EMPTY_TEXTS: dict[str, str | re.Pattern[str]] = {
    "events": "No events since the fleet was started",
    "idle": "No pods idle for 1 h",
    "namespaces": "No namespace has a pod with a device",
    "pods": re.compile("^No pod"),
    "processes": "No process uses a device",
}


@contextmanager
def slow(page: Page, path: str) -> Iterator[None]:
    """Hold back responses to these requests within the context."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(path, hold)
    yield
    for route in held:
        route.continue_()
    page.unroute(path, hold)


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("nodes", "**/api/v1/nodes?*"),
        ("map", "**/api/v1/devices/columns?*"),
        ("node", "**/api/v1/nodes/*/*"),
        ("device", "**/api/v1/devices/*/*/*"),
        ("pod", "**/api/v1/pods/*/*/*"),
        ("clusters", "**/api/v1/clusters"),
        ("events", "**/api/v1/events?*"),
    ],
)
def test_loading_state_is_visible(page: Page, views: dict[str, View], name: str, question: str) -> None:
    with slow(page, question):
        page.goto(views[name].path)
        expect(main(page).get_by_role("status", name=re.compile("^Loading")).first).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    views[name].shown(page)


def test_failed_request_is_shown_and_can_be_retried(page: Page, watch: Watch) -> None:
    watch.forgive(r"status of 503")
    problem = {"title": "The fleet is busy", "detail": "Ask again in a while.", "status": 503}
    page.route("**/api/v1/nodes?*", lambda route: route.fulfill(status=503, json=problem))
    page.goto("/nodes")
    note = main(page).get_by_role("alert")
    expect(note).to_contain_text("The fleet is busy")
    expect(note).to_contain_text("Ask again in a while.")
    page.unroute("**/api/v1/nodes?*")
    note.get_by_role("button", name="Try again").click()
    expect(rows(page).first).to_be_visible()
    expect(note).to_have_count(0)


def test_view_that_fails_to_load_keeps_the_page_usable(page: Page, watch: Watch) -> None:
    """As after an update of the fleet, when the old page's files are gone."""
    watch.forgive(r"status of 404|Failed to fetch dynamically|ERR_FAILED")
    page.route("**/assets/nodes-*.js", lambda route: route.abort())
    page.goto("/nodes")
    expect(page.get_by_role("alert")).to_contain_text("This view failed to load")
    page.get_by_role("link", name="Clusters").click()
    expect(row(page, "berlin")).to_be_visible()


def test_lost_and_stale_counts_match_the_api(page: Page, lab: Lab) -> None:
    page.goto("/")
    total = lab.fleet.get("/api/v1/summary")["total"]
    sums = main(page).get_by_role("region", name="Totals")
    expect(sums).to_contain_text(f"{total['devices_stale']} stale")
    wait_until(lambda: lab.fleet.get("/api/v1/summary")["total"]["devices_lost"] == 1)
    expect(sums.get_by_role("img", name=re.compile("^Health: 1 lost"))).to_be_visible()
