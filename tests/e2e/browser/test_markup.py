"""Markup in names of users and programs is shown as text."""

from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from tests.e2e.browser.lab import ODD, ODD_PROGRAM
from tests.e2e.browser.routes import ROUTES, link
from tests.e2e.browser.views import View, main, rows

MARKUP = "<img src=x onerror=document.title='run' data-hostile>"
# API fields that others can influence. Ids are not changed, so that objects are still found.
FIELDS = {"model", "models", "owner_name", "health_reason", "reason", "text", "name", "user", "profile"}


def test_program_name_with_markup_is_shown_as_text(page: Page) -> None:
    page.goto("/processes?namespace=odd")
    expect(rows(page)).to_contain_text(ODD_PROGRAM)
    page.goto(link("node", cluster=ODD.cluster, node=ODD.node))
    expect(main(page).get_by_text(ODD_PROGRAM)).to_be_visible()
    assert page.evaluate("document.getElementById('odd')") is None


def spoiled(value: Any, field: str | None = None) -> Any:
    if isinstance(value, dict):
        return {name: spoiled(member, name) for name, member in value.items()}
    if isinstance(value, list):
        return [spoiled(member, field) for member in value]
    return f"{value}{MARKUP}" if isinstance(value, str) and field in FIELDS else value


@pytest.mark.parametrize("name", ROUTES)
def test_no_view_renders_text_as_markup(page: Page, views: dict[str, View], name: str) -> None:
    def spoil(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=spoiled(answer.json()))

    page.route(lambda url: "/api/v1/" in url and "/stream" not in url, spoil)
    page.goto(views[name].path)
    expect(main(page).get_by_text("data-hostile").first).to_be_attached() if name in SHOWING else None
    expect(main(page).get_by_role("status", name="Loading")).to_have_count(0)
    assert page.locator("[data-hostile]").count() == 0
    assert page.title() != "run"
    page.unroute_all(behavior="ignoreErrors")


# Views that show such a text in the page; others have it in a tooltip or on the map's canvas.
SHOWING = {"overview", "clusters", "cluster", "nodes", "node", "devices", "device", "pods", "pod", "events"}
