"""Records errors behind a page: console errors, failing scripts, failed requests and requests to other
hosts."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request

_OF_THE_PAGE_ITSELF = ("data", "blob")
_GIVEN_UP = "net::ERR_ABORTED"  # the page cancelled the request


class Watch:
    """Watches one page from its first request. Chromium logs policy violations and responses from 400 on as
    console errors."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self._origin = urlsplit(origin).netloc
        self._troubles: list[str] = []
        self._forgiven: list[re.Pattern[str]] = []
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self._troubles.append(f"uncaught: {error}"))
        page.on("requestfailed", self._failed)
        page.on("request", self._asked)

    def forgive(self, pattern: str) -> None:
        """Ignore expected errors."""
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
            self._troubles.append(f"other host: {request.url}")
