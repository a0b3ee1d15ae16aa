"""Lines of text as a widget: the header, the keys at the bottom, sheets."""

from collections.abc import Sequence

from textual.strip import Strip
from textual.widget import Widget

from accelscope.top.screen.strips import blank, strip_of
from accelscope.top.view.table import Line


class Lines(Widget):
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._lines: Sequence[Line] = ()
        self.top = 0

    @property
    def lines(self) -> Sequence[Line]:
        return self._lines

    def show(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self.refresh()

    def scroll_by(self, count: int) -> None:
        self.top = max(0, min(self.top + count, len(self._lines) - self.size.height))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        at = self.top + y
        width = self.size.width
        return strip_of(self._lines[at], width) if at < len(self._lines) else blank(width)
