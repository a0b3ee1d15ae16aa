"""Lines as Textual draws them: in the terminal's own sixteen colours, so that they are right on dark and on
light; and never by colour alone, since there may be none."""

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from accelscope.top.view.table import Line, Tone
from accelscope.top.view.text import width_of

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
