"""The view of idle pods."""

import csv
import io
import re

from playwright.sync_api import Page, expect
from tests.e2e.browser.lab import Lab
from tests.e2e.browser.views import main, rows
from tests.waiting import wait_until

# Never used its device; in a new fleet it is idle since the start.
NOTEBOOK = "notebook-mara-0"
PATH = "/idle?min_seconds=5&q=notebook"


def idle(lab: Lab) -> list[str]:
    return sorted(pod["pod"] for pod in lab.items("idle", min_seconds=5, q="notebook"))


def test_idle_pods_are_listed(page: Page, lab: Lab) -> None:
    wait_until(lambda: len(idle(lab)) == 4, "notebooks of four nodes are idle")
    page.goto(PATH)
    expect(rows(page)).to_have_count(4)
    expect(rows(page).first).to_contain_text(NOTEBOOK)
    expect(rows(page).first).to_contain_text("A100")
    wasted = main(page).get_by_role("region", name="Idle totals")
    expect(wasted).to_contain_text(re.compile(r"Idle pods\s*4"))
    rows(page).first.get_by_role("link", name=re.compile(NOTEBOOK)).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Pod {NOTEBOOK}")


def test_csv_has_a_line_for_each_pod(page: Page, lab: Lab) -> None:
    wait_until(lambda: len(idle(lab)) == 4, "notebooks of four nodes are idle")
    page.goto(PATH)
    expect(rows(page)).to_have_count(4)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert re.fullmatch(r"idle-[-\dT]+\.csv", download.value.suggested_filename)
    lines = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert sorted(line["pod"] for line in lines) == idle(lab)
    assert all(float(line["idle_seconds"]) >= 5 for line in lines)


def test_idle_threshold_is_in_the_address(page: Page) -> None:
    page.goto("/idle")
    expect(main(page).get_by_text("No pods idle for 1 h")).to_be_visible()
    page.get_by_role("combobox", name="Idle for at least").select_option("2 h")
    expect(page).to_have_url(re.compile(r"/idle\?min_seconds=7200$"))
    expect(main(page).get_by_text("No pods idle for 2 h")).to_be_visible()


def test_new_fleet_links_to_a_shorter_threshold(page: Page, lab: Lab) -> None:
    wait_until(
        lambda: len(lab.items("idle", min_seconds=60, q="notebook")) == 4, "four are idle for a minute"
    )
    page.goto("/idle")
    main(page).get_by_role("link", name=re.compile(r"^\d+ pods are idle for at least 1 min$")).click()
    expect(page).to_have_url(re.compile(r"/idle\?min_seconds=60$"))
    expect(rows(page).filter(has_text=NOTEBOOK)).to_have_count(4)
