"""A fleet that requires a token."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.browser.conftest import NewPage
from tests.e2e.browser.lab import Lab, url_of
from tests.e2e.browser.views import main, rows
from tests.e2e.browser.watching import Watch
from tests.waiting import PATIENCE_SECONDS


@dataclass(frozen=True)
class Guarded:
    url: str
    token: str


@pytest.fixture(scope="module")
def guarded(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    command = [sys.executable, "-m", "accelscope", "fleet", "token", "create", "reader"]
    made = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.yaml"
    tokens.write_text("tokens:\n" + made.stderr.partition("tokens:\n")[2])
    tokens.chmod(0o600)
    with lab.another_fleet(lab.simulated.entries, tokens_file=str(tokens)) as fleet:
        yield Guarded(url_of(fleet), made.stdout.strip())


@pytest.fixture
def asked(new_page: NewPage, watches: list[Watch], guarded: Guarded) -> Page:
    """A page with the token dialog open."""
    page = new_page(guarded.url)
    watches[0].forgive(r"status of 401")
    page.goto("/nodes?cluster=berlin")
    expect(page.get_by_role("dialog", name="Token required")).to_be_visible()
    return page


def give(page: Page, token: str) -> None:
    dialog = page.get_by_role("dialog", name="Token required")
    dialog.get_by_label("Token", exact=True).fill(token)
    dialog.get_by_role("button", name="Continue").click()


def test_token_opens_the_requested_view(asked: Page, guarded: Guarded) -> None:
    expect(asked.get_by_label("Token", exact=True)).to_be_focused()
    expect(rows(asked)).to_have_count(0)
    give(asked, guarded.token)
    expect(asked.get_by_role("dialog")).to_have_count(0)
    expect(rows(asked)).to_have_count(8)
    expect(asked.get_by_role("banner").get_by_text("Live")).to_be_visible()
    asked.reload()
    expect(rows(asked)).to_have_count(8)
    assert guarded.token not in asked.url


def test_wrong_token_is_rejected_and_can_be_replaced(asked: Page, guarded: Guarded) -> None:
    give(asked, "as_wrong")
    expect(asked.get_by_role("alert")).to_contain_text("The token was not accepted")
    give(asked, guarded.token)
    expect(rows(asked)).to_have_count(8)


def test_token_dialog_can_be_closed_and_reopened(asked: Page, guarded: Guarded) -> None:
    asked.keyboard.press("Escape")
    expect(asked.get_by_role("dialog")).to_have_count(0)
    expect(main(asked).get_by_text("This fleet requires an access token")).to_be_visible()
    main(asked).get_by_role("button", name="Enter token").click()
    give(asked, guarded.token)
    expect(rows(asked)).to_have_count(8)


def test_token_can_be_forgotten(asked: Page, guarded: Guarded) -> None:
    give(asked, guarded.token)
    expect(rows(asked)).to_have_count(8)
    asked.get_by_role("button", name="Help and settings").click()
    asked.get_by_role("button", name="Forget token").click()
    expect(asked.get_by_role("dialog", name="Token required")).to_be_visible()


def test_missing_scope_is_reported(asked: Page, watches: list[Watch], guarded: Guarded) -> None:
    watches[0].forgive(r"status of 403 .*/refresh")
    give(asked, guarded.token)
    asked.get_by_role("link", name="berlin", exact=True).first.click()
    asked.get_by_role("button", name="Refresh").click()
    expect(main(asked).get_by_text("Requires a token with the admin scope")).to_be_visible()
