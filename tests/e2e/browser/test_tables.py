"""Tables: sorting, paging, rows and columns."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.browser.lab import Lab
from tests.e2e.browser.views import View, main, rows


def names(page: Page) -> list[str]:
    return [text.strip() for text in rows(page).get_by_role("rowheader").all_inner_texts()]


@pytest.mark.parametrize(
    ("view", "column", "field"),
    [
        ("nodes", "Devices", "devices"),
        ("nodes", "Node", "node"),
        ("namespaces", "Pods", "pods"),
        ("devices", "Model", "model"),
    ],
)
def test_column_sorts_by_its_field(
    page: Page, lab: Lab, views: dict[str, View], view: str, column: str, field: str
) -> None:
    """Numbers descending first, names ascending first; the second click reverses, the third resets."""
    views[view].open(page)
    header = main(page).get_by_role("columnheader", name=column, exact=True)
    before = header.get_attribute("aria-sort")
    down_first = column in ("Devices", "Pods")
    for descending in (down_first, not down_first):
        header.get_by_role("button").click()
        expect(header).to_have_attribute("aria-sort", "descending" if descending else "ascending")
        expect(page).to_have_url(re.compile(f"sort={'-' if descending else ''}{field}$"))
        ordered = lab.items(view, sort=("-" if descending else "") + field, limit=1)
        place = header.evaluate("header => header.cellIndex")
        shown = rows(page).first.locator("th, td").nth(place)
        expect(shown).to_contain_text(str(ordered[0][field]))
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", before or "none")
    expect(page).to_have_url(re.compile(f"{views[view].path}$"))


def test_sort_order_is_in_the_address(page: Page, lab: Lab) -> None:
    page.goto("/nodes?sort=-node")
    last = max(row["node"] for row in lab.items("nodes", limit=1000))
    expect(rows(page).first).to_contain_text(last)
    header = main(page).get_by_role("columnheader", name="Node", exact=True)
    expect(header).to_have_attribute("aria-sort", "descending")


def test_long_table_is_paged(page: Page, lab: Lab, views: dict[str, View]) -> None:
    views["devices"].open(page)
    whole = len(lab.items("devices", limit=1000))
    assert whole > 100
    expect(rows(page)).to_have_count(100)
    expect(main(page).get_by_text(f"100 of {whole} devices")).to_be_visible()
    main(page).get_by_role("button", name="Show more").click()
    expect(rows(page)).to_have_count(whole)
    assert len(set(names(page))) > 100
    expect(main(page).get_by_role("button", name="Show more")).to_have_count(0)
    page.wait_for_timeout(3000)  # a refresh fetches all pages
    expect(rows(page)).to_have_count(whole)


def test_click_on_a_row_follows_its_link(page: Page, views: dict[str, View]) -> None:
    views["nodes"].open(page, "?cluster=berlin")
    rows(page).nth(2).get_by_role("cell").last.click()
    views["node"].shown(page)


def test_arrow_keys_move_between_rows(page: Page, views: dict[str, View]) -> None:
    views["nodes"].open(page)
    rows(page).first.get_by_role("rowheader").get_by_role("link").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(rows(page).nth(2).get_by_role("rowheader").get_by_role("link")).to_be_focused()
    page.keyboard.press("Enter")
    views["node"].shown(page)


def test_pod_with_several_devices_can_be_expanded(page: Page) -> None:
    page.goto("/pods?q=llm-pretrain&cluster=berlin")
    row = rows(page).first
    button = row.get_by_role("button", name="Details")
    expect(button).to_have_attribute("aria-expanded", "false")
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    inner = main(page).get_by_role("table").get_by_role("table")
    expect(inner.get_by_role("link", name=re.compile("H100")).first).to_be_visible()
    button.click()
    expect(inner).to_have_count(0)


def test_column_selection_is_stored(page: Page, views: dict[str, View]) -> None:
    views["nodes"].open(page)
    agent = main(page).get_by_role("columnheader", name="Agent", exact=True)
    expect(agent).to_have_count(0)
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Fit to width").uncheck()
    expect(agent).to_be_visible()
    page.get_by_role("checkbox", name="Models").uncheck()
    models = main(page).get_by_role("columnheader", name="Models", exact=True)
    expect(models).to_have_count(0)
    page.reload()
    expect(agent).to_be_visible()
    expect(models).to_have_count(0)
