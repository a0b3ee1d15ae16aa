"""A table with a cursor that draws only its visible rows, and a widget for lines of text."""

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from accelscope.top.view.frame import Entry, Pane
from accelscope.top.view.table import (
    Column,
    Line,
    PlacedColumn,
    RenderContext,
    Span,
    Tone,
    column_at,
    place,
    row_line,
    title_line,
)
from accelscope.top.view.text import cut, width_of

# The sixteen colours of the terminal look right on dark and light backgrounds.
STYLES = {
    Tone.PLAIN: Style(),
    Tone.DIM: Style(dim=True),
    Tone.GOOD: Style(color="green"),
    Tone.WARN: Style(color="yellow", bold=True),
    Tone.BAD: Style(color="red", bold=True, reverse=True),
    Tone.STRONG: Style(bold=True),
    Tone.TITLE: Style(color="cyan"),
    Tone.SORTED: Style(color="cyan", bold=True, underline=True),
}
CURSOR = Style(reverse=True)


def strip_of(line: Line, width: int, *, cursor: bool = False, base: Style | None = None) -> Strip:
    segments, used = [], 0
    for span in line:
        style = STYLES[span.tone]
        if cursor:
            style = CURSOR + Style(bold=style.bold)
        segments.append(Segment(span.text, base + style if base else style))
        used += width_of(span.text)
    filler = CURSOR if cursor else (base or Style())
    segments.append(Segment(" " * max(0, width - used), filler))
    return Strip(segments, max(used, width)).crop(0, width)


def blank(width: int) -> Strip:
    return Strip([Segment(" " * width)], width)


HEAD = 2  # lines above the rows: title of the pane, titles of the columns
_WHEEL = 3  # rows


class ScreenTable(Widget, can_focus=True):
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G", "move(1000000)", show=False),
    ]

    class TitleClicked(Message):
        def __init__(self, pane: str, column: Column[Any]) -> None:
            super().__init__()
            self.pane, self.column = pane, column

    class RowClicked(Message):
        """A click on the row that already has the cursor."""

        def __init__(self, table: "ScreenTable") -> None:
            super().__init__()
            self.table = table

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.pane: Pane[Any] = Pane("", "", (), (), None, "")
        self._setting = RenderContext()
        self._placed: tuple[PlacedColumn[Any], ...] = ()
        self._cursor = 0
        self._moved = False  # by the user
        self._top = 0

    def show(self, pane: Pane[Any], context: RenderContext) -> None:
        """The cursor follows its row if the user has moved it, and otherwise stays on the first row."""
        self._moved = self._moved and self.pane.name == pane.name
        key = self.cursor_key
        self.pane, self._setting = pane, context
        at: int | None = 0
        if self._moved:
            at = next((i for i, entry in enumerate(pane.entries) if entry.key == key), None)
        self._cursor = self._selectable(self._cursor if at is None else at, 1)
        self._place()

    def on_resize(self) -> None:
        self._place()

    def _place(self) -> None:
        pane = self.pane
        self._placed = place(pane.columns, pane.rows, self.size.width, self._setting, pane.sort)
        self._keep_visible()
        self.refresh()

    @property
    def entry(self) -> Entry[Any] | None:
        """The entry at the cursor."""
        return self.pane.entries[self._cursor] if self._cursor < len(self.pane.entries) else None

    @property
    def cursor_key(self) -> str | None:
        return self.entry.key if self.entry is not None else None

    @property
    def _room(self) -> int:
        return max(1, self.size.height - HEAD)

    def action_first(self) -> None:
        self.action_move(-self._cursor)
        self._moved = False

    def action_move(self, count: int) -> None:
        self._moved = True
        self._cursor = self._selectable(self._cursor + count, 1 if count > 0 else -1)
        self._keep_visible()
        self.refresh()

    def action_page(self, direction: int) -> None:
        self.action_move(direction * self._room)

    def _selectable(self, at: int, step: int) -> int:
        """The next row that is not a heading, if necessary in the other direction."""
        entries = self.pane.entries
        at = max(0, min(at, len(entries) - 1))
        for way in (step, -step):
            found = at
            while 0 <= found < len(entries):
                if entries[found].row is not None:
                    return found
                found += way
        return at

    def _keep_visible(self) -> None:
        lowest = max(0, len(self.pane.entries) - self._room)
        first = self._cursor
        while first > 0 and self.pane.entries and self.pane.entries[first - 1].row is None:
            first -= 1  # with its heading
        self._top = min(max(self._top, self._cursor - self._room + 1), first, lowest)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if not self.pane.name:
            return blank(width)  # no data yet
        if y == 0:
            return strip_of(self._title(width), width)
        if y == 1:
            line = title_line(self._placed, self._setting, self.pane.sort) if self.pane.rows else []
            return strip_of(line, width, base=Style(color="cyan") if line else None)
        return self._row(self._top + y - HEAD, width)

    def _row(self, at: int, width: int) -> Strip:
        if at >= len(self.pane.entries):
            empty = at == 0
            return strip_of([Span(f"  {self.pane.empty}", Tone.DIM)], width) if empty else blank(width)
        entry = self.pane.entries[at]
        if entry.row is None:
            return strip_of(entry.heading or [], width)
        line = row_line(self._placed, entry.row, self._setting)
        return strip_of(line, width, cursor=self.has_focus and at == self._cursor)

    def _title(self, width: int) -> list[Span]:
        glyphs = self._setting.glyphs
        entries, room = len(self.pane.entries), self._room
        where = ""
        if entries > room:
            last = min(entries, self._top + room)
            where = f" {self._top + 1}{glyphs.dash}{last} of {entries} "
        title = cut(f"{glyphs.rule} {self.pane.title} ", width - len(where), glyphs)
        rule = glyphs.rule * max(0, width - width_of(title) - len(where))
        return [Span(title, Tone.STRONG if self.has_focus else Tone.DIM), Span(rule + where, Tone.DIM)]

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        if event.y == 1:
            column = column_at(self._placed, event.x)
            if column is not None and column.sort is not None:
                self.post_message(self.TitleClicked(self.pane.name, column))
            return
        at = self._top + event.y - HEAD
        if event.y < HEAD or at >= len(self.pane.entries) or self.pane.entries[at].row is None:
            return
        if at == self._cursor:
            self.post_message(self.RowClicked(self))
        self._cursor, self._moved = at, True
        self.refresh()

    def on_mouse_scroll_down(self) -> None:
        self.action_move(_WHEEL)

    def on_mouse_scroll_up(self) -> None:
        self.action_move(-_WHEEL)


class Lines(Widget):
    """Lines of text: the header, the keys, and screens of text."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
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
