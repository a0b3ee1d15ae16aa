"""What a page does behind what it shows: errors it logs, scripts that fail, requests that fail or leave."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request

_OF_THE_PAGE_ITSELF = ("data", "blob")
_GIVEN_UP = "net::ERR_ABORTED"  # by the page: an answer that nobody waits for any more


class Watch:
    """Over one page, from before its first request. Chromium logs as errors what a policy refused and answers
    from 400 on, so that both are found in the console."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self._origin = urlsplit(origin).netloc
        self._troubles: list[str] = []
        self._forgiven: list[re.Pattern[str]] = []
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self._troubles.append(f"not caught: {error}"))
        page.on("requestfailed", self._failed)
        page.on("request", self._asked)

    def forgive(self, pattern: str) -> None:
        """A test that breaks something expects the page to say so there too."""
        self._forgiven.append(re.compile(pattern))

    @property
    def troubles(self) -> list[str]:
        return [each for each in self._troubles if not any(p.search(each) for p in self._forgiven)]

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._troubles.append(f"logged: {message.text} ({message.location.get('url', '')})")

    def _failed(self, request: Request) -> None:
        if request.failure != _GIVEN_UP:
            self._troubles.append(f"failed: {request.method} {request.url} {request.failure}")

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in _OF_THE_PAGE_ITSELF and parts.netloc != self._origin:
            self._troubles.append(f"left: {request.url}")
