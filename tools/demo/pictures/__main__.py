"""`python -m tools.demo.pictures`: starts the demo and takes the pictures of README and docs."""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tools.demo import Demo, Settings
from tools.demo.pictures.terminal import as_html, terminal

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "pictures"
ACCELSCOPE = str(Path(sys.executable).with_name("accelscope"))
SIZE: ViewportSize = {"width": 1440, "height": 900}
MOST_BYTES = 300_000  # of a picture
COLUMNS = 132  # of the terminal
# Of the demo's story: long enough for the charts to have a past, and much is going on.
USUAL_SECONDS = 285.0
_PATIENCE_MS = 60_000
_WATCHED_SECONDS = 12.0  # top: a few readings, for its small charts
_SETTLE_MS = 1500  # for what is drawn after its data came


def say(text: str) -> None:
    print(f"pictures: {text}", flush=True)


class Photographer:
    def __init__(self, browser: Browser, demo: Demo) -> None:
        self._browser, self._demo = browser, demo

    def page(self, path: str, theme: Any = "light") -> Page:
        """Opened now, so that what it draws live has time to become something."""
        context = self._browser.new_context(
            viewport=SIZE, color_scheme=theme, base_url=self._demo.page_url, locale="en-GB", bypass_csp=True
        )
        page = context.new_page()
        page.goto(path)
        page.get_by_role("heading", level=1).wait_for(timeout=_PATIENCE_MS)
        page.add_style_tag(content="html { scrollbar-gutter: auto }")  # pictures have no scrollbars
        return page

    def take(self, page: Page, name: str) -> None:
        page.wait_for_timeout(_SETTLE_MS)
        _keep(page.screenshot(), name)
        page.context.close()

    def take_terminal(self, screen: str, title: str, name: str) -> None:
        page = self._browser.new_page(viewport=SIZE)
        page.set_content(as_html(screen, title))
        _keep(page.locator("figure").screenshot(omit_background=True), name)
        page.close()


def _keep(picture: bytes, name: str) -> None:
    if len(picture) > MOST_BYTES:
        raise SystemExit(f"pictures: {name} has {len(picture)} bytes, more than {MOST_BYTES}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.png").write_bytes(picture)
    say(f"{name}.png, {len(picture) / 1000:.0f} kB")


def hot_device(demo: Demo) -> str:
    """The page of the card that overheats first in the story."""
    [row] = demo.ask("/api/v1/devices?cluster=berlin&node=h100-0003&index=2")["items"]
    return f"/devices/berlin/h100-0003/{quote(row['id'], safe='')}"


def top_of(folder: Path, *words: str, lines: int, ready: str) -> str:
    """The screen of `accelscope top` once this is on it, and a little later."""
    with terminal(folder, (ACCELSCOPE, "top", *words), columns=COLUMNS, lines=lines) as shown:
        shown.wait_for(ready)
        time.sleep(_WATCHED_SECONDS)
        return shown.screen()


def take_all(demo: Demo, browser: Browser, folder: Path, seconds: float) -> None:
    photographer = Photographer(browser, demo)
    device = photographer.page(hot_device(demo))
    began = time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        demo.check()
        say(f"{left:3.0f} s until there is enough to be seen")
        device.wait_for_timeout(min(left, 30.0) * 1000)  # not sleep(): its events are to be taken
    photographer.take(device, "device")
    for theme in ("light", "dark"):
        photographer.take(photographer.page("/", theme), f"overview-{theme}")
    photographer.take(photographer.page("/map", "dark"), "map")
    photographer.take(photographer.page("/idle?min_seconds=60"), "idle")
    photographer.take(photographer.page("/nodes/berlin/lab-0001"), "node")
    local = top_of(folder, demo.agent_url, lines=20, ready="vllm")
    photographer.take_terminal(local, f"accelscope top {demo.agent_url}", "top")
    fleet = top_of(folder, "--fleet", demo.page_url, lines=30, ready="LOST")
    photographer.take_terminal(fleet, f"accelscope top --fleet {demo.page_url}", "top-fleet")


def main() -> int:
    chromium = shutil.which("chromium")
    missing = [name for name in ("chromium", "tmux") if shutil.which(name) is None]
    if chromium is None or missing:
        say(f"not installed: {', '.join(missing)}")
        return 1
    seconds = float(os.environ.get("PICTURES_SECONDS") or USUAL_SECONDS)
    arguments = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with (
        tempfile.TemporaryDirectory(prefix="accelscope-pictures-", ignore_cleanup_errors=True) as folder,
        Demo(folder, Settings(prometheus=False), progress=say) as demo,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        take_all(demo, browser, Path(folder), seconds)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
