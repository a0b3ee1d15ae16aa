"""Screens that lie over the tables: help, all alerts, and the question before a signal."""

import signal
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from accelscope.top.screen.lines import Lines
from accelscope.top.signals import SIGNALS, Target
from accelscope.top.view.table import Line, Span, Tone
from accelscope.top.view.text import Glyphs, clean

_KEY_WIDTH = 18
HELP: tuple[tuple[str, str | None], ...] = (
    ("Look", None),
    ("Tab", "go to the other table"),
    ("arrows", "move, as PgUp, PgDn, Home, End and the mouse wheel do"),
    ("/", "filter by words in pod, namespace, container, user, command, pid, node or model"),
    ("Esc", "take back: the filter, then the choice of devices, then the node of a fleet"),
    ("s  S", "sort by the next or the previous column; click a title to sort by it"),
    ("r", "turn the order round"),
    ("t", "processes flat, by pod and container, or by device"),
    ("Enter", "fold or open a group; choose this device alone; in a fleet, open a node or choose a cluster"),
    ("Space", "choose a device or partition: the processes follow (a second click does too)"),
    ("[  ]", "in a fleet, the page of nodes before and after"),
    ("!", "all that is wrong, in full"),
    ("Time", None),
    ("p", "pause, and go on"),
    ("+  -", "read less or more often"),
    ("F5", "read now"),
    ("Act", None),
    ("k", "send a signal to the process under the cursor: on this node, to your own, after a question"),
    ("Ctrl-Z", "leave it for the shell; fg comes back"),
    ("q", "quit"),
    ("Words of the column state", None),
    ("LOST CRIT WARN", "the device's health as its driver tells it"),
    ("STALE", "it could not be read the last time; an agent shows no old value, a fleet its last"),
    ("HOT", "5 degrees or less below where it slows down by itself (from 90 where that is not told)"),
    ("SLOW", "it is slowed down: by heat, by its power limit, by the board"),
    ("FULL", "95 % of its memory or more is in use"),
    ("IDLE", "a pod holds it and did nothing with it for half an hour or more"),
    ("ODD", "the fleet finds it out of its own habit"),
)


def help_lines(width: int, glyphs: Glyphs) -> list[Line]:
    lines: list[Line] = [[Span("accelscope top: keys and words", Tone.STRONG)]]
    for key, meaning in HELP:
        if meaning is None:
            lines += [[], [Span(key, Tone.SORTED)]]
            continue
        for number, part in enumerate(wrap(meaning, max(20, width - _KEY_WIDTH))):
            lines.append([Span(f"  {'' if number else key}".ljust(_KEY_WIDTH), Tone.STRONG), Span(part)])
    lines += [
        [],
        [Span(f"{glyphs.absent} is what nobody told; it is never 0. Use of several devices adds up.")],
    ]
    return lines


class Sheet(Screen[None]):
    """Text to read; any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,exclamation_mark", "dismiss_sheet", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
    ]

    def __init__(self, lines: Callable[[int], Sequence[Line]]) -> None:
        """`lines` for a width."""
        super().__init__()
        self._text = lines

    def compose(self) -> ComposeResult:
        yield Lines(id="sheet")
        yield Lines(id="keys")

    def on_resize(self) -> None:
        self.query_one("#sheet", Lines).show(self._text(self.size.width))
        self.query_one("#keys", Lines).show([[Span("Esc closes it, arrows move", Tone.DIM)]])

    def action_scroll(self, count: int) -> None:
        self.query_one("#sheet", Lines).scroll_by(count)

    def action_dismiss_sheet(self) -> None:
        self.dismiss(None)

    def on_mouse_scroll_down(self) -> None:
        self.action_scroll(3)

    def on_mouse_scroll_up(self) -> None:
        self.action_scroll(-3)


class SignalQuestion(Screen[signal.Signals | None]):
    """Which signal, and: really? The answer is None for no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n,q", "answer(False)", show=False),
        Binding("y", "answer(True)", show=False),
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
    ]

    def __init__(self, target: Target, glyphs: Glyphs) -> None:
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
            [Span(f"Send {number.name} to {target.pid} {name} of {user}?  y = yes, n = no", Tone.WARN)],
        ]
        self.query_one("#sheet", Lines).show(lines)
        self.query_one("#keys", Lines).show(
            [[Span("y sends it, n or Esc does not; arrows or 1-9 choose the signal", Tone.DIM)]]
        )


_MEANINGS = {
    signal.SIGTERM: "asks it to end",
    signal.SIGINT: "as Ctrl-C does",
    signal.SIGHUP: "its terminal is gone; many programs re-read their settings",
    signal.SIGQUIT: "ends it with a core dump, unless it does something else",
    signal.SIGUSR1: "what the program makes of it",
    signal.SIGUSR2: "what the program makes of it",
    signal.SIGSTOP: "holds it",
    signal.SIGCONT: "lets it go on",
    signal.SIGKILL: "ends it at once; it cannot clean up",
}
