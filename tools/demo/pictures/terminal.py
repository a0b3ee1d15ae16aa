"""A program in a real terminal (tmux), and its screen as HTML for a browser to take a picture of."""

import html
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_SECONDS = 60.0  # that the program may take to show something
_POLL_SECONDS = 0.5
_PAPER, _INK = "#16191d", "#d7dce1"
_DIM = 0.6  # of the ink
_CODES = re.compile(r"\x1b\[([\d;]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x0e|\x0f")
# The eight colours of old, as most terminals have them today, and their bright ones.
_NAMED = (
    *("#2b3036", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dce1"),
    *("#5c6370", "#ef7f88", "#abd68c", "#f0d08c", "#7cc0fa", "#d68bea", "#6cc9d4", "#ffffff"),
)
_STEPS = (0, 95, 135, 175, 215, 255)  # of the colour cube


class Terminal:
    def __init__(self, socket: Path, columns: int, lines: int) -> None:
        self._tmux = ("tmux", "-S", str(socket), "-f", "/dev/null")
        self.columns, self.lines = columns, lines

    def screen(self) -> str:
        """With codes for colours."""
        return self._run("capture-pane", "-p", "-e")

    def wait_for(self, text: str) -> None:
        """Raises TimeoutError."""
        end = time.monotonic() + _SECONDS
        while text not in plain(screen := self.screen()):
            if time.monotonic() > end:
                raise TimeoutError(f"the terminal does not show what it should:\n{plain(screen)}")
            time.sleep(_POLL_SECONDS)

    def start(self, command: Sequence[str]) -> None:
        given = ("env", "LC_ALL=C.UTF-8", "COLORTERM=truecolor", "TERM=tmux-256color")
        shell = f"{shlex.join((*given, *command))}; echo ended with $?; exec sleep 600"
        size = ("-x", str(self.columns), "-y", str(self.lines))
        self._run("-u", "new-session", "-d", *size, shell)
        self._run("set-option", "-ga", "terminal-overrides", ",*:Tc")

    def end(self) -> None:
        self._run("kill-server")

    def _run(self, *words: str) -> str:
        command = [*self._tmux, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


@contextmanager
def terminal(folder: Path, command: Sequence[str], *, columns: int, lines: int) -> Iterator[Terminal]:
    """In which the command runs until it is left."""
    opened = Terminal(folder / "tmux", columns, lines)
    opened.start(command)
    try:
        yield opened
    finally:
        opened.end()


def plain(screen: str) -> str:
    return _CODES.sub("", screen)


@dataclass(frozen=True, slots=True)
class _Look:
    ink: str | None = None
    paper: str | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underlined: bool = False
    swapped: bool = False

    @property
    def style(self) -> str:
        ink, paper = self.ink or _INK, self.paper or _PAPER
        if self.swapped:
            ink, paper = paper, ink
        rules = [f"color:{ink}"]
        rules += [f"background:{paper}"] if paper != _PAPER else []
        rules += ["font-weight:700"] if self.bold else []
        rules += [f"color:color-mix(in srgb,{ink} {_DIM:.0%},{paper})"] if self.dim else []
        rules += ["font-style:italic"] if self.italic else []
        rules += ["text-decoration:underline"] if self.underlined else []
        return ";".join(rules)


# What a code changes; 38 and 48 are followed by a colour.
_CHANGES: dict[int, dict[str, Any]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underlined": True},
    7: {"swapped": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underlined": False},
    27: {"swapped": False},
    39: {"ink": None},
    49: {"paper": None},
    **{30 + place: {"ink": colour} for place, colour in enumerate(_NAMED[:8])},
    **{90 + place: {"ink": colour} for place, colour in enumerate(_NAMED[8:])},
    **{40 + place: {"paper": colour} for place, colour in enumerate(_NAMED[:8])},
    **{100 + place: {"paper": colour} for place, colour in enumerate(_NAMED[8:])},
}


def _looked(look: _Look, numbers: list[int]) -> _Look:
    """After a code. What a picture does not need stays without effect."""
    while numbers:
        number = numbers.pop(0)
        if number == 0:
            look = _Look()
        elif number == 38:
            look = replace(look, ink=_colour(numbers))
        elif number == 48:
            look = replace(look, paper=_colour(numbers))
        else:
            look = replace(look, **_CHANGES.get(number, {}))
    return look


def _colour(numbers: list[int]) -> str:
    """Takes what belongs to it: 2 and three parts, or 5 and a place among 256."""
    if numbers.pop(0) == 2:
        red, green, blue = numbers.pop(0), numbers.pop(0), numbers.pop(0)
        return f"rgb({red},{green},{blue})"
    place = numbers.pop(0)
    if place < 16:
        return _NAMED[place]
    if place >= 232:
        grey = 8 + 10 * (place - 232)
        return f"rgb({grey},{grey},{grey})"
    red, green, blue = (_STEPS[(place - 16) // by % 6] for by in (36, 6, 1))
    return f"rgb({red},{green},{blue})"


def as_html(screen: str, title: str) -> str:
    """A page with the terminal in a window."""
    look, body = _Look(), []
    at = 0
    for code in _CODES.finditer(screen):
        body.append(_span(screen[at : code.start()], look))
        if code[1] is not None:
            look = _looked(look, [int(number or 0) for number in code[1].split(";")])
        at = code.end()
    body.append(_span(screen[at:], look))
    return f"""<!doctype html><meta charset="utf-8"><title>{html.escape(title)}</title><style>
body {{ display: inline-block; margin: 0; background: transparent; }}
figure {{ margin: 0; border: 1px solid #3a4048; border-radius: 8px; background: {_PAPER}; overflow: hidden; }}
figcaption {{ padding: 7px 14px; background: #23282e; color: #9aa4ae; font: 13px system-ui, sans-serif; }}
pre {{ margin: 0; padding: 10px 14px; color: {_INK}; font: 14px/18px "DejaVu Sans Mono", monospace; }}
</style><figure><figcaption>{html.escape(title)}</figcaption><pre>{"".join(body).rstrip()}</pre></figure>"""


def _span(text: str, look: _Look) -> str:
    return f'<span style="{look.style}">{html.escape(text)}</span>' if text else ""
