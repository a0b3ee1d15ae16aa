"""Formatting of values, and cleaning of foreign text for terminals."""

import re
import unicodedata
from dataclasses import dataclass

# A keyword with underscores, alone or between colons and commas.
_CODE = re.compile(r"(?:^|(?<=: )|(?<=, ))[a-z0-9]+(?:_[a-z0-9]+)+(?=: |, |$)")
_STEPS = ("B", "K", "M", "G", "T", "P")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters for lines and symbols, by what the terminal supports."""

    absent: str
    ellipsis: str
    bar_full: str
    bar_half: str
    bar_empty: str
    spark: str
    descending: str
    ascending: str
    mark: str
    alert: str
    degree: str
    dash: str
    open: str
    folded: str
    branch: str
    rule: str
    ascii: bool


UNICODE = Glyphs(
    absent="\N{EN DASH}",
    ellipsis="…",
    bar_full="━",
    bar_half="╸",
    bar_empty="─",
    spark="▁▂▃▄▅▆▇█",
    descending="▼",
    ascending="▲",
    mark="●",
    alert="▲",
    degree="°C",
    dash="\N{EN DASH}",
    open="▾",
    folded="▸",
    branch="└ ",
    rule="─",
    ascii=False,
)
ASCII = Glyphs(
    absent="-",
    ellipsis="~",
    bar_full="=",
    bar_half="-",
    bar_empty=".",
    spark="_.:-=+*#",
    descending="v",
    ascending="^",
    mark="*",
    alert="!",
    degree="C",
    dash="-",
    open="-",
    folded="+",
    branch="\\ ",
    rule="-",
    ascii=True,
)


def clean(text: str, glyphs: Glyphs = UNICODE) -> str:
    """Replace characters that could move the cursor, change colours or the direction of text; for ASCII
    terminals, replace all other characters too."""
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown.encode("ascii", "replace").decode() if glyphs.ascii else shown


def humanize(reason: str) -> str:
    """Replace the underscores of keywords such as not_shown by spaces."""
    return _CODE.sub(lambda found: found[0].replace("_", " "), reason)


def health_reason_text(reason: str | None, state: str) -> str | None:
    """The reason for a state, without the state itself at its beginning."""
    if reason is None:
        return None
    while reason.lower().startswith(f"{state}: "):
        reason = reason[len(state) + 2 :]
    return None if reason.lower() == state else humanize(reason)


def width_of(text: str) -> int:
    """Width in terminal cells."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int, glyphs: Glyphs) -> str:
    """Limit the text to a width; an ellipsis marks a cut."""
    if width_of(text) <= width:
        return text
    if width <= 0:
        return ""
    kept, used = [], 0
    for character in text:
        used += _cells(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept) + glyphs.ellipsis


def padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * max(0, width - width_of(text))
    return space + text if right else text + space


def percent(ratio: float | None, glyphs: Glyphs) -> str:
    return glyphs.absent if ratio is None else f"{100 * ratio:.0f}%"


def fraction(count: float | None, glyphs: Glyphs) -> str:
    """A number of shared devices: 0, 0.3, 12.0."""
    if count is None:
        return glyphs.absent
    return f"{count:.1f}" if count else "0"


def size(count: float | None, glyphs: Glyphs) -> str:
    """Bytes in powers of 1024 with three digits: 512M, 1.50G, 80.0G."""
    if count is None:
        return glyphs.absent
    step = _step(count)
    return _digits(count / 1024**step) + _STEPS[step]


def size_of(used: float | None, total: float | None, glyphs: Glyphs) -> str:
    """Both values in the unit of the larger one: 61.2/80.0G."""
    if used is None or total is None:
        return f"{size(used, glyphs)}/{size(total, glyphs)}" if used != total else glyphs.absent
    step = _step(max(used, total))
    return f"{_digits(used / 1024**step)}/{_digits(total / 1024**step)}{_STEPS[step]}"


def _step(count: float) -> int:
    step = 0
    while count >= 1000 * 1024**step and step < len(_STEPS) - 1:
        step += 1
    return step


def _digits(value: float) -> str:
    if value == 0 or value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def watts(value: float | None, glyphs: Glyphs) -> str:
    if value is None:
        return glyphs.absent
    return (
        f"{value:.0f}W"
        if value < 9999.5
        else (f"{value / 1e3:.1f}kW" if value < 1e6 else f"{value / 1e6:.2f}MW")
    )


def watts_of(value: float | None, limit: float | None, glyphs: Glyphs) -> str:
    if limit is None:
        return watts(value, glyphs)
    return f"{glyphs.absent if value is None else f'{value:.0f}'}/{limit:.0f}W"


def celsius(value: float | None, glyphs: Glyphs) -> str:
    return glyphs.absent if value is None else f"{value:.0f}{glyphs.degree}"


def hertz(value: float | None, glyphs: Glyphs) -> str:
    return glyphs.absent if value is None else f"{value / 1e6:.0f}MHz"


def duration(seconds: float | None, glyphs: Glyphs) -> str:
    """At most six characters: 45s, 3m12s, 4h05m, 12d03h, 319d."""
    if seconds is None:
        return glyphs.absent
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole // 60 % 60:02}m"
    days = whole // 86400
    return f"{days}d{whole // 3600 % 24:02}h" if days < 100 else f"{days}d"


def bar(ratio: float | None, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """The full part and the rest; blank if there is no value."""
    if ratio is None:
        return "", " " * width
    halves = round(2 * width * min(1.0, max(0.0, ratio)))
    if halves == 0 and ratio > 0:
        halves = 1  # a small value is visible
    full = glyphs.bar_full * (halves // 2) + glyphs.bar_half * (halves % 2)
    return full, glyphs.bar_empty * (width - len(full))


def sparkline(values: "list[float | None]", width: int, glyphs: Glyphs) -> str:
    """Ratios from 0 to 1, the newest at the right; a gap for each missing value."""
    top = len(glyphs.spark) - 1
    shown = values[-width:] if width > 0 else []
    line = "".join(
        " " if value is None else glyphs.spark[round(top * min(1.0, max(0.0, value)))] for value in shown
    )
    return " " * (width - len(line)) + line


def ranges(numbers: list[int]) -> str:
    """0-3,6"""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
