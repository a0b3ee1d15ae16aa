"""Keys and mouse, help, the list of problems, and the dialog for signals."""

import os
import select
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from textwrap import wrap
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input

from accelscope.attribution.processes import boot_time, proc_stat, started_at
from accelscope.top.screen.board import Board, Lines, ScreenTable
from accelscope.top.view.devices import TONES, DeviceRow
from accelscope.top.view.frame import DEFAULT_SORTS, Choices, api_sort
from accelscope.top.view.model import ProcessView, ViewKind
from accelscope.top.view.overview import SumsRow
from accelscope.top.view.processes import ProcessRow
from accelscope.top.view.table import Line, Sort, Span, Tone, next_sort
from accelscope.top.view.text import Glyphs, clean

# --- signals --------------------------------------------------------------
# Sends a signal to a process of the same user. A process descriptor and checks of its start time and user
# make sure that the pid has not been reused.


PROC = Path("/proc")
SIGNALS = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGSTOP,
    signal.SIGCONT,
    signal.SIGKILL,
)
_SAME_SECONDS = 2.0  # tolerance of start times, because the clock may have been set


class SignalError(Exception):
    """No signal is sent. The text is the reason."""


@dataclass(frozen=True, slots=True)
class SignalTarget:
    """A process, identified by a descriptor that a later process with the same pid does not match."""

    pid: int
    name: str
    user: str
    descriptor: int

    def send(self, number: signal.Signals) -> None:
        """Raises SignalError."""
        try:
            signal.pidfd_send_signal(self.descriptor, number)
        except ProcessLookupError:
            raise SignalError(f"{self.pid} {self.name} has ended") from None
        except OSError as error:
            raise SignalError(f"{number.name} to {self.pid} {self.name}: {error.strerror}") from None

    def close(self) -> None:
        os.close(self.descriptor)


def aim(process: ProcessView, *, seen_at: float, proc_root: str = "/proc") -> SignalTarget:
    """Raises SignalError if the process has ended, belongs to another user, or may be a different one."""
    if Path(proc_root).resolve() != PROC:
        raise SignalError(f"the processes are read from {proc_root}, not from /proc of this machine")
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise SignalError(f"{process.pid} {process.name or ''} has ended".rstrip()) from None
    except OSError as error:
        raise SignalError(f"cannot open process {process.pid}: {error.strerror}") from None
    try:
        _check(process, descriptor, seen_at)
    except BaseException:
        os.close(descriptor)
        raise
    return SignalTarget(process.pid, process.name or "?", process.user or str(os.getuid()), descriptor)


def _check(process: ProcessView, descriptor: int, seen_at: float) -> None:
    try:
        started, uid = _started(process.pid), _uid(process.pid)
    except (OSError, ValueError):
        raise SignalError(f"cannot read {process.pid} {process.name or '?'} from /proc") from None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(0):
        raise SignalError(f"{process.pid} {process.name or '?'} has ended")
    another = f"{process.pid} is now a different process"
    if started > seen_at + _SAME_SECONDS:
        raise SignalError(another)
    if process.started_at is not None and abs(started - process.started_at) > _SAME_SECONDS:
        raise SignalError(another)
    if uid != os.getuid():
        raise SignalError(
            f"{process.pid} {process.name or '?'} belongs to {process.user or f'user {uid}'}; "
            "signals can only be sent to your own processes"
        )


def _started(pid: int) -> float:
    """Unix time."""
    booted = boot_time((PROC / "stat").read_text(errors="replace"))
    if booted is None:
        raise ValueError("no btime")
    return started_at(proc_stat((PROC / str(pid) / "stat").read_bytes()), booted)


def _uid(pid: int) -> int:
    for line in (PROC / str(pid) / "status").read_bytes().decode(errors="replace").split("\n"):
        name, _, value = line.partition(":")
        if name == "Uid":
            return int(value.split()[0])
    raise ValueError("no Uid")


# --- screen ---------------------------------------------------------------


_KEY_WIDTH = 18
HELP: tuple[tuple[str, str | None], ...] = (
    ("Navigation", None),
    ("Tab", "switch to the other table"),
    ("arrows", "move the cursor; also PgUp, PgDn, Home, End and the mouse wheel"),
    ("/", "filter by pod, namespace, container, user, command, pid, node or model"),
    ("Esc", "clear the filter, then the selected devices; then leave the node of a fleet"),
    ("s  S", "sort by the next or the previous column, or click a column title"),
    ("r", "reverse the order"),
    ("t", "show processes flat, by pod and container, or by device"),
    ("Enter", "fold or unfold a group; select only this device; in a fleet, open a node or select a cluster"),
    ("Space", "select a device or partition and show only its processes (or click it twice)"),
    ("[  ]", "previous and next page of nodes of a fleet"),
    ("!", "list all problems"),
    ("Refresh", None),
    ("p", "pause or resume"),
    ("+  -", "longer or shorter interval"),
    ("F5", "refresh now"),
    ("Actions", None),
    ("k", "send a signal to the process at the cursor (your own processes on this node; asks first)"),
    ("Ctrl-Z", "suspend; fg resumes"),
    ("q", "quit"),
    ("States of a device", None),
    ("LOST CRIT WARN", "health of the device: lost, critical or warning"),
    ("STALE", "the last read failed; a fleet still shows the last values"),
    ("HOT", "at most 5 degrees below the slowdown temperature, or at least 90 degrees if that is unknown"),
    ("SLOW", "clocks are reduced because of heat, a power limit or the board"),
    ("FULL", "at least 95 % of its memory is in use"),
    ("IDLE", "allocated to a pod that has not used it for at least an hour"),
    ("ANOMALY", "the fleet has detected unusual values"),
)


