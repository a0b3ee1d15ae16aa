"""Themes, small screens and reduced motion."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.browser.conftest import NewPage
from tests.e2e.browser.screens import SMALL, Theme
from tests.e2e.browser.views import View, main
from tests.waiting import wait_until

_BRIGHTNESS = """() => {
  const [r, g, b] = getComputedStyle(document.documentElement).backgroundColor.match(/[\\d.]+/g).map(Number);
  return (r + g + b) / 3 / 255;
}"""


def looks(page: Page, theme: str) -> None:
    wait_until(lambda: (page.evaluate(_BRIGHTNESS) > 0.5) == (theme == "light"), f"the page is {theme}")


@pytest.mark.parametrize(("system", "other"), [("light", "dark"), ("dark", "light")])
def test_theme_follows_the_system_until_the_user_chooses(
    new_page: NewPage, views: dict[str, View], system: Theme, other: Theme
) -> None:
    page = new_page(color_scheme=system)
    views["clusters"].open(page)
    looks(page, system)
    page.emulate_media(color_scheme=other)
    looks(page, other)
    page.emulate_media(color_scheme=system)

    page.get_by_role("button", name=f"{other.capitalize()} theme").click()
    looks(page, other)
    page.reload()
    views["clusters"].shown(page)
    looks(page, other)
    page.keyboard.press("t")
    looks(page, system)


def test_theme_setting_is_stored_and_can_be_reset(page: Page, views: dict[str, View]) -> None:
    views["clusters"].open(page)
    page.get_by_role("button", name="Help and settings").click()
    settings = page.get_by_role("dialog", name="Help and settings")
    expect(settings.get_by_role("radio", name="System default")).to_be_checked()
    settings.get_by_role("radio", name="Dark").check()
    looks(page, "dark")
    page.reload()
    views["clusters"].shown(page)
    looks(page, "dark")
    page.get_by_role("button", name="Help and settings").click()
    settings.get_by_role("radio", name="System default").check()
    looks(page, "light")
    page.emulate_media(color_scheme="dark")
    looks(page, "dark")


def test_small_screen_has_a_menu(new_page: NewPage, views: dict[str, View]) -> None:
    page = new_page(**SMALL)
    views["overview"].open(page)
    places = page.get_by_role("navigation", name="Views")
    expect(places).to_be_hidden()
    page.get_by_role("button", name="Menu").tap()
    places.get_by_role("link", name=re.compile("^Nodes")).tap()
    views["nodes"].shown(page)
    expect(places).to_be_hidden()


def test_touch_on_the_map_shows_a_device_with_links(new_page: NewPage, views: dict[str, View]) -> None:
    page = new_page(**SMALL)
    views["map"].open(page)
    canvas = page.get_by_role("application")
    canvas.tap(position={"x": 16, "y": 60})
    page.get_by_role("link", name="Open device").tap()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Device \d · NVIDIA H100"))


@pytest.mark.parametrize("name", ["nodes", "overview"])
def test_reduced_motion_has_no_animation(new_page: NewPage, views: dict[str, View], name: str) -> None:
    page = new_page(reduced_motion="reduce")
    page.route("**/api/v1/*?*", lambda _: None)  # never answered, so that loading states stay
    page.goto(views[name].path)
    expect(main(page).get_by_role("status", name="Loading").first).to_be_visible()
    # The delayed appearance is a short animation too.
    page.wait_for_timeout(300)
    page.wait_for_function("() => document.getAnimations().every(one => one.playState !== 'running')")
    page.unroute_all(behavior="ignoreErrors")
