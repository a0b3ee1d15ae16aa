"""Kinds of one value: numbers, durations, words, texts, paths."""

import math
import re
from typing import TypeVar

from accelscope.config.kind import BadValue, Kind

T = TypeVar("T")


class Number(Kind[T]):
    """A number within bounds, both included."""

    metavar = "NUMBER"

    def __init__(self, what: str, minimum: float | None, maximum: float | None) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self.allowed = what + _bounds(_plain(minimum), _plain(maximum))

    def _check(self, number: float) -> None:
        low = self._minimum is not None and number < self._minimum
        high = self._maximum is not None and number > self._maximum
        if low or high:
            raise BadValue


class WholeNumber(Number[int]):
    def __init__(
        self, minimum: int | None = None, maximum: int | None = None, what: str = "a whole number"
    ) -> None:
        super().__init__(what, minimum, maximum)

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip(), re.ASCII):
            raise BadValue
        number = int(text)
        self._check(number)
        return number


class Port(WholeNumber):
    metavar = "PORT"

    def __init__(self) -> None:
        super().__init__(0, 65535, "a port")
        self.allowed += " (0: any free one)"

    def parse(self, text: str) -> int:
        if text.startswith(("tcp://", "udp://")):
            # The kubelet sets NAME_PORT for every Service called NAME in the pod's namespace.
            raise BadValue("a Kubernetes service link set it: use enableServiceLinks: false in the pod")
        return super().parse(text)


class Decimal(Number[float]):
    def __init__(self, minimum: float | None = None, maximum: float | None = None) -> None:
        super().__init__("a number", minimum, maximum)

    def parse(self, text: str) -> float:
        number = _decimal(text)
        self._check(number)
        return number

    def text(self, value: float) -> str:
        return _plain(value)


_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(Kind[float]):
    """Seconds. A bare number is seconds too."""

    metavar = "DURATION"

    def __init__(self, minimum: float = 0.0, maximum: float | None = None) -> None:
        self._minimum = minimum
        self._maximum = maximum
        highest = "" if maximum is None else self.text(maximum)
        self.allowed = f"a duration{_bounds(self.text(minimum), highest)}, such as 10s, 500ms or 1m30s"

    def parse(self, text: str) -> float:
        written = text.strip()
        seconds = _decimal(written) if re.fullmatch(r"[+-]?[0-9.]+", written) else self._from_units(written)
        if seconds < self._minimum or (self._maximum is not None and seconds > self._maximum):
            raise BadValue
        return seconds

    @staticmethod
    def _from_units(written: str) -> float:
        parts = _DURATION_PART.findall(written)
        if not parts or "".join(number + unit for number, unit in parts) != written:
            raise BadValue
        seconds = math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)
        if not math.isfinite(seconds):
            raise BadValue
        return seconds

    def text(self, value: float) -> str:
        if value != 0 and value < 1:
            return f"{_plain(value * 1000)}ms"
        parts = []
        for unit in ("h", "m"):
            count, value = divmod(value, _SECONDS[unit])
            if count:
                parts.append(f"{count:.0f}{unit}")
        if value or not parts:
            parts.append(f"{_plain(value)}s")
        return "".join(parts)


class Boolean(Kind[bool]):
    allowed = "true or false (also yes/no, on/off, 1/0)"

    def parse(self, text: str) -> bool:
        match text.strip().lower():
            case "true" | "yes" | "on" | "1":
                return True
            case "false" | "no" | "off" | "0":
                return False
        raise BadValue

    def text(self, value: bool) -> str:
        return "true" if value else "false"


class Choice(Kind[str]):
    """One of a few words, in any case; the value is as declared."""

    def __init__(self, *choices: str) -> None:
        self._choices = {choice.lower(): choice for choice in choices}
        self.allowed = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
        self.metavar = "{" + ",".join(choices) + "}"

    def parse(self, text: str) -> str:
        try:
            return self._choices[text.strip().lower()]
        except KeyError:
            raise BadValue from None


class Text(Kind[str]):
    """Any text, or text of a given form (`pattern`, said in words by `allowed`)."""

    metavar = "TEXT"

    def __init__(self, allowed: str = "one line of text", pattern: str = r"[^\x00-\x1f\x7f]*") -> None:
        self.allowed = allowed
        self._pattern = re.compile(pattern)

    def parse(self, text: str) -> str:
        if not self._pattern.fullmatch(text):
            raise BadValue
        return text


class Path(Kind[str | None]):
    """A path, or None where none is given. Whether it exists is asked by who opens it, not here."""

    metavar = "PATH"
    allowed = "a path"

    def parse(self, text: str) -> str | None:
        if not text or "\0" in text:
            raise BadValue
        return text

    def text(self, value: str | None) -> str:
        return value or ""


class ConfigFile(Path):
    """The path of the settings file itself: a flag and an environment variable, no key in that file."""


def _decimal(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise BadValue from None
    if not math.isfinite(number) or "_" in text:
        raise BadValue
    return number


def _plain(number: float | None) -> str:
    return "" if number is None else f"{number:.12g}"


def _bounds(minimum: str, maximum: str) -> str:
    if minimum and maximum:
        return f" from {minimum} to {maximum}"
    if minimum:
        return f" of at least {minimum}"
    return f" of at most {maximum}" if maximum else ""


PORT = Port()
BOOLEAN = Boolean()
TEXT = Text()
PATH = Path()
CONFIG_FILE = ConfigFile()
