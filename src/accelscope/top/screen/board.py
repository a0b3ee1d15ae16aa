"""The screen: a header, two tables and the keys, redrawn with every view; and its widgets: a table with a
cursor that draws only its visible rows, and lines of text."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from accelscope.top.sources.source import Query, ViewSource, read_view
from accelscope.top.view.frame import Alert, Choices, Entry, Pane, alert_lines, alerts, header, panes
from accelscope.top.view.model import History, View, ViewKind
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
from accelscope.top.view.text import Glyphs, clean, cut, width_of

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


# --- the screen -----------------------------------------------------------


class SourceReader:
    """Reads the source in its own thread, so that the screen never waits."""

    def __init__(
        self,
        source: ViewSource,
        query: Query,
        interval_seconds: float,
        publish: Callable[[View, Query], None],
    ) -> None:
        self._source = source
        self._publish = publish
        self._changed = threading.Condition()
        self._query = query
        self._interval = interval_seconds
        self._due = 0.0
        self._refresh = False
        self._paused = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        self._source.start()
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._source.stop()

    def ask(self, query: Query) -> None:
        """Use this query from now on, and read at once."""
        with self._changed:
            self._query, self._due = query, 0.0
            self._changed.notify_all()

    def now(self) -> None:
        with self._changed:
            self._due, self._refresh = 0.0, True
            self._changed.notify_all()

    def pace(self, interval_seconds: float, *, paused: bool) -> None:
        with self._changed:
            self._interval, self._paused = interval_seconds, paused
            if not paused:
                self._due = min(self._due, time.monotonic() + interval_seconds)
            self._changed.notify_all()
        self._source.hurry(interval_seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (left := self._left()) != 0.0:
                    self._changed.wait(left)
                if self._stopped:
                    return
                query = self._query
                refresh, self._refresh = self._refresh, False
                self._due = time.monotonic() + self._interval
            if refresh:
                self._source.refresh()
            view = read_view(self._source, query)
            if not self._stopped:
                self._publish(view, query)
            # Set after the first read, which may take longer.
            self._source.hurry(self._interval)

    def _left(self) -> float | None:
        """Seconds until the next read; None while paused."""
        if self._due == 0.0:
            return 0.0
        return None if self._paused else max(0.0, self._due - time.monotonic())


_MESSAGE_SECONDS = 6.0  # a message stays at the bottom for this long


class Board(App[None]):
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; overflow: hidden; }
    #header, #keys { height: 1; }
    #upper, #lower { height: 1fr; }
    #sheet { height: 1fr; }
    #typing { display: none; height: 1; }
    #prompt { width: 9; height: 1; }
    #filter { width: 1fr; height: 1; border: none; padding: 0; }
    #filter, #filter:focus { background: ansi_default; color: ansi_default; }
    """

    class Arrived(Message):
        """A view from the thread that reads the source."""

        def __init__(self, view: View, query: Query) -> None:
            super().__init__()
            self.view, self.query = view, query

    def __init__(
        self,
        source: ViewSource,
        query: Query,
        choices: Choices,
        *,
        glyphs: Glyphs,
        interval_seconds: float,
        insecure: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(ansi_color=True)
        self.choices = choices
        self.view: View | None = None
        self.paused = False
        self.interval_seconds = interval_seconds
        self._source = source
        self._query = query
        self._glyphs = glyphs
        self._insecure = insecure
        self._clock = clock
        self._history = History()
        self._alerts: list[Alert] = []
        self._said: tuple[str, Tone] | None = None
        self._said_at = 0.0
        self._waiting = False  # another view has been requested
        self._feed = SourceReader(source, query, interval_seconds, self._publish)

    def compose(self) -> ComposeResult:
        yield Lines(id="header")
        yield ScreenTable(id="upper")
        yield ScreenTable(id="lower")
        with Horizontal(id="typing"):
            yield Lines(id="prompt")
            yield Input(id="filter", compact=True, select_on_focus=False)
        yield Lines(id="keys")

    def on_mount(self) -> None:
        self._lower.focus()
        self.query_one("#prompt", Lines).show([[Span("filter: ", Tone.WARN)]])
        self._draw()
        self._feed.start()
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        self._feed.stop()

    @property
    def _upper(self) -> ScreenTable:
        return self.screen_stack[0].query_one("#upper", ScreenTable)

    @property
    def _lower(self) -> ScreenTable:
        return self.screen_stack[0].query_one("#lower", ScreenTable)

    @property
    def _table(self) -> ScreenTable:
        return self._upper if self._upper.has_focus else self._lower

    def _publish(self, view: View, query: Query) -> None:
        self.post_message(self.Arrived(view, query))

    def on_board_arrived(self, message: Arrived) -> None:
        if message.query != self._query or not self.is_running:
            return  # an outdated query, or the app is shutting down
        if self._waiting:
            self._waiting, self._said = False, None
        self.view = message.view
        self._history.note(message.view)
        if message.view.overview is not None and message.view.overview.page != self._query.page:
            self._ask(replace(self._query, page=message.view.overview.page))  # the list has become shorter
        self._draw()

    def _ask(self, query: Query) -> None:
        self._query = query
        self._feed.ask(query)

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.call_after_refresh(self._draw)

    def _tick(self) -> None:
        if self._said is not None and self._clock() - self._said_at > _MESSAGE_SECONDS:
            self._said = None
            self._draw_keys()

    def _setting(self) -> RenderContext:
        now = self.view.at if self.view is not None else self._clock()
        return RenderContext(self._glyphs, now, self._history)

    def _draw(self) -> None:
        """Redraw everything, which takes a few milliseconds."""
        width, height = self.size.width, self.size.height
        if not width or not self.screen_stack:
            return
        context, view = self._setting(), self.view
        top = self.screen_stack[0].query_one("#header", Lines)
        if view is None:
            top.show(
                [[Span("accelscope top", Tone.STRONG), Span(f"  {self._source.title}")], [Span("reading")]]
            )
            top.styles.height = 2
            self._draw_keys()
            return
        self._alerts = alerts(view, context)
        upper, lower = panes(view, self.choices, context)
        lines = header(view, self._alerts, context, width, self._state())
        # Alerts get the lines that the tables do not need, and always a few.
        free = height - len(lines) - 1 - 2 * HEAD - len(upper.entries) - len(lower.entries)
        lines += alert_lines(self._alerts, context, width, min(max(2, height // 8, free), height // 3))
        top.show(lines)
        top.styles.height = len(lines)
        room = height - len(lines) - 1
        wanted = max(len(upper.entries), 1) + HEAD
        least_below = min(max(len(lower.entries), 1) + HEAD, room // 2)
        self._upper.styles.height = max(HEAD + 1, min(wanted, room - least_below))
        self._upper.show(upper, context)
        self._lower.show(lower, context)
        self._draw_keys()

    def _state(self) -> str:
        words = []
        if self._insecure:
            words.append("TLS NOT VERIFIED")
        if self.paused:
            words.append("PAUSED")
        words.append(f"every {self.interval_seconds:g}s")
        return "  ".join(words)

    def _draw_keys(self) -> None:
        width = self.size.width
        keys = self.screen_stack[0].query_one("#keys", Lines)
        line: Line = []
        if self._said is not None:
            text, tone = self._said
            line = [Span(clean(text, self._glyphs), tone)]
        else:
            if self.choices.text:
                line += [Span(f"filter: {clean(self.choices.text, self._glyphs)}", Tone.WARN), Span("  ")]
            for key, meaning in self._hints():
                part = [Span(key, Tone.STRONG), Span(f" {meaning}  ")]
                if sum(width_of(span.text) for span in [*line, *part]) - 2 <= width:
                    line += part
        keys.show([line])

    def _hints(self) -> list[tuple[str, str]]:
        overview = self.view is not None and self.view.overview is not None
        hints = [("q", "quit"), ("?", "help"), ("/", "filter"), ("s", "sort"), ("r", "reverse")]
        if overview:
            hints += [("Enter", "open"), ("[ ]", "pages")]
        else:
            hints += [("t", "tree"), ("Space", "select")]
            if self._source.kind is ViewKind.FLEET:
                hints.insert(2, ("Esc", "back"))
        hints += [
            ("p", "resume" if self.paused else "pause"),
            ("+-", "interval"),
            ("!", "alerts"),
            ("Tab", "table"),
        ]
        if self._source.kind is ViewKind.LOCAL:
            hints.append(("k", "signal"))
        return hints

    def show_message(self, text: str, tone: Tone = Tone.WARN) -> None:
        self._said, self._said_at = (text, tone), self._clock()
        self._draw_keys()