def help_lines(width: int, glyphs: Glyphs) -> list[Line]:
    lines: list[Line] = [[Span("accelscope top: keys and states", Tone.STRONG)]]
    for key, meaning in HELP:
        if meaning is None:
            lines += [[], [Span(key, Tone.SORTED)]]
            continue
        for number, part in enumerate(wrap(meaning, max(20, width - _KEY_WIDTH))):
            lines.append([Span(f"  {'' if number else key}".ljust(_KEY_WIDTH), Tone.STRONG), Span(part)])
    lines += [
        [],
        [Span(f"{glyphs.absent} means that the value is not available. Use of several devices is added up.")],
    ]
    return lines


class TextScreen(Screen[None]):
    """Text over the whole screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,exclamation_mark", "dismiss_sheet", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
    ]

    def __init__(self, lines: Callable[[int], Sequence[Line]]) -> None:
        """`lines` returns the text for a width."""
        super().__init__()
        self._text = lines

    def compose(self) -> ComposeResult:
        yield Lines(id="sheet")
        yield Lines(id="keys")

    def on_resize(self) -> None:
        self.query_one("#sheet", Lines).show(self._text(self.size.width))
        self.query_one("#keys", Lines).show([[Span("Esc close, arrows scroll", Tone.DIM)]])

    def action_scroll(self, count: int) -> None:
        self.query_one("#sheet", Lines).scroll_by(count)

    def action_dismiss_sheet(self) -> None:
        self.dismiss(None)

    def on_mouse_scroll_down(self) -> None:
        self.action_scroll(3)

    def on_mouse_scroll_up(self) -> None:
        self.action_scroll(-3)


class SignalDialog(Screen[signal.Signals | None]):
    """Asks which signal to send. The result is None if the user cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n,q", "answer(False)", show=False),
        Binding("y", "answer(True)", show=False),
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
    ]

    def __init__(self, target: SignalTarget, glyphs: Glyphs) -> None:
        super().__init__()
        self._target = target
        self._glyphs = glyphs
        self._chosen = 0

    def compose(self) -> ComposeResult:
        yield Lines(id="sheet")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        self._show()

    def action_step(self, count: int) -> None:
        self._chosen = (self._chosen + count) % len(SIGNALS)
        self._show()

    def action_answer(self, yes: bool) -> None:
        self.dismiss(SIGNALS[self._chosen] if yes else None)

    def on_key(self, event: events.Key) -> None:
        if event.key.isdecimal() and 1 <= int(event.key) <= len(SIGNALS):
            self._chosen = int(event.key) - 1
            self._show()

    def _show(self) -> None:
        target, glyphs = self._target, self._glyphs
        number = SIGNALS[self._chosen]
        name, user = clean(target.name, glyphs), clean(target.user, glyphs)
        lines: list[Line] = [
            [Span("Send a signal", Tone.STRONG)],
            [],
            [Span("  pid   "), Span(str(target.pid), Tone.STRONG)],
            [Span("  name  "), Span(name, Tone.STRONG)],
            [Span("  user  "), Span(user, Tone.STRONG)],
            [],
        ]
        for at, each in enumerate(SIGNALS):
            sign = ">" if at == self._chosen else " "
            tone = Tone.STRONG if at == self._chosen else Tone.DIM
            lines.append([Span(f"  {sign} {at + 1}  {each.name:<8} {_MEANINGS[each]}", tone)])
        lines += [
            [],
            [Span(f"Send {number.name} to {target.pid} {name} of user {user}?  y = yes, n = no", Tone.WARN)],
        ]
        self.query_one("#sheet", Lines).show(lines)
        self.query_one("#keys", Lines).show(
            [[Span("y send, n or Esc cancel, arrows or 1-9 select the signal", Tone.DIM)]]
        )


_MEANINGS = {
    signal.SIGTERM: "terminate",
    signal.SIGINT: "interrupt, like Ctrl-C",
    signal.SIGHUP: "hang up; many programs reload their configuration",
    signal.SIGQUIT: "quit with a core dump",
    signal.SIGUSR1: "user-defined",
    signal.SIGUSR2: "user-defined",
    signal.SIGSTOP: "stop",
    signal.SIGCONT: "continue",
    signal.SIGKILL: "kill at once, without cleaning up",
}


