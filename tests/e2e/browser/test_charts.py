"""Charts of devices and sparklines of nodes: drawing, description and updates."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.browser.lab import HEALTHY, Lab
from tests.e2e.browser.routes import link
from tests.e2e.browser.views import main
from tests.waiting import wait_until

CHARTS = ("Use", "Memory", "Power", "Temperature")


@pytest.fixture
def device_page(page: Page, lab: Lab) -> Page:
    device = lab.device(HEALTHY)
    page.goto(link("device", cluster=HEALTHY.cluster, node=HEALTHY.node, device=device["id"]))
    return page


@pytest.mark.parametrize("title", CHARTS)
def test_chart_is_drawn_and_has_a_description(device_page: Page, title: str) -> None:
    chart = device_page.get_by_role("img", name=re.compile(f"^{title}.*: now .*, lowest .*, highest "))
    expect(chart).to_be_visible()
    wait_until(lambda: colours(device_page, title) > 2, f"the chart of {title} is drawn")


def colours(page: Page, title: str) -> int:
    canvas = page.get_by_role("img", name=re.compile(f"^{title}")).locator("canvas")
    return int(
        canvas.evaluate(
            """canvas => new Set(new Uint32Array(
                canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
        )
    )


def test_readings_are_added_to_the_chart(device_page: Page) -> None:
    device_page.get_by_text("Values of Use").click()
    numbers = device_page.get_by_role("region", name="Values of Use").get_by_role("row")
    expect(numbers.nth(1)).to_be_visible()
    before = numbers.count()
    wait_until(lambda: numbers.count() >= before + 2, "two more readings are there")
    expect(numbers.nth(1)).to_contain_text("%")


def test_limits_are_described(device_page: Page) -> None:
    temperature = device_page.get_by_role("img", name=re.compile("^Temperature"))
    expect(temperature).to_have_accessible_name(re.compile("slows down at 89 °C. shuts down at 92 °C"))


def test_time_range_is_in_the_address(device_page: Page) -> None:
    device_page.get_by_role("button", name="15 min").click()
    expect(device_page).to_have_url(re.compile(r"span=15"))
    device_page.reload()
    expect(device_page.get_by_role("button", name="15 min")).to_have_attribute("aria-pressed", "true")


def test_node_shows_the_history_of_its_devices(page: Page) -> None:
    """The history has one point per minute, so a new fleet needs a minute."""
    page.goto(link("node", cluster=HEALTHY.cluster, node=HEALTHY.node))
    cards = main(page).get_by_role("region", name="Devices").get_by_role("listitem")
    expect(cards).to_have_count(8)
    past = page.get_by_role("img", name=re.compile("^Use over the last hour, now "))
    expect(past.first).to_be_visible(timeout=90_000)


def test_overview_shows_the_history_of_the_fleet(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("img", name=re.compile(r"^Power.*: now .* kW"))).to_be_visible(timeout=90_000)
