"""The map: drawing and accessibility."""

import re
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.e2e.browser.lab import Lab
from tests.e2e.browser.views import View, main
from tests.waiting import wait_until

# Position of the first device in pixels of the page: a square that is larger than a letter and not of the
# background colour. And the number of colours.
_LOOK = """canvas => {
  const {data, width, height} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const pixels = new Uint32Array(data.buffer);
  const box = canvas.getBoundingClientRect();
  const ground = pixels[width - 1];
  const around = [1, 5, 12].flatMap(by => [by, by * width]);
  const first = pixels.findIndex(
    (pixel, at) => pixel !== ground && around.every(by => pixels[at + by] === pixel));
  return {
    colours: new Set(pixels).size,
    x: box.left + ((first % width) + 3) * box.width / width,
    y: box.top + (Math.floor(first / width) + 3) * box.height / height,
  };
}"""


@dataclass(frozen=True)
class Looked:
    colours: int
    x: float  # of a device
    y: float


def look(page: Page) -> Looked:
    return Looked(**page.get_by_role("application").locator("canvas").evaluate(_LOOK))


def shown(page: Page) -> Locator:
    return page.get_by_role("application")


@pytest.fixture
def map_page(page: Page, views: dict[str, View]) -> Page:
    views["map"].open(page)
    page.wait_for_function("() => document.querySelector('[role=application] canvas').width > 100")
    wait_until(lambda: look(page).colours > 10, "the map is drawn")
    return page


def test_every_device_is_drawn(map_page: Page, lab: Lab) -> None:
    devices = len(lab.items("devices", limit=1000))
    expect(shown(map_page)).to_have_accessible_name(f"{devices} devices by use")


@pytest.mark.parametrize("mode", ["Memory", "Temperature", "Power", "Health", "Age"])
def test_colour_modes(map_page: Page, mode: str) -> None:
    map_page.get_by_role("radio", name=mode).check()
    expect(shown(map_page)).to_have_accessible_name(re.compile(f"devices by {mode.lower()}$"))
    expect(map_page).to_have_url(re.compile(f"mode={mode.lower()}$"))
    wait_until(lambda: look(map_page).colours > 2, f"{mode} is drawn")
    map_page.reload()
    expect(map_page.get_by_role("radio", name=mode)).to_be_checked()


@pytest.mark.parametrize(("grouping", "heading"), [("vendor", "Furiosa"), ("model", "910B3")])
def test_groupings(map_page: Page, grouping: str, heading: str) -> None:
    expect(shown(map_page).get_by_role("heading", name="oslo")).to_be_visible()
    map_page.get_by_role("combobox", name="Group by").select_option(grouping)
    expect(shown(map_page).get_by_role("heading", name=heading)).to_be_visible()
    expect(map_page).to_have_url(re.compile(f"group={grouping}$"))


def test_arrow_keys_move_between_devices_and_announce_them(map_page: Page) -> None:
    shown(map_page).focus()
    said = main(map_page).get_by_role("status").last
    map_page.keyboard.press("ArrowRight")
    expect(said).to_have_text(re.compile(r"^h100-0001 device 0, berlin, Use .*, ok$"))
    map_page.keyboard.press("ArrowRight")
    expect(said).to_have_text(re.compile(r"^h100-0001 device 1, "))
    map_page.keyboard.press("PageDown")
    expect(said).to_have_text(re.compile(r"^shared-0001 device 0, lisbon, "))
    map_page.keyboard.press("End")
    expect(said).to_have_text(re.compile(r"^rngd-\d+ device 3, seoul, "))
    map_page.keyboard.press("Home")
    map_page.keyboard.press("Enter")
    expect(map_page.get_by_role("heading", level=1)).to_contain_text("Device 0 · NVIDIA H100")
    expect(map_page).to_have_url(re.compile("/devices/berlin/h100-0001/"))
    map_page.go_back()
    shown(map_page).focus()
    map_page.keyboard.press("Home")
    map_page.keyboard.press("Shift+Enter")
    expect(map_page.get_by_role("heading", level=1)).to_have_text("Node h100-0001")


def test_hover_shows_a_tooltip_and_a_click_opens_the_device(map_page: Page) -> None:
    spot = look(map_page)
    map_page.mouse.move(spot.x, spot.y)
    expect(main(map_page).get_by_text("Click: open device")).to_be_visible()
    expect(main(map_page).get_by_text(re.compile(r"^h100-0001 / 0$"))).to_be_visible()
    expect(main(map_page).get_by_text(re.compile(r"GiB of 80 GiB$"))).to_be_visible()
    map_page.mouse.click(spot.x, spot.y)
    expect(map_page.get_by_role("heading", level=1)).to_contain_text("Device 0 · NVIDIA H100")


def test_search_highlights_without_a_request(map_page: Page) -> None:
    before = look(map_page).colours
    asked: list[str] = []
    map_page.on("request", lambda request: asked.append(request.url) if "q=" in request.url else None)
    main(map_page).get_by_role("searchbox", name="Search devices").press_sequentially("rngd-0001")
    expect(main(map_page).get_by_text(re.compile(r"^4 of \d+ match$"))).to_be_visible()
    wait_until(lambda: look(map_page).colours != before, "matches are highlighted")
    assert asked == []


def test_size_can_be_changed_and_reset(map_page: Page) -> None:
    fits = map_page.get_by_role("button", name="Fit")
    expect(fits).to_have_attribute("aria-pressed", "true")
    map_page.get_by_role("button", name="Smaller").click()
    expect(map_page).to_have_url(re.compile(r"size=\d+$"))
    expect(fits).to_have_attribute("aria-pressed", "false")
    fits.click()
    expect(map_page).to_have_url(re.compile("/map$"))


def test_legend_filters_by_health(map_page: Page) -> None:
    map_page.get_by_role("region", name="Legend").get_by_role("button", name=re.compile("^lost")).click()
    expect(shown(map_page)).to_have_accessible_name("1 device by use")
    expect(map_page).to_have_url(re.compile("health=lost$"))
