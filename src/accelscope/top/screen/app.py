"""What keys and mouse do."""

from dataclasses import replace
from signal import Signals
from textwrap import wrap
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from accelscope.top import signals
from accelscope.top.screen.board import Board
from accelscope.top.screen.lines import Lines
from accelscope.top.screen.sheets import Sheet, SignalQuestion, help_lines
from accelscope.top.screen.table import Table
from accelscope.top.view.devices import TONES, DeviceRow
from accelscope.top.view.frame import DEFAULT_SORTS, Choices, api_sort
from accelscope.top.view.overview import SumsRow
from accelscope.top.view.processes import ProcessRow
from accelscope.top.view.shown import Kind
from accelscope.top.view.table import Line, Sort, Span, Tone, next_sort
from accelscope.top.view.text import clean

INTERVALS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)  # seconds; the steps of + and -


class TopApp(Board):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c,ctrl+q", "quit", priority=False),
        Binding("question_mark,f1,h", "help"),
        # Before any widget sees it: the keys that follow it at once are the filter's, not a table's.
        Binding("slash", "filter", priority=True),
        Binding("escape,backspace", "take_back"),
        Binding("tab,shift+tab", "other_table"),
        Binding("s,greater_than_sign", "sort(1)"),
        Binding("S,less_than_sign", "sort(-1)"),
        Binding("r", "reverse"),
        Binding("t", "tree"),
        Binding("space", "mark"),
        Binding("enter", "open"),
        Binding("right_square_bracket", "turn(1)"),
        Binding("left_square_bracket", "turn(-1)"),
        Binding("exclamation_mark", "alerts"),
        Binding("p", "pause"),
        Binding("plus,equals_sign", "interval(1)"),
        Binding("minus", "interval(-1)"),
        Binding("f5,ctrl+l", "now"),
        Binding("k", "signal"),
        Binding("ctrl+z", "suspend_process"),
    ]

    def _choose(self, choices: Choices) -> None:
        self.choices = choices
        if self._source.kind is Kind.FLEET and self._question.node is None:
            asked = replace(
                self._question,
                text=choices.text,
                cluster=choices.cluster,
                sort=api_sort(choices.sorts.get("nodes")),
            )
            if asked != self._question:
                self._ask(replace(asked, page=0))
        self._draw()

    def action_help(self) -> None:
        self.push_screen(Sheet(lambda width: help_lines(width, self._glyphs)))

    def action_alerts(self) -> None:
        found = [(TONES[alert.level], clean(alert.text, self._glyphs)) for alert in self._alerts]

        def lines(width: int) -> list[Line]:
            head: list[Line] = [[Span("What is to be looked at, the worst first", Tone.STRONG)], []]
            for tone, text in found or [(Tone.GOOD, "nothing")]:
                for number, part in enumerate(wrap(text, max(20, width - 2))):
                    head.append([Span(" " if number else self._glyphs.alert, tone), Span(f" {part}")])
            return head

        self.push_screen(Sheet(lines))

    @property
    def _typing(self) -> bool:
        return bool(self.query_one("#typing").display)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the filter is typed, a slash is a letter of it."""
        if action == "filter":
            return not self._typing and len(self.screen_stack) == 1
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        entry = self.query_one("#filter", Input)
        entry.value = self.choices.text
        entry.cursor_position = len(entry.value)
        # At once, not with the next refresh: the keys that follow are for it, and may be here already.
        self.query_one("#typing").display = True
        self.query_one("#keys", Lines).display = False
        self.screen.set_focus(entry)

    def on_input_changed(self, event: Input.Changed) -> None:
        # A fleet's overview is asked for once the words are whole.
        if self._typing and (self.view is None or self.view.overview is None):
            self._choose(replace(self.choices, text=event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._end_typing()
        self._choose(replace(self.choices, text=event.value.strip()))

    def _end_typing(self) -> None:
        self.screen.set_focus(self._lower)
        self.query_one("#typing").display = False
        self.query_one("#keys", Lines).display = True

    def action_take_back(self) -> None:
        if self._typing:
            self._end_typing()
            self._choose(replace(self.choices, text=""))
        elif self.choices.text:
            self._choose(replace(self.choices, text=""))
        elif self.choices.marked:
            self._choose(replace(self.choices, marked=frozenset()))
        elif self._question.node is not None and self._source.kind is Kind.FLEET:
            self._go(None)
        elif self.choices.cluster is not None:
            self._choose(replace(self.choices, cluster=None))

    def action_other_table(self) -> None:
        (self._lower if self._upper.has_focus else self._upper).focus()

    def action_sort(self, step: int) -> None:
        pane = self._table.pane
        if pane.columns:
            self._choose(self.choices.sorted_by(pane.name, next_sort(pane.columns, pane.sort, step)))

    def action_reverse(self) -> None:
        pane = self._table.pane
        if pane.sort is not None:
            self._choose(
                self.choices.sorted_by(pane.name, Sort(pane.sort.column, reverse=not pane.sort.reverse))
            )

    def on_table_title_clicked(self, message: Table.TitleClicked) -> None:
        sort = self.choices.sorts.get(message.pane, DEFAULT_SORTS.get(message.pane))
        again = sort is not None and sort.column == message.column.name
        reverse = again and sort is not None and not sort.reverse
        self._choose(self.choices.sorted_by(message.pane, Sort(message.column.name, reverse=bool(reverse))))

    def action_tree(self) -> None:
        if self.view is not None and self.view.overview is None:
            self._choose(replace(self.choices, tree=self.choices.tree.following))

    def on_table_row_clicked(self, message: Table.RowClicked) -> None:
        if isinstance(message.table.entry and message.table.entry.row, DeviceRow):
            self.action_mark()
        else:
            self.action_open()

    def action_mark(self) -> None:
        """From whichever table has the cursor: it is the devices' cursor that counts."""
        entry = self._upper.entry
        if entry is None or not isinstance(entry.row, DeviceRow):
            return
        if not self._upper.has_focus:
            self._upper.focus()
            self.say("choose devices with Space; Esc takes it back", Tone.PLAIN)
            return
        self._choose(replace(self.choices, marked=self.choices.marked ^ {entry.row.key}))

    def action_open(self) -> None:
        row = self._table.entry.row if self._table.entry is not None else None
        if isinstance(row, DeviceRow):
            alone = frozenset({row.key})
            self._choose(replace(self.choices, marked=frozenset() if self.choices.marked == alone else alone))
        elif isinstance(row, ProcessRow) and row.folded is not None:
            self._choose(replace(self.choices, folded=self.choices.folded ^ {row.key}))
        elif isinstance(row, SumsRow) and row.cluster is None:
            self._choose(replace(self.choices, cluster=None if self.choices.cluster == row.key else row.key))
        elif isinstance(row, SumsRow) and row.cluster is not None:
            self._go((row.cluster, row.label))

    def _go(self, node: tuple[str, str] | None) -> None:
        """Into a node of the fleet, or back to its overview. The filter is of where it was typed."""
        self.choices = replace(self.choices, text="", marked=frozenset(), folded=frozenset())
        self._ask(replace(self._question, node=node, text=""))
        self.say(f"asking for {'/'.join(node) if node else 'the overview'}", Tone.PLAIN)
        self._waiting = True

    def action_turn(self, step: int) -> None:
        overview = self.view.overview if self.view is not None else None
        if overview is None:
            return
        page = self._question.page + step
        if page < 0 or (step > 0 and not overview.has_next):
            self.say("there is no page more", Tone.PLAIN)
            return
        self._ask(replace(self._question, page=page))

    def action_pause(self) -> None:
        self.paused = not self.paused
        self._feed.pace(self.interval_seconds, paused=self.paused)
        self._draw()

    def action_interval(self, step: int) -> None:
        below = [seconds for seconds in INTERVALS if seconds < self.interval_seconds]
        above = [seconds for seconds in INTERVALS if seconds > self.interval_seconds]
        chosen = above[:1] if step > 0 else below[-1:]
        self.interval_seconds = chosen[0] if chosen else self.interval_seconds
        self._feed.pace(self.interval_seconds, paused=self.paused)
        self._draw()

    def action_now(self) -> None:
        self._feed.now()

    def action_signal(self) -> None:
        entry = self._lower.entry
        row = entry.row if entry is not None else None
        if not isinstance(row, ProcessRow):
            return
        if self._source.kind is not Kind.LOCAL:
            self.say("no signal is sent: that process is on another machine")
        elif row.process is None:
            self.say("a group gets no signal: go to one of its processes")
        else:
            self._aim(row)

    def _aim(self, row: ProcessRow) -> None:
        assert row.process is not None
        proc_root: Any = getattr(self._source, "proc_root", "/proc")
        try:
            target = signals.aim(row.process, seen_at=self._seen_at(), proc_root=proc_root)
        except signals.Refusal as refusal:
            self.say(f"no signal is sent: {refusal}")
            return

        def answered(number: Signals | None) -> None:
            try:
                if number is None:
                    self.say("no signal was sent", Tone.PLAIN)
                else:
                    target.send(number)
                    self.say(f"{number.name} was sent to {target.pid} {target.name}", Tone.GOOD)
            except signals.Refusal as refusal:
                self.say(f"no signal is sent: {refusal}")
            finally:
                target.close()

        self.push_screen(SignalQuestion(target, self._glyphs), answered)

    def _seen_at(self) -> float:
        return self.view.at if self.view is not None else self._clock()