INTERVALS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)  # seconds; the steps of + and -


class TopApp(Board):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c,ctrl+q", "quit", priority=False),
        Binding("question_mark,f1,h", "help"),
        # With priority, so that the next keys already go to the filter and not to a table.
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
        if self._source.kind is ViewKind.FLEET and self._query.node is None:
            asked = replace(
                self._query,
                text=choices.text,
                cluster=choices.cluster,
                sort=api_sort(choices.sorts.get("nodes")),
            )
            if asked != self._query:
                self._ask(replace(asked, page=0))
        self._draw()

    def action_help(self) -> None:
        self.push_screen(TextScreen(lambda width: help_lines(width, self._glyphs)))

    def action_alerts(self) -> None:
        found = [(TONES[alert.level], clean(alert.text, self._glyphs)) for alert in self._alerts]

        def lines(width: int) -> list[Line]:
            head: list[Line] = [[Span("Problems, the worst first", Tone.STRONG)], []]
            for tone, text in found or [(Tone.GOOD, "none")]:
                for number, part in enumerate(wrap(text, max(20, width - 2))):
                    head.append([Span(" " if number else self._glyphs.alert, tone), Span(f" {part}")])
            return head

        self.push_screen(TextScreen(lines))

    @property
    def _typing(self) -> bool:
        return bool(self.query_one("#typing").display)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the filter is edited, a slash is part of it."""
        if action == "filter":
            return not self._typing and len(self.screen_stack) == 1
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        entry = self.query_one("#filter", Input)
        entry.value = self.choices.text
        entry.cursor_position = len(entry.value)
        # At once, not with the next refresh: the next keys are for the filter, and may have arrived already.
        self.query_one("#typing").display = True
        self.query_one("#keys", Lines).display = False
        self.screen.set_focus(entry)

    def on_input_changed(self, event: Input.Changed) -> None:
        # The overview of a fleet is requested only when the filter is complete.
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
        elif self._query.node is not None and self._source.kind is ViewKind.FLEET:
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

    def on_screen_table_title_clicked(self, message: ScreenTable.TitleClicked) -> None:
        sort = self.choices.sorts.get(message.pane, DEFAULT_SORTS.get(message.pane))
        again = sort is not None and sort.column == message.column.name
        reverse = again and sort is not None and not sort.reverse
        self._choose(self.choices.sorted_by(message.pane, Sort(message.column.name, reverse=bool(reverse))))

    def action_tree(self) -> None:
        if self.view is not None and self.view.overview is None:
            self._choose(replace(self.choices, tree=self.choices.tree.following))

    def on_screen_table_row_clicked(self, message: ScreenTable.RowClicked) -> None:
        if isinstance(message.table.entry and message.table.entry.row, DeviceRow):
            self.action_mark()
        else:
            self.action_open()

    def action_mark(self) -> None:
        """Uses the cursor of the devices, whichever table has the focus."""
        entry = self._upper.entry
        if entry is None or not isinstance(entry.row, DeviceRow):
            return
        if not self._upper.has_focus:
            self._upper.focus()
            self.show_message("select devices with Space; Esc clears the selection", Tone.PLAIN)
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
        """Open a node of the fleet, or its overview, without the current filter."""
        self.choices = replace(self.choices, text="", marked=frozenset(), folded=frozenset())
        self._ask(replace(self._query, node=node, text=""))
        self.show_message(f"loading {'/'.join(node) if node else 'the overview'}", Tone.PLAIN)
        self._waiting = True

    def action_turn(self, step: int) -> None:
        overview = self.view.overview if self.view is not None else None
        if overview is None:
            return
        page = self._query.page + step
        if page < 0 or (step > 0 and not overview.has_next):
            self.show_message("no more pages", Tone.PLAIN)
            return
        self._ask(replace(self._query, page=page))

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
        if self._source.kind is not ViewKind.LOCAL:
            self.show_message("no signal sent: the process is on another machine")
        elif row.process is None:
            self.show_message("no signal sent: select a process, not a group")
        else:
            self._aim(row)

    def _aim(self, row: ProcessRow) -> None:
        assert row.process is not None
        proc_root: Any = getattr(self._source, "proc_root", "/proc")
        try:
            target = aim(row.process, seen_at=self._seen_at(), proc_root=proc_root)
        except SignalError as refusal:
            self.show_message(f"no signal sent: {refusal}")
            return

        def answered(number: Signals | None) -> None:
            try:
                if number is None:
                    self.show_message("no signal sent", Tone.PLAIN)
                else:
                    target.send(number)
                    self.show_message(f"{number.name} sent to {target.pid} {target.name}", Tone.GOOD)
            except SignalError as refusal:
                self.show_message(f"no signal sent: {refusal}")
            finally:
                target.close()

        self.push_screen(SignalDialog(target, self._glyphs), answered)

    def _seen_at(self) -> float:
        return self.view.at if self.view is not None else self._clock()
