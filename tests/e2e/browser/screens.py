"""Screen sizes and themes, as options of Playwright's `new_context`."""

from typing import Any, Literal

WIDE: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
SMALL_WIDTH = 390  # pixels, a phone in portrait mode
SMALL: dict[str, Any] = {
    "viewport": {"width": SMALL_WIDTH, "height": 844},
    "is_mobile": True,
    "has_touch": True,
}
SCREENS = {"wide": WIDE, "small": SMALL}
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
