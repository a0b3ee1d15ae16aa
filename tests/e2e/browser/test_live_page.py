"""Changes in the fleet appear on the page without a reload."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.browser.lab import Lab, Place
from tests.e2e.browser.views import log, main, row
from tests.waiting import wait_until

BUSY = Place("berlin", "h100-0002", 3)
WATCHED = Place("seoul", "ascend-0002", 1)


@pytest.fixture
def same(page: Page) -> Callable[[], None]:
    """Checks that the page was not reloaded since the first call."""

    def check() -> None:
        assert page.evaluate("window.same ?? (window.same = performance.timeOrigin)") == page.evaluate(
            "performance.timeOrigin"
        )

    return check


def knows(lab: Lab, place: Place, health: str) -> None:
    wait_until(lambda: lab.device(place)["health"] == health, f"the fleet reports {health}")


def test_fault_and_recovery_appear_in_a_table(page: Page, lab: Lab, same: Callable[[], None]) -> None:
    page.goto(f"/devices?cluster={BUSY.cluster}&node={BUSY.node}")
    device = row(page, f"{BUSY.node} device {BUSY.device}")
    expect(device).to_contain_text("ok")
    same()
    with lab.fault("hot", *BUSY.words):
        expect(device).to_contain_text("warning")
    expect(device).to_contain_text("ok")
    same()


def test_event_appears_in_the_log(page: Page, lab: Lab, same: Callable[[], None]) -> None:
    page.goto(f"/events?cluster={WATCHED.cluster}&node={WATCHED.node}&kind=device_lost&kind=device_back")
    expect(page.get_by_text("No event matches these filters")).to_be_visible()
    same()
    with lab.fault("lost", *WATCHED.words):
        expect(log(page).get_by_text("Device lost")).to_be_visible()
    expect(log(page).get_by_text("Device recovered")).to_be_visible()
    same()


def test_overview_updates_its_counts(page: Page, lab: Lab, same: Callable[[], None]) -> None:
    page.goto("/")
    lost = main(page).get_by_role("link", name="1 lost")
    expect(lost).to_be_visible()
    same()
    with lab.fault("lost", *WATCHED.words):
        expect(main(page).get_by_role("link", name="2 lost")).to_be_visible()
        named = f"{WATCHED.node} #{WATCHED.device}"
        expect(main(page).get_by_role("link", name=named).first).to_be_visible()
    expect(lost).to_be_visible()
    same()


def test_paused_page_is_not_updated(page: Page, lab: Lab) -> None:
    page.goto(f"/devices?cluster={BUSY.cluster}&node={BUSY.node}")
    device = row(page, f"{BUSY.node} device {BUSY.device}")
    expect(device).to_contain_text("ok")
    page.keyboard.press("p")
    expect(page.get_by_text("Updates are paused.")).to_be_visible()
    with lab.fault("hot", *BUSY.words):
        knows(lab, BUSY, "warning")
        page.wait_for_timeout(3000)  # longer than the interval between requests
        expect(device).to_contain_text("ok")
        page.get_by_role("button", name="Resume").click()
        expect(device).to_contain_text("warning")
    knows(lab, BUSY, "ok")


def test_device_view_is_updated(page: Page, lab: Lab) -> None:
    device = lab.device(WATCHED)
    page.goto(f"/devices/{WATCHED.cluster}/{WATCHED.node}/{device['id'].replace(':', '%3A')}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Device {WATCHED.device}")
    events = main(page).get_by_role("region", name="Events")
    with lab.fault("hot", *WATCHED.words):
        expect(events.get_by_text("Health degraded")).to_be_visible()
    expect(events.get_by_text("Health improved").first).to_be_visible()
