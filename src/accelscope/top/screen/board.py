"""The screen: a header, two tables and the keys, redrawn with every view."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from textual import events
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from accelscope.top.screen.table import HEAD, Lines, ScreenTable
from accelscope.top.sources.source import Query, ViewSource, read_view
from accelscope.top.view.frame import Alert, Choices, alert_lines, alerts, header, panes
from accelscope.top.view.model import History, View, ViewKind
from accelscope.top.view.table import Line, RenderContext, Span, Tone
from accelscope.top.view.text import Glyphs, clean, width_of


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
